package tasks

import (
	"context"
	"fmt"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// confirmShared is the most callers that share a wait for replicas.
const confirmShared = 4096

// write is what replicas are to have: the creation of a task or, if run is not "", that this run has begun.
type write struct {
	ref task.Ref
	run string
}

// confirm waits until the replicas that the durability asks for have the writes. It returns an error for each: CodeNotReplicated. That a
// primary has them is looked up on the connection on which the wait goes: the one that accepted them may have been replaced since.
func (s *Tasks) confirm(ctx context.Context, writes []write) []error {
	refs := make([]task.Ref, len(writes))
	for i, w := range writes {
		refs[i] = w.ref
	}
	parts := s.parts(refs)
	calls := make([]lua.Confirm, len(parts))
	for n, p := range parts {
		calls[n] = lua.Confirm{Confirmed: p.keys.Confirmed(), Writes: nil}
		for _, i := range p.places {
			calls[n].Writes = append(calls[n].Writes, lua.ConfirmWrite{Member: writes[i].ref, Run: lua.RunToken(writes[i].run)})
		}
	}
	errs := make([]error, len(writes))
	for n, r := range redisx.RunReplicated[lua.ConfirmReply](ctx, s.l.DB, s.durability, calls) {
		for k, i := range parts[n].places {
			errs[i] = s.unconfirmed(r, k)
		}
	}
	return errs
}

// unconfirmed returns why the kth write of a call is not confirmed; nil if it is.
func (s *Tasks) unconfirmed(r redisx.Result[lua.ConfirmReply], k int) error {
	switch {
	case r.Err != nil:
		return &task.Error{Code: task.CodeNotReplicated, Err: r.Err, Message: fmt.Sprintf(
			"Redis has it, but did not confirm within %[2]s that %[1]d of its replicas have it: a failover may lose it; repeat the request",
			s.durability.Replicas, s.durability.Timeout)}
	case !r.Reply.Found[k]:
		return &task.Error{Code: task.CodeNotReplicated, Message: "Redis does not have it any more, as after a failover: repeat the request"}
	}
	return nil
}

// confirmTogether is confirm. A single write shares the wait with others.
func (s *Tasks) confirmTogether(ctx context.Context, writes []write) []error {
	if len(writes) != 1 {
		return s.confirm(ctx, writes)
	}
	err, failure := s.confirms.Do(ctx, writes[0])
	if failure != nil {
		err = failure
	}
	return []error{err}
}

// confirmCreated makes results of tasks that replicas do not have errors.
func (s *Tasks) confirmCreated(ctx context.Context, results []Created) {
	if s.durability == (config.Durability{}) {
		return
	}
	var writes []write
	var places []int
	for i, r := range results {
		if r.Err == nil {
			writes, places = append(writes, write{ref: r.Task.Ref}), append(places, i)
		}
	}
	for k, err := range s.confirmTogether(ctx, writes) {
		if err != nil {
			results[places[k]] = Created{Err: err}
		}
	}
}

// ConfirmBegun waits until replicas have the begins of runs, as ConfirmBegin does, and sets the errors of those that they do not have.
func (s *Tasks) ConfirmBegun(ctx context.Context, begun []Begun) {
	if s.durability == (config.Durability{}) {
		return
	}
	var writes []write
	var places []int
	for i, b := range begun {
		if b.Err == nil && b.Run.Task.MaxAttempts == 1 {
			writes, places = append(writes, write{ref: b.Run.Task.Ref, run: b.Run.Task.Run}), append(places, i)
		}
	}
	for k, err := range s.confirmTogether(ctx, writes) {
		begun[places[k]].Err = err
	}
}

// ConfirmBegin waits until the begin of a run is with the replicas that the durability asks for, if the task has one attempt only: a failover
// lets nobody begin it again then. Error: CodeNotReplicated; begin again with the same token, and confirm that.
func (s *Tasks) ConfirmBegin(ctx context.Context, r *Run) error {
	begun := []Begun{{Run: r}}
	s.ConfirmBegun(ctx, begun)
	return begun[0].Err
}
