package schedules

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// Standing is a schedule with its counts, and what its next tick may wait for.
type Standing struct {
	Schedule schedule.Schedule
	Waits    time.Time // the first tick that waits for it; zero if none does
	live     []liveTask
}

// Standing reads a schedule in one round trip. Errors: CodeScheduleNotFound, CodeInvalid for the name, CodeUnavailable.
func (s *Schedules) Standing(ctx context.Context, ref task.Ref) (Standing, error) {
	if err := task.ValidateRef(ref); err != nil {
		return Standing{}, err
	}
	k := s.l.KeysOf(ref)
	pipe := s.l.DB.ReadTogether()
	hash := pipe.HGetAll(ctx, string(k.Schedule(ref)))
	live, first := pipe.ZCard(ctx, string(k.Live(ref))), queueLive(ctx, pipe, k, ref)
	waiting, next := pipe.LLen(ctx, string(k.Waiting(ref))), pipe.LRange(ctx, string(k.Waiting(ref)), 0, 0)
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return Standing{}, layout.Unavailable(err)
	}
	if len(hash.Val()) == 0 {
		return Standing{}, notFound(ref)
	}
	read, err := decode(ref, hash.Val())
	if err != nil {
		return Standing{}, err
	}
	read.Live, read.Waiting = int(live.Val()), int(waiting.Val())
	standing := Standing{Schedule: read, live: liveIn(first)}
	for _, entry := range next.Val() { // "<tick ms> <name>"
		tick, _, _ := strings.Cut(entry, " ")
		if ms, err := strconv.ParseInt(tick, 10, 64); err == nil {
			standing.Waits = codec.FromMS(ms)
		}
	}
	return standing, nil
}

// Live is the id of the first of the tasks that have not ended; "" for none.
func (s Standing) Live() string {
	if len(s.live) == 0 {
		return ""
	}
	return s.Schedule.ID + "@" + s.live[0].name
}

// Retry returns the first of the live tasks that is tried again, in one round trip. Error: CodeUnavailable.
func (s *Schedules) Retry(ctx context.Context, standing Standing) (schedule.Retry, error) {
	return s.retryAmong(ctx, standing.Schedule, standing.live)
}
