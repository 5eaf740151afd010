package layout

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// Answer is what a Redis that takes writes has answered to a probe.
type Answer struct {
	Time       time.Time // of its clock
	Asked, Got time.Time // of this node's clock
}

// Probe finds out whether Redis takes writes, also while much else waits for it: one that answers may refuse them all, as it has too few replicas or
// cannot write to its disk. In a cluster it asks for each partition, whose slot may move; of any other Redis, for partition 0 only. It
// calls heard for each answer as soon as it comes, so that a server that is silent does not keep the others from being heard: not one call at a time.
// Error: those of the partitions without an answer.
func (l *Layout) Probe(ctx context.Context, heard func(partition int, a Answer)) error {
	servers, failures := l.servers(ctx)
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, partitions := range servers {
		asking.Go(func() {
			calls := make([]lua.Probe, len(partitions))
			for i, p := range partitions {
				calls[i].States = l.Keys.Partition(p).States()
			}
			asked := clock.Now()
			results := redisx.RunEach[lua.ProbeReply](ctx, l.Vital, calls)
			got := clock.Now()
			for i, r := range results {
				if r.Err == nil {
					heard(partitions[i], Answer{Time: r.Reply.Now, Asked: asked, Got: got})
					continue
				}
				mu.Lock()
				failures = append(failures, r.Err)
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	return errors.Join(failures...)
}

// servers returns the partitions to probe, by the address of the server that holds them, and an error for each of which that is not known.
func (l *Layout) servers(ctx context.Context) (partitions map[string][]int, failures []error) {
	if !l.Vital.Sharded() {
		return map[string][]int{"": {0}}, nil
	}
	partitions = make(map[string][]int)
	for p := range l.partitions {
		_, address, err := l.Vital.ServerOf(ctx, string(l.Keys.Partition(p).States()))
		if err != nil {
			failures = append(failures, err)
			continue
		}
		partitions[address] = append(partitions[address], p)
	}
	return partitions, failures
}

// Ready checks that Redis takes writes: in a cluster, that one of its servers does. Error: CodeUnavailable.
func (l *Layout) Ready(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var heard sync.Once
	ready := false
	err := l.Probe(ctx, func(int, Answer) {
		heard.Do(func() { ready = true; cancel() }) // the others need not answer
	})
	if ready {
		return nil
	}
	return Unavailable(err)
}
