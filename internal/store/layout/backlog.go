package layout

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/lua"
)

// ReadySets returns the sets of tasks that are due and wait for room in their queue, in those partitions: of one queue, or
// of all if queue is "". Error: CodeUnavailable.
func (l *Layout) ReadySets(ctx context.Context, partitions []int, queue string) ([]lua.ReadyKey, error) {
	pipe := l.DB.Pipeline()
	backlogs := make([]*redis.StringSliceCmd, len(partitions))
	for i, p := range partitions {
		backlogs[i] = pipe.SMembers(ctx, string(l.Keys.Partition(p).Backlog()))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, Unavailable(err)
	}
	var sets []lua.ReadyKey
	for i, p := range partitions {
		for _, name := range backlogs[i].Val() {
			if queue == "" || queue == name {
				sets = append(sets, l.Keys.Partition(p).Ready(name))
			}
		}
	}
	return sets, nil
}

// Backlog counts the tasks that are due and wait for room in their queue, by queue. Error: CodeUnavailable.
func (l *Layout) Backlog(ctx context.Context) (map[string]int, error) {
	counts := make(map[string]int)
	for p := range l.Partitions() {
		sizes, err := l.BacklogOf(ctx, p)
		if err != nil {
			return nil, err
		}
		for queue, n := range sizes {
			counts[queue] += n
		}
	}
	return counts, nil
}

// BacklogOf counts those of one partition. Error: CodeUnavailable.
func (l *Layout) BacklogOf(ctx context.Context, partition int) (map[string]int, error) {
	k := l.Keys.Partition(partition)
	queues, err := l.DB.SMembers(ctx, string(k.Backlog())).Result()
	if err != nil {
		return nil, Unavailable(err)
	}
	if len(queues) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	pipe := l.DB.Pipeline()
	sizes := make([]*redis.IntCmd, len(queues))
	for i, queue := range queues {
		sizes[i] = pipe.ZCard(ctx, string(k.Ready(queue)))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, Unavailable(err)
	}
	counts := make(map[string]int, len(queues))
	for i, queue := range queues {
		counts[queue] = int(sizes[i].Val())
	}
	return counts, nil
}
