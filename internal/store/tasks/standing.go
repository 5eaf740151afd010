package tasks

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// Standing is what a partition does about a task that was claimed.
type Standing struct {
	Last       task.Attempt // the last one that has ended; without a number if none did, or if it cannot be read
	LookAt     time.Time    // when the leader looks after its delivery; zero if it is not queued
	LeaseUntil time.Time    // until when its run is leased; zero if it does not run
}

// Standing reads it in one round trip. Error: CodeUnavailable.
func (s *Tasks) Standing(ctx context.Context, ref task.Ref) (Standing, error) {
	k := s.l.KeysOf(ref)
	pipe := s.l.DB.Pipeline()
	look := pipe.ZScore(ctx, string(k.Queued()), ref.String())
	until := pipe.ZScore(ctx, string(k.Held()), ref.String())
	last := pipe.LRange(ctx, string(k.Attempts(ref)), -1, -1)
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return Standing{}, layout.Unavailable(err)
	}
	st := Standing{LookAt: codec.FromMS(int64(look.Val())), LeaseUntil: codec.FromMS(int64(until.Val()))}
	for _, attempt := range decodeAttempts(ctx, ref, last.Val()) {
		st.Last = attempt
	}
	return st, nil
}
