package tasks

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Once is what became of a submission with a key.
type Once struct {
	Outcome task.OnceOutcome
	Next    time.Time // when the next task may be due, of a throttle
	After   string    // the id of the task whose end the one that was created waits for; "" for none
}

// onceCall is the call for the submission of a task that has a key.
func (s *Tasks) onceCall(c *creation, dry bool) lua.SubmitOnce {
	d, o := c.d, c.d.Once
	call := lua.SubmitOnce{
		Defs: s.l.KeysOf(d.Ref).Defs(), Member: d.Ref, Mode: string(o.Mode), Wait: o.Wait, Max: o.Max,
		Drop: o.Excess != task.ExcessDelay, Every: o.Every, Def: c.def, Traced: "", RunAt: d.RunAt, Delay: d.Delay,
		By: task.NewerSubmission, Dry: dry,
		Events: s.l.Keys.Events(), Control: s.l.Keys.Control(), Wake: s.l.WakeOf(d.Ref),
	}
	if d.Trace != "" && !dry {
		call.Traced = codec.WithTrace(c.def, d.Trace)
	}
	return call
}

// submitOnce makes creations of tasks that have keys. It returns those whose tasks existed before, and are to be read.
func (s *Tasks) submitOnce(ctx context.Context, all []*creation, dry bool) (existed []*creation) {
	calls := make([]lua.SubmitOnce, len(all))
	for n, c := range all {
		calls[n] = s.onceCall(c, dry)
	}
	for n, reply := range redisx.RunEach[lua.SubmitOnceReply](ctx, s.l.DB, calls) {
		c := all[n]
		switch r := reply.Reply; {
		case reply.Err != nil:
			c.err = layout.Unavailable(reply.Err)
			continue
		case !isOnceOutcome(r.Outcome):
			c.known = s.taken(c.d, r.Outcome)
			c.known.Once.Outcome = task.OnceExisting
		default:
			c.known = &Created{Task: newTask(c.d, r.Now), Existed: r.Task != c.d.Ref || r.Due.IsZero()}
			c.known.Task.Ref, c.known.Task.DueAt = r.Task, r.Due
			c.known.Once = Once{Outcome: task.OnceOutcome(r.Outcome), Next: r.Upcoming}
			if r.Front != r.Task {
				c.known.Once.After = r.Front.ID
			}
		}
		if c.known.isToRead() {
			existed = append(existed, c)
		}
	}
	return existed
}

// isOnceOutcome reports whether an answer is an outcome, and not one of create.
func isOnceOutcome(answer string) bool {
	return slices.Contains(task.OnceOutcomes, task.OnceOutcome(answer))
}

// ReadAfter adds to a task with a key the id of the one whose end it waits for. Error: CodeUnavailable.
func (s *Tasks) ReadAfter(ctx context.Context, t *task.Task) error {
	if t.State != task.Scheduled || !t.WaitsForAnother() {
		return nil
	}
	key, name, _ := t.Ref.Key()
	known := string(s.l.KeysOf(t.Ref).Once())
	record, err := s.l.DB.HGet(ctx, known, task.Ref{Namespace: t.Ref.Namespace, ID: key}.String()).Result()
	switch f := strings.Fields(record); {
	case errors.Is(err, redis.Nil) || redisx.LeaveOutKey(ctx, known, err):
	case err != nil:
		return layout.Unavailable(err)
	case len(f) > 1 && f[1] == name && f[0] != noName:
		t.After = task.Ref{ID: f[0]}.Keyed(key).ID
	}
	return nil
}

// noName stands for no task in what is known of a key, as lua/include/once.lua writes it.
const noName = "@"
