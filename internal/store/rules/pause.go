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

// pauseStep is how much longer a pause must last to replace another one: else each of many 429s would be written.
const pauseStep = time.Second

// PauseKeys pauses limits of keys by the clock of Redis, and shortens no pause. A key without a limit of its own gets
// one that ends with the pause, as Pause says. Errors: CodeInvalid if there are too many limits, CodeUnavailable.
func (r *Rules) PauseKeys(ctx context.Context, p KeyPause) error {
	all, ending, err := r.rules(ctx)
	if err != nil {
		return err
	}
	lasts, note := min(max(p.For, LeastPause), MostPause), task.Cut(p.Note, pauseNoteLimit)
	var errs []error
	for _, key := range p.Keys {
		name := limit.Name{Kind: limit.Key, Of: key}
		_, err := r.Change(ctx, name, p.By, func(e Entry, now time.Time) (Entry, error) {
			until := now.Add(lasts).UTC().Truncate(time.Millisecond)
			if until.Sub(e.allows(all).Paused) < pauseStep {
				return e, nil
			}
			if e.Rule == (limit.Rule{}) && ending >= PausesMost {
				return e, task.Invalid("name", "%d keys without a limit of their own are paused, and tasks pause no more", ending)
			}
			return e.paused(all, until, p.By, note), nil
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Pause pauses a limit until a time, which until says by the clock of Redis. A name without a limit of its own gets one
// that ends with the pause. It allows what the limit allows that applies to the name now. If that limit is paused for
// longer, the pause lasts as long. Errors: CodeInvalid if there are too many limits, CodeUnavailable, those of until.
func (r *Rules) Pause(
	ctx context.Context, name limit.Name, by, note string, until func(now time.Time) (time.Time, error),
) error {
	all, _, err := r.rules(ctx)
	if err != nil {
		return err
	}
	_, err = r.Change(ctx, name, by, func(e Entry, now time.Time) (Entry, error) {
		end, err := until(now)
		if before := e.allows(all).Paused; e.Rule == (limit.Rule{}) && before.After(end) {
			end = before
		}
		return e.paused(all, end, by, note), err
	})
	return err
}

// rules returns all limits, and how many of them end with their pauses. Error: CodeUnavailable.
func (r *Rules) rules(ctx context.Context) (all limit.Rules, ending int, _ error) {
	entries, _, err := r.All(ctx)
	for _, e := range entries {
		if e.Ends {
			ending++
		}
	}
	return Of(entries), ending, err
}

// allows is what a limit allows, or the one that applies to its name if there is none.
func (e Entry) allows(all limit.Rules) limit.Rule {
	if e.Rule == (limit.Rule{}) {
		rule, _ := all.For(e.Name)
		return rule
	}
	return e.Rule
}

// paused is the limit with a pause.
func (e Entry) paused(all limit.Rules, until time.Time, by, note string) Entry {
	e.Ends = e.Ends || e.Rule == limit.Rule{}
	e.Rule, e.Pauser, e.Note = e.allows(all), by, note
	e.Rule.Paused = until
	return e
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
