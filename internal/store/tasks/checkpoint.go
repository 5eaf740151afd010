package tasks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Save saves a checkpoint for the attempts that follow this one, in place of an earlier one, and returns once Redis has it. Errors:
// CodeInvalid if it is not JSON or longer than task.CheckpointLimit; those of a report; or an error of Redis, after which the checkpoint
// may have been saved.
func (r *Run) Save(ctx context.Context, checkpoint json.RawMessage) error {
	compact, err := task.CompactCheckpoint(checkpoint)
	if err != nil {
		return err
	}
	t := r.Task
	return r.report(ctx, func() error {
		_, err := redisx.Run(ctx, r.s.l.DB, lua.Checkpoint{
			States: r.keys.States(), Checkpoints: r.keys.Checkpoints(), Member: t.Ref, Attempt: t.Attempt, Run: lua.RunToken(t.Run),
			Checkpoint: string(compact),
		})
		return err
	})
}

// readCheckpoint adds the checkpoint to a task that can have one. Error: CodeUnavailable.
func (s *Tasks) readCheckpoint(ctx context.Context, t *task.Task) error {
	if t.Attempt == 0 || t.State == task.Succeeded {
		return nil
	}
	text, err := s.l.DB.HGet(ctx, string(s.l.KeysOf(t.Ref).Checkpoints()), t.Ref.String()).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil
	case redisx.LeaveOutKey(ctx, string(s.l.KeysOf(t.Ref).Checkpoints()), err):
		return nil
	case err != nil:
		return layout.Unavailable(err)
	}
	if !json.Valid([]byte(text)) {
		t.Damage = cmp.Or(t.Damage, "its checkpoint is not JSON: the next attempt starts without one")
		return nil
	}
	t.Checkpoint = json.RawMessage(text)
	return nil
}
