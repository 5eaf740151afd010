package layout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Answer is what a Redis that takes writes has answered to a probe.
type Answer struct {
	Time       time.Time // of its clock
	Asked, Got time.Time // of this node's clock
}

// Probe finds out whether Redis takes writes, also while much else waits for it: one that answers may refuse them all, as it has too few replicas or
// cannot write to its disk. In a cluster it asks for each partition, whose slot may move; of any other Redis, for partition 0 only. It
// calls heard for each answer as soon as it comes, from several goroutines, so that a server that is silent does not keep the others from being
// heard; and never for a partition without an answer. It returns when each server has answered, or the deadline has passed.
func (l *Layout) Probe(ctx context.Context, heard func(partition int, a Answer)) {
	servers, _ := l.servers(ctx)
	_ = calls.Each(max(len(servers), 1), slices.Collect(maps.Values(servers)), func(_ int, partitions []int) error {
		probes := make([]lua.Probe, len(partitions))
		for i, p := range partitions {
			probes[i].States = l.Keys.Partition(p).States()
		}
		asked := clock.Now()
		results := redisx.RunEach[lua.ProbeReply](ctx, l.Vital, probes)
		got := clock.Now()
		for i, r := range results {
			if r.Err == nil {
				heard(partitions[i], Answer{Time: r.Reply.Now, Asked: asked, Got: got})
			}
		}
		return nil
	})
}

// servers returns the partitions to probe, by the address of the server that holds them. Error: those of the partitions whose server is not known.
func (l *Layout) servers(ctx context.Context) (map[string][]int, error) {
	if !l.Vital.Sharded() {
		return map[string][]int{"": {0}}, nil
	}
	partitions := make(map[string][]int)
	var failures []error
	for p := range l.partitions {
		_, address, err := l.Vital.ServerOf(ctx, string(l.Keys.Partition(p).States()))
		if err != nil {
			failures = append(failures, err)
			continue
		}
		partitions[address] = append(partitions[address], p)
	}
	return partitions, errors.Join(failures...)
}

// Ready checks that Redis takes writes: in a cluster, that one of its servers does, each of which is asked for one partition. It returns at the first
// server that does, or when ctx ends; it does not wait for the others. Error: CodeUnavailable, with what each server answered.
func (l *Layout) Ready(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	servers, failure := l.servers(ctx)
	answers := make(chan error, len(servers))
	for address, partitions := range servers {
		answer := l.writes.DoChan(address, func() (any, error) { return nil, l.write(ctx, partitions[0]) })
		go func() {
			select {
			case a := <-answer:
				answers <- at(address, a.Err)
			case <-ctx.Done():
				answers <- at(address, ctx.Err())
			}
		}()
	}
	for range servers {
		err := <-answers
		if err == nil {
			return nil
		}
		failure = errors.Join(failure, err)
	}
	if errors.Is(failure, context.Canceled) || errors.Is(failure, ErrOther) {
		return failure
	}
	return &task.Error{Code: task.CodeUnavailable, Message: "Redis takes no writes", Err: failure}
}

// write has the server of a partition make a write that changes nothing. Calls of Ready that ask the same server meanwhile share its answer: each would
// keep a connection to a silent server, as go-redis does not end a read when its context is cancelled. So the write has the deadline of the call that
// began it, and goes on when that call returns.
func (l *Layout) write(ctx context.Context, partition int) error {
	call := context.WithoutCancel(ctx)
	if deadline, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		call, cancel = context.WithDeadline(call, deadline)
		defer cancel()
	}
	err := l.Vital.Persist(call, string(l.Keys.Partition(partition).States())).Err() // it never expires
	if said := redisx.RefusedWrites(err); said != "" {
		return errors.New(said)
	}
	return err
}

// at adds the address of a server to its error, unless it is the only server.
func at(address string, err error) error {
	if err == nil || address == "" {
		return err
	}
	return fmt.Errorf("%s: %w", address, err)
}
