package rules

import (
	"context"
	"errors"
	"time"

	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/task"
)

// The pause of a key by a task lasts so long.
const (
	LeastPause = time.Second
	MostPause  = time.Hour

	pauseNoteLimit = 200 // bytes
	pauseTimeout   = 2 * time.Second
)

// KeyPause pauses the limits of the keys of a task, for those whom the task calls: they want fewer calls for a while.
type KeyPause struct {
	Keys []string      // limit keys
	For  time.Duration // LeastPause to MostPause; others count as these
	By   string        // names the task
	Note string        // why, cut to its limit
}

// PauseKeys pauses limits of keys by the clock of Redis, and shortens no pause. A key without a limit of its own gets
// one that ends with the pause, and allows what the limit allows that applies to the key now. Errors: CodeInvalid if
// there are too many limits, CodeUnavailable.
func (r *Rules) PauseKeys(ctx context.Context, p KeyPause) error {
	entries, _, err := r.All(ctx)
	if err != nil {
		return err
	}
	all := make(limit.Rules, len(entries))
	for _, e := range entries {
		all[e.Name] = e.Rule
	}
	lasts, note := min(max(p.For, LeastPause), MostPause), task.Cut(p.Note, pauseNoteLimit)
	var errs []error
	for _, key := range p.Keys {
		name := limit.Name{Kind: limit.Key, Of: key}
		_, err := r.Change(ctx, name, p.By, func(e Entry, now time.Time) (Entry, error) {
			until := now.Add(lasts).UTC().Truncate(time.Millisecond)
			before := e.Rule
			if before == (limit.Rule{}) {
				before, _ = all.For(name)
			}
			if !before.Paused.Before(until) {
				return e, nil
			}
			e.Ends = e.Ends || e.Rule == limit.Rule{}
			e.Rule, e.Note = before, note
			e.Rule.Paused = until
			return e, nil
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// PauseKeysOf pauses the limits of a task's keys, as its attempt asks for, and takes pauseTimeout at most. note says
// why. A task without limit keys pauses nothing. Errors: those of PauseKeys.
func (r *Rules) PauseKeysOf(ctx context.Context, t task.Task, lasts time.Duration, note string) error {
	keys := t.LimitKeys()
	if lasts == 0 || len(keys) == 0 || !r.l.HasLimits() {
		return nil
	}
	by := "task " + t.ID
	if t.Namespace != task.DefaultNamespace {
		by += " in namespace " + t.Namespace
	}
	ctx, cancel := context.WithTimeout(ctx, pauseTimeout)
	defer cancel()
	return r.PauseKeys(ctx, KeyPause{Keys: keys, For: lasts, By: by, Note: note})
}

// hasEnded reports whether a limit has ended with its pause, so that it is none any more.
func (e Entry) hasEnded(now time.Time) bool { return e.Ends && !e.Rule.Paused.After(now) }

// Sweep is All for leaders, which also delete the limits that have ended with their pauses. Error: CodeUnavailable.
func (r *Rules) Sweep(ctx context.Context) (entries []Entry, now time.Time, _ error) {
	texts, now, err := r.texts(ctx)
	if err != nil {
		return nil, now, err
	}
	entries, ended := r.entries(ctx, texts, now)
	for _, e := range ended {
		name := e.Name.String()
		if _, err := r.write(ctx, e.Name, "", e.By, texts[name]); task.CodeOf(err) == task.CodeUnavailable {
			return nil, now, err
		} // else somebody has set it
	}
	return entries, now, nil
}
