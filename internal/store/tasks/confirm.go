package tasks

import (
	"context"
	"fmt"

	"github.com/dts-sched/dts/internal/config"

	"github.com/dts-sched/dts/internal/task"
)

// confirmShared is the most callers that share a wait for replicas.
const confirmShared = 4096

// confirm waits until the replicas that the durability asks for have all that their primaries wrote so far in those partitions. It returns
// an error for each partition: CodeNotReplicated.
func (s *Tasks) confirm(ctx context.Context, partitions []int) []error {
	keys := make([]string, len(partitions))
	for i, p := range partitions {
		keys[i] = string(s.l.Keys.Partition(p).Confirmed())
	}
	errs := s.l.DB.Replicate(ctx, s.durability, keys)
	for i, err := range errs {
		if err != nil {
			errs[i] = &task.Error{Code: task.CodeNotReplicated, Err: err, Message: fmt.Sprintf(
				"Redis has it, but not %d of its replicas within %s: a failover may lose it; repeat the request",
				s.durability.Replicas, s.durability.Timeout)}
		}
	}
	return errs
}

// confirmCreated makes results of tasks that replicas do not have errors.
func (s *Tasks) confirmCreated(ctx context.Context, results []Created) {
	if s.durability == (config.Durability{}) {
		return
	}
	var partitions []int
	places := make(map[int][]int) // by partition
	for i, r := range results {
		if r.Err != nil {
			continue
		}
		p := s.l.PartitionOf(r.Task.Ref)
		if places[p] == nil {
			partitions = append(partitions, p)
		}
		places[p] = append(places[p], i)
	}
	for n, err := range s.confirmEach(ctx, partitions) {
		for _, i := range places[partitions[n]] {
			if err != nil {
				results[i] = Created{Err: err}
			}
		}
	}
}

// confirmEach is confirm. A single partition shares the wait with others.
func (s *Tasks) confirmEach(ctx context.Context, partitions []int) []error {
	if len(partitions) != 1 {
		return s.confirm(ctx, partitions)
	}
	err, failure := s.confirms.Do(ctx, partitions[0])
	if failure != nil {
		err = failure
	}
	return []error{err}
}

// ConfirmBegin waits until the begin of a run is with the replicas that the durability asks for, if the task has one attempt only: a failover
// lets nobody begin it again then. Error: CodeNotReplicated; begin again with the same token, and confirm that.
func (s *Tasks) ConfirmBegin(ctx context.Context, r *Run) error {
	if s.durability == (config.Durability{}) || r.Task.MaxAttempts != 1 {
		return nil
	}
	return s.confirmEach(ctx, []int{s.l.PartitionOf(r.Task.Ref)})[0]
}
