package rules

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// Standing is how a limit of tasks stands.
type Standing struct {
	Limit   string     // as tasks have it: "key:tenant-7"
	Set     Entry      // what was set for it: its Name may end with "*"
	Held    int        // slots that tasks hold
	Holders []task.Ref // some of these tasks
	Token   time.Time  // when a task of that cost may start by the rate; zero: now, or there is no rate
}

// bucketField is the field of the use of a limit that says when its bucket is full again.
const bucketField = "@"

// Standings reads how limits of a task of that cost stand. Those for which nothing is set any more are left out. It
// takes two round trips. Error: CodeUnavailable.
func (r *Rules) Standings(ctx context.Context, limits []string, cost int) ([]Standing, error) {
	entries, now, err := r.All(ctx)
	if err != nil {
		return nil, err
	}
	set := make(map[limit.Name]Entry)
	rules := make(limit.Rules)
	for _, e := range entries {
		set[e.Name], rules[e.Name] = e, e.Rule
	}
	pipe := r.l.DB.Pipeline()
	var all []Standing
	var reads []standingReads
	for _, name := range limits {
		n, err := limit.ParseName(name)
		if err != nil {
			continue
		}
		if of, is := rules.Which(n); is {
			all = append(all, Standing{Limit: name, Set: set[of]})
			reads = append(reads, r.ask(ctx, pipe, name))
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, layout.Unavailable(err)
	}
	for i := range all {
		reads[i].note(&all[i], cost, now)
	}
	return all, nil
}

// standingReads are what Redis is asked about a limit.
type standingReads struct {
	held   []*redis.IntCmd
	some   []*redis.StringSliceCmd
	bucket *redis.StringCmd
}

func (r *Rules) ask(ctx context.Context, pipe redis.Pipeliner, name string) (s standingReads) {
	for p := range r.l.Partitions() {
		key := string(r.l.Keys.Partition(p).Holds(name))
		s.held = append(s.held, pipe.SCard(ctx, key))
		s.some = append(s.some, pipe.SRandMemberN(ctx, key, 1))
	}
	s.bucket = pipe.HGet(ctx, string(r.l.Keys.Partition(r.l.HomeOf(name)).Use(name)), bucketField)
	return s
}

// Holders returns some of the tasks that hold slots of a limit, by name. Error: CodeUnavailable.
func (r *Rules) Holders(ctx context.Context, name string, most int) (holders []task.Ref, _ error) {
	pipe := r.l.DB.Pipeline()
	some := make([]*redis.StringSliceCmd, r.l.Partitions())
	for p := range some {
		some[p] = pipe.SRandMemberN(ctx, string(r.l.Keys.Partition(p).Holds(name)), int64(most))
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, layout.Unavailable(err)
	}
	for _, members := range some {
		for _, member := range members.Val() {
			if ref, err := holderOf(member); err == nil {
				holders = append(holders, ref)
			}
		}
	}
	slices.SortFunc(holders, func(a, b task.Ref) int { return strings.Compare(a.String(), b.String()) })
	holders = slices.Compact(holders)
	return holders[:min(len(holders), most)], nil
}

// holderOf returns the task of a member of the holders of a limit. A task is several holders, as lua/include/holder.lua
// says.
func holderOf(member string) (task.Ref, error) {
	member, _, _ = strings.Cut(member, " ")
	return task.ParseRef(member)
}

func (s standingReads) note(to *Standing, cost int, now time.Time) {
	for i, n := range s.held {
		to.Held += int(n.Val())
		for _, member := range s.some[i].Val() {
			if ref, err := holderOf(member); err == nil {
				to.Holders = append(to.Holders, ref)
			}
		}
	}
	ms, err := strconv.ParseFloat(s.bucket.Val(), 64)
	if err != nil || to.Set.Rule.Rate == 0 {
		return
	}
	b := limit.Bucket{Full: time.UnixMicro(int64(ms * 1000))}
	if at := b.When(to.Set.Rule, max(cost, 1)); at.After(now) {
		to.Token = at
	}
}
