package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Start is an attempt to begin. Run is a token that the caller makes for this run: "<node>#" and something that is unique on
// the node. Queue is that of the delivery; "" if that is not known.
type Start struct {
	Ref     task.Ref
	Attempt int
	Run     string
	Queue   string
}

// Begun is the result of a Start. Err is ErrLeftover if the task is not queued for that attempt and in that queue, ErrForeignType if it is,
// but is not one for this node, or an error of Redis, after which the attempt may have begun.
type Begun struct {
	Run *Run
	Err error
}

// Runner is who begins attempts.
type Runner struct {
	Node  string        // its id
	Types []string      // of the tasks that it runs; none means all
	Lease time.Duration // how long its runs are leased; 0 means RunLease
	// Decodes says that whoever gets a payload decodes it, and fails the attempt if it is no JSON. BeginEach then does
	// not look whether it is, which takes 2 µs for 200 bytes.
	Decodes bool
}

// BeginEach starts attempts for a worker, in one round trip, and returns a result for each, in order. The same Start sent again
// succeeds again; one with another token does not.
func (s *Tasks) BeginEach(ctx context.Context, who Runner, starts []Start) []Begun {
	refs := make([]task.Ref, len(starts))
	for i, start := range starts {
		refs[i] = start.Ref
	}
	begun := make([]Begun, len(starts))
	runParts(ctx, s.l.DB, s.parts(refs), func(p part) lua.Begin {
		call := lua.Begin{
			States: p.keys.States(), Node: lua.NodeID(who.Node), Lease: cmp.Or(who.Lease, s.runLease), Types: lua.TypesText(who.Types),
			Events: s.l.Keys.Events(), Attempts: nil,
		}
		for _, i := range p.places {
			call.Attempts = append(call.Attempts, lua.BeginAttempt{
				Member: starts[i].Ref, Attempt: starts[i].Attempt, Run: lua.RunToken(starts[i].Run), Queue: starts[i].Queue,
			})
		}
		return call
	}, func(i, k int, r redisx.Result[lua.BeginReply]) {
		if begun[i].Err = r.Err; r.Err == nil {
			begun[i] = s.begun(starts[i], who, r.Reply.Answers[k])
		}
	})
	s.failDamaged(ctx, begun)
	return begun
}

// failDamaged ends the attempts of tasks that cannot be read as a whole, so that nobody runs them with the rest. Their results are then
// ErrLeftover, or the error of the report, after which the same Start can be sent again.
func (s *Tasks) failDamaged(ctx context.Context, begun []Begun) {
	for i, b := range begun {
		if b.Err != nil || b.Run.Task.Damage == "" {
			continue
		}
		t := b.Run.Task
		err := b.Run.Finish(ctx, task.Failed, task.OutcomeFailed, "", t.Damage)
		if errors.Is(err, ErrCancelled) {
			err = b.Run.Finish(ctx, task.Cancelled, task.OutcomeCancelled, "", t.Damage)
		}
		if err == nil {
			s.l.Log.ErrorContext(ctx, "a task failed that cannot be read", "task", t.Ref.String(), "error", t.Damage)
			err = fmt.Errorf("task %s, attempt %d: %w: %s", t.Ref, t.Attempt, ErrLeftover, t.Damage)
		}
		begun[i] = Begun{Err: err}
	}
}

// begun decodes one answer of begin.
func (s *Tasks) begun(start Start, who Runner, answer lua.BeginAnswer) Begun {
	if answer.Refused.Code == lua.CodeType {
		return Begun{Err: fmt.Errorf("task %s, attempt %d: %w: %s", start.Ref, start.Attempt, ErrForeignType, answer.Refused.Detail)}
	}
	if code := answer.Refused.Code; code != "" {
		return Begun{Err: fmt.Errorf("task %s, attempt %d: %w: %s", start.Ref, start.Attempt, ErrLeftover, code)}
	}
	run := s.RunOf(s.decode(start.Ref, codec.Record{
		Definition: answer.Record, Payload: answer.Payload, State: answer.State, Checkpoint: answer.Checkpoint,
		Unproved: who.Decodes,
	}))
	run.Lease = who.Lease
	return Begun{Run: run}
}

// Begin starts one attempt, as BeginEach does. The node is the part of the run token before "#".
func (s *Tasks) Begin(ctx context.Context, ref task.Ref, attempt int, run string) (*Run, error) {
	node, _, _ := strings.Cut(run, "#")
	begun := s.BeginEach(ctx, Runner{Node: node}, []Start{{Ref: ref, Attempt: attempt, Run: run}})[0]
	return begun.Run, begun.Err
}
