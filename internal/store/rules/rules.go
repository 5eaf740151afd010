// Package rules keeps in Redis what limits allow. How much of a limit is in use is in the partitions: see package
// partition.
package rules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// PausesMost is how many limits may be such that end with their pauses, if a task is to make another one. So tasks keep
// nobody from setting limits. Tasks that pause at the same moment may each make one more.
const PausesMost = 500

// Rules reads and writes the limits of an installation. It is safe for concurrent use.
type Rules struct{ l *layout.Layout }

// New returns the limits of an installation. It sends nothing to Redis.
func New(l *layout.Layout) *Rules { return &Rules{l} }

// Entry is a limit as it was set.
type Entry struct {
	Name limit.Name
	Rule limit.Rule
	By   string    // who set it, "" if nobody knows
	At   time.Time // when
	Note string    // why it is paused
	// Pauser is who paused it, "" if nobody knows, or if it is not paused.
	Pauser string
	Ends   bool // it was made for its pause, and ends with it
}

// stored is an entry as it is in Redis. Times and durations are in ms.
type stored struct {
	Slots  int    `json:"slots,omitempty"`
	Rate   int    `json:"rate,omitempty"`
	Per    int64  `json:"per,omitempty"`
	Burst  int    `json:"burst,omitempty"`
	Paused int64  `json:"paused,omitempty"`
	By     string `json:"by,omitempty"`
	At     int64  `json:"at,omitempty"`
	Note   string `json:"note,omitempty"`
	Pauser string `json:"paused_by,omitempty"`
	Ends   bool   `json:"ends,omitempty"`
}

// Parse reads a limit as it is stored. Error: the name or the value cannot be read.
func Parse(name, text string) (Entry, error) {
	n, err := limit.ParseName(name)
	if err != nil {
		return Entry{}, err
	}
	var s stored
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Entry{}, fmt.Errorf("the limit %s cannot be read: %w", name, err)
	}
	e := Entry{
		Name: n, By: s.By, At: time.UnixMilli(s.At), Note: s.Note, Pauser: s.Pauser, Ends: s.Ends,
		Rule: limit.Rule{Slots: s.Slots, Rate: s.Rate, Per: time.Duration(s.Per) * time.Millisecond, Burst: s.Burst},
	}
	if s.Paused > 0 {
		e.Rule.Paused = time.UnixMilli(s.Paused).UTC()
	}
	if err := e.Rule.Validate(); err != nil {
		return Entry{}, fmt.Errorf("the limit %s cannot be read: %w", name, err)
	}
	return e, nil
}

func (e Entry) text() (string, error) {
	s := stored{
		Slots: e.Rule.Slots, Rate: e.Rule.Rate, Per: e.Rule.Per.Milliseconds(), Burst: e.Rule.Burst, By: e.By,
		At: e.At.UnixMilli(), Note: e.Note, Pauser: e.Pauser, Ends: e.Ends,
	}
	if !e.Rule.Paused.IsZero() {
		s.Paused = e.Rule.Paused.UnixMilli()
	}
	text, err := json.Marshal(s)
	return string(text), err
}

// Set writes a limit, whatever there was. Its At is the time of Redis. Errors: CodeInvalid, CodeUnavailable.
func (r *Rules) Set(ctx context.Context, e Entry) (Entry, error) {
	now, err := r.l.Now(ctx, 0)
	if err != nil {
		return e, layout.Unavailable(err)
	}
	return r.set(ctx, e, now, anything)
}

// set writes a limit that was read as the text read.
func (r *Rules) set(ctx context.Context, e Entry, now time.Time, read string) (Entry, error) {
	if err := e.Rule.Validate(); err != nil {
		return e, err
	}
	e.At = now
	text, err := e.text()
	if err != nil {
		return e, fmt.Errorf("writing the limit %s: %w", e.Name, err)
	}
	_, err = r.write(ctx, e.Name, text, e.By, read)
	return e, err
}

// changeTries is how often a limit is read again that somebody else changes at the same time.
const changeTries = 10

// Change writes what decide makes of a limit. decide may be called several times. It gets the limit, with the zero Rule
// if there is none or if it cannot be read, and the time of Redis. A limit that stays as it is, is not written, and one
// with the zero Rule is deleted. Errors: CodeInvalid, CodeUnavailable, and those of decide.
func (r *Rules) Change(
	ctx context.Context, name limit.Name, by string, decide func(e Entry, now time.Time) (Entry, error),
) (Entry, error) {
	for range changeTries {
		old, text, now, err := r.read(ctx, name)
		if err != nil {
			return Entry{}, err
		}
		e, err := decide(old, now)
		if err != nil || e.Rule == old.Rule && e.Note == old.Note && e.Ends == old.Ends {
			return e, err
		}
		e.Name, e.By = name, by
		if e.Rule == (limit.Rule{}) {
			_, err = r.write(ctx, name, "", by, text)
		} else {
			e, err = r.set(ctx, e, now, text)
		}
		if !redisx.RefusedWith(err, lua.CodeChanged) {
			return e, err
		}
	}
	const message = "the limit %s has changed during each of %d tries to change it: try again"
	return Entry{}, task.Errorf(task.CodeUnavailable, message, name, changeTries)
}

// read reads a limit, and its text; "" for none. Error: CodeUnavailable.
func (r *Rules) read(ctx context.Context, name limit.Name) (e Entry, text string, now time.Time, _ error) {
	err := r.l.WithNow(ctx, 0, &now, func() (err error) {
		text, err = r.l.DB.HGet(ctx, string(r.l.Keys.Rules()), name.String()).Result()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	switch {
	case err != nil:
		return e, "", now, layout.Unavailable(err)
	case text == "":
		return Entry{Name: name}, "", now, nil
	}
	if e, err = Parse(name.String(), text); err != nil || e.hasEnded(now) {
		e = Entry{Name: name}
	}
	return e, text, now, nil
}

// Delete lifts a limit. existed reports whether there was one. Error: CodeUnavailable.
func (r *Rules) Delete(ctx context.Context, name limit.Name, by string) (existed bool, _ error) {
	return r.write(ctx, name, "", by, anything)
}

// anything stands for the text of a limit, whatever it is.
const anything = "*"

// write writes the text of a limit that was read as the text read. Errors: CodeInvalid if there are too many, the
// refusal CodeChanged of the script, CodeUnavailable.
func (r *Rules) write(ctx context.Context, name limit.Name, text, by, read string) (existed bool, _ error) {
	call := lua.SetLimit{
		Rules: r.l.Keys.Rules(), Name: name.String(), Rule: text, Read: read, Most: limit.Most, By: by,
		Leaders: r.l.Keys.Leaders(), Changes: r.l.Keys.Changes(),
	}
	reply, err := redisx.Run(ctx, r.l.DB, call)
	switch {
	case redisx.RefusedWith(err, lua.CodeLimit):
		return false, tooMany(name)
	case redisx.RefusedWith(err, lua.CodeChanged):
		return false, err
	case err != nil:
		return false, layout.Unavailable(err)
	}
	return reply.Before != "", nil
}

// tooMany says that no further limit may be made. Error: CodeInvalid.
func tooMany(name limit.Name) error {
	instead := ""
	if name.Kind != limit.All {
		instead = fmt.Sprintf(", or set one for %q", string(name.Kind)+":*")
	}
	return task.Invalid("name", "there are %d limits, and no more may be: delete another one%s", limit.Most, instead)
}

// CheckRoom says whether a limit could be made that there is not. Errors: CodeInvalid if there are too many,
// CodeUnavailable.
func (r *Rules) CheckRoom(ctx context.Context, name string) error {
	n, err := limit.ParseName(name)
	if err != nil {
		return err
	}
	there, err := r.l.DB.HLen(ctx, string(r.l.Keys.Rules())).Result()
	switch {
	case err != nil:
		return layout.Unavailable(err)
	case there >= limit.Most:
		return tooMany(n)
	}
	return nil
}

// All reads the limits, sorted by their names, and the time of Redis. Those that cannot be read are left out, which
// redisx.LeavingOut notes. Error: CodeUnavailable.
func (r *Rules) All(ctx context.Context) (entries []Entry, now time.Time, _ error) {
	texts, now, err := r.texts(ctx)
	if err != nil {
		return nil, now, err
	}
	entries, _ = r.entries(ctx, texts, now)
	return entries, now, nil
}

// texts reads the texts of the limits by their names, and the time of Redis. Error: CodeUnavailable.
func (r *Rules) texts(ctx context.Context) (texts map[string]string, now time.Time, _ error) {
	err := r.l.WithNow(ctx, 0, &now, func() (err error) {
		texts, err = r.l.DB.HGetAll(ctx, string(r.l.Keys.Rules())).Result()
		return err
	})
	switch {
	case redisx.LeaveOutKey(ctx, string(r.l.Keys.Rules()), err):
		return nil, now, nil
	case err != nil:
		return nil, now, layout.Unavailable(err)
	}
	return texts, now, nil
}

// Of returns what limits allow, by their names.
func Of(entries []Entry) limit.Rules {
	all := make(limit.Rules, len(entries))
	for _, e := range entries {
		all[e.Name] = e.Rule
	}
	return all
}

// entries are limits by their texts, sorted by their names, without those that have ended with their pauses.
func (r *Rules) entries(ctx context.Context, texts map[string]string, now time.Time) (entries, ended []Entry) {
	for name, text := range texts {
		e, err := Parse(name, text)
		switch {
		case err != nil: // somebody may have written to Redis by hand
			redisx.LeaveOut(ctx, "the limit %q is left out: %v", task.CutMiddle(name, textLimit), err)
		case e.hasEnded(now):
			ended = append(ended, e)
		default:
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(limit.Compare(a.Name, b.Name), cmp.Compare(a.Name.Of, b.Name.Of))
	})
	return entries, ended
}

const textLimit = 100 // bytes of a name that cannot be read, as they are quoted
