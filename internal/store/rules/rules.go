// Package rules keeps in Redis what limits allow. How much of a limit is in use is in the partitions: see package
// partition.
package rules

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Most is how many limits there may be. One whose name ends with "*" is one.
const Most = 1000

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
		Name: n, By: s.By, At: time.UnixMilli(s.At), Note: s.Note,
		Rule: limit.Rule{Slots: s.Slots, Rate: s.Rate, Per: time.Duration(s.Per) * time.Millisecond, Burst: s.Burst},
	}
	if s.Paused > 0 {
		e.Rule.Paused = time.UnixMilli(s.Paused)
	}
	if err := e.Rule.Validate(); err != nil {
		return Entry{}, fmt.Errorf("the limit %s cannot be read: %w", name, err)
	}
	return e, nil
}

func (e Entry) text() (string, error) {
	s := stored{
		Slots: e.Rule.Slots, Rate: e.Rule.Rate, Per: e.Rule.Per.Milliseconds(), Burst: e.Rule.Burst, By: e.By,
		At: e.At.UnixMilli(), Note: e.Note,
	}
	if !e.Rule.Paused.IsZero() {
		s.Paused = e.Rule.Paused.UnixMilli()
	}
	text, err := json.Marshal(s)
	return string(text), err
}

// Set writes a limit. Its At is the time of Redis. Errors: CodeInvalid, CodeUnavailable.
func (r *Rules) Set(ctx context.Context, e Entry) (Entry, error) {
	if err := e.Rule.Validate(); err != nil {
		return e, err
	}
	now, err := r.l.Now(ctx, 0)
	if err != nil {
		return e, layout.Unavailable(err)
	}
	e.At = now
	text, err := e.text()
	if err != nil {
		return e, fmt.Errorf("writing the limit %s: %w", e.Name, err)
	}
	_, err = r.write(ctx, e.Name, text, e.By)
	return e, err
}

// Delete lifts a limit. existed reports whether there was one. Error: CodeUnavailable.
func (r *Rules) Delete(ctx context.Context, name limit.Name, by string) (existed bool, _ error) {
	return r.write(ctx, name, "", by)
}

func (r *Rules) write(ctx context.Context, name limit.Name, text, by string) (existed bool, _ error) {
	call := lua.SetLimit{
		Rules: r.l.Keys.Rules(), Name: name.String(), Rule: text, Most: Most, By: by,
		Leaders: r.l.Keys.Leaders(), Changes: r.l.Keys.Changes(),
	}
	reply, err := redisx.Run(ctx, r.l.DB, call)
	switch {
	case redisx.RefusedWith(err, lua.CodeLimit):
		return false, task.Invalid("name", "there are %d limits, and no more may be: delete another one, or set one for %q",
			Most, string(name.Kind)+":*")
	case err != nil:
		return false, layout.Unavailable(err)
	}
	return reply.Before != "", nil
}

// All reads the limits, sorted by their names, and the time of Redis. Those that cannot be read are left out, which
// redisx.LeavingOut notes. Error: CodeUnavailable.
func (r *Rules) All(ctx context.Context) (entries []Entry, now time.Time, _ error) {
	var texts map[string]string
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
	for name, text := range texts {
		e, err := Parse(name, text)
		if err != nil { // somebody may have written to Redis by hand
			redisx.LeaveOut(ctx, "the limit %q is left out: %v", task.CutMiddle(name, textLimit), err)
			continue
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(limit.Compare(a.Name, b.Name), cmp.Compare(a.Name.Of, b.Name.Of))
	})
	return entries, now, nil
}

const textLimit = 100 // bytes of a name that cannot be read, as they are quoted
