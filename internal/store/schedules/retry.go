package schedules

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// liveLooked is how many live tasks of a schedule are looked at for one that is tried again: those of its first ticks.
// Few schedules have more than one.
const liveLooked = 20

// liveTask is a task of a schedule that has not ended.
type liveTask struct {
	name string // of its tick
	tick time.Time
}

// queueLive reads the first live tasks of a schedule with a pipeline.
func queueLive(ctx context.Context, pipe redis.Pipeliner, k lua.Partition, ref task.Ref) *redis.ZSliceCmd {
	return pipe.ZRangeWithScores(ctx, string(k.Live(ref)), 0, liveLooked-1)
}

// liveIn are the live tasks that queueLive has read.
func liveIn(found *redis.ZSliceCmd) (live []liveTask) {
	for _, z := range found.Val() {
		live = append(live, liveTask{codec.Text(z.Member), time.UnixMilli(int64(z.Score)).UTC()})
	}
	return live
}

// retryReading reads how some live tasks of a schedule stand.
type retryReading struct {
	sched  schedule.Schedule
	live   []liveTask
	states *redis.SliceCmd
	dues   *redis.FloatSliceCmd
	ended  []*redis.StringSliceCmd // the newest attempt of each that has ended

	defs    *redis.SliceCmd    // nil if nobody asks what is outdated
	records []*redis.ZSliceCmd // of their ticks, as defs
}

// queueRetry reads how some live tasks of a schedule stand with a pipeline; nil for none.
func (s *Schedules) queueRetry(
	ctx context.Context, pipe redis.Pipeliner, sched schedule.Schedule, live []liveTask, outdated bool,
) *retryReading {
	if len(live) == 0 {
		return nil
	}
	r, k, names := &retryReading{sched: sched, live: live}, s.l.KeysOf(sched.Ref), make([]string, len(live))
	for i, t := range live {
		names[i] = sched.Ref.String() + "@" + t.name
		ref := task.Ref{Namespace: sched.Namespace, ID: sched.ID + "@" + t.name}
		r.ended = append(r.ended, pipe.LRange(ctx, string(k.Attempts(ref)), -1, -1))
		if outdated && sched.Revision > 1 {
			upto := &redis.ZRangeBy{Min: "-inf", Max: fmt.Sprint(t.tick.UnixMilli()), Count: 2} // a chunk begins earlier
			r.records = append(r.records, pipe.ZRevRangeByScoreWithScores(ctx, string(k.Ledger(sched.Ref)), upto))
		}
	}
	r.states = pipe.HMGet(ctx, string(k.States()), names...)
	r.dues = pipe.ZMScore(ctx, string(k.Wheel()), names...)
	if len(r.records) > 0 {
		r.defs = pipe.HMGet(ctx, string(k.Defs()), names...)
	}
	return r
}

// first is the first of the tasks that is tried again. What cannot be read is none.
func (r *retryReading) first() schedule.Retry {
	if r == nil || len(r.states.Val()) < len(r.live) {
		return schedule.Retry{}
	}
	for i := range r.live {
		if again, ok := r.at(i); ok {
			return again
		}
	}
	return schedule.Retry{}
}

// at is the task at a place; ok is false if it is not tried again.
func (r *retryReading) at(i int) (again schedule.Retry, ok bool) {
	t := taskOf(codec.Text(r.states.Val()[i]))
	if t.State.Final() || t.State == task.Unreadable || len(r.ended[i].Val()) == 0 {
		return again, false
	}
	last, err := codec.DecodeAttempt(r.ended[i].Val()[0])
	if err != nil || !hasFailed(last.Outcome) {
		return again, false
	}
	again = schedule.Retry{
		Task: r.sched.ID + "@" + r.live[i].name, Attempts: last.Number, EndedAt: last.FinishedAt,
		Error: cmp.Or(last.Error, string(last.Outcome)),
	}
	if t.State == task.Scheduled {
		again.DueAt = t.DueAt
		if dues := r.dues.Val(); i < len(dues) && dues[i] > 0 {
			again.DueAt = time.UnixMilli(int64(dues[i])).UTC()
		}
	}
	again.Outdated, again.Revision = r.outdated(i)
	return again, true
}

// hasFailed reports whether an attempt has failed: its end was nobody's wish.
func hasFailed(o task.Outcome) bool {
	return o == task.OutcomeFailed || o == task.OutcomeTimeout || o == task.OutcomeLost
}

// outdated reports whether an earlier revision has created the task at a place, and defines it otherwise than the
// present one; and which it was, 0 if the ledger does not tell.
func (r *retryReading) outdated(i int) (bool, int) {
	if r.defs == nil || i >= len(r.defs.Val()) {
		return false, 0
	}
	created, def, ok := codec.Split(codec.Text(r.defs.Val()[i]))
	if !ok || codec.SameContent(def, r.sched.Task) {
		return false, 0
	}
	for _, z := range r.records[i].Val() {
		packed, _ := codec.DecodeLedger(codec.Text(z.Member), int64(z.Score)) // doctor names damage
		for _, e := range packed {
			if e.Name == r.live[i].name {
				return e.Revision < r.sched.Revision, e.Revision
			}
		}
	}
	return created.Before(r.sched.UpdatedAt), 0
}

// RetryOf returns the first of the live tasks of a schedule that is tried again, in two round trips. The schedule may
// be as it would be with another definition. Error: CodeUnavailable.
func (s *Schedules) RetryOf(ctx context.Context, sched schedule.Schedule) (schedule.Retry, error) {
	pipe := s.l.DB.Pipeline()
	live := queueLive(ctx, pipe, s.l.KeysOf(sched.Ref), sched.Ref)
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return schedule.Retry{}, layout.Unavailable(err)
	}
	return s.retryAmong(ctx, sched, liveIn(live))
}

// retryAmong is the first of some live tasks of a schedule that is tried again. Error: CodeUnavailable.
func (s *Schedules) retryAmong(
	ctx context.Context, sched schedule.Schedule, live []liveTask,
) (schedule.Retry, error) {
	pipe := s.l.DB.Pipeline()
	reading := s.queueRetry(ctx, pipe, sched, live, true)
	if reading == nil {
		return schedule.Retry{}, nil
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return schedule.Retry{}, layout.Unavailable(err)
	}
	return reading.first(), nil
}
