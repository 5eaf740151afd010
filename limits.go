package dts

import (
	"cmp"
	"context"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/task"
)

// LimitRule says how many tasks of a limit may be queued or running at once, and how many may be handed over in a time.
// A limit has slots, or a rate, or both.
type LimitRule struct {
	Slots int           // at once, 1 to 1,000,000; 0: any number
	Rate  int           // handed over in Per, 1 to 1,000,000; 0: any number
	Per   time.Duration // a second, a minute or an hour; 0 without a Rate
	Burst int           // handed over at once after a rest; 0: as many as Rate
}

// Limit is a limit on tasks, in the whole installation, and how much of it is in use.
type Limit struct {
	LimitUse            // of all names that it applies to
	Rule     LimitRule  // zero: it was created for its pause, and allows everything but for the pause
	Paused   bool       // nothing is handed over
	Until    time.Time  // when the pause ends; zero: when somebody resumes the limit
	Note     string     // why it is paused; "" if nobody said
	PausedBy string     // who paused it; "" if nobody knows
	By       string     // who changed it last; "" if nobody knows
	At       time.Time  // when
	Names    int        // of a name that ends with "*": how many names are in use
	Uses     []LimitUse // up to 20 of these, those with most waiting tasks first
	SetAs    string     // the limit that applies to this name, such as "key:*"; "" if it has one of its own
}

// LimitUse is how much of a limit is in use.
type LimitUse struct {
	Name    string // "key:tenant-7", "key:*", "type:http", "queue:mails", "namespace:reports" or "all"
	Held    int    // slots of its tasks that are queued or running
	Waiting int    // due tasks that wait, for a slot of the limit or for something else
}

// LimitPause says how long a limit is paused, and why. The zero value: until somebody resumes it.
type LimitPause struct {
	For   time.Duration // 1 s to a year
	Until time.Time     // in place of For
	Note  string
}

// SetLimit sets what a limit allows, and creates the limit if there is none: "key:tenant-7" is about the tasks with
// that [Submission].LimitKey. "*" at the end of a name stands for any further characters, and each key that matches has
// the slots and the rate for itself. A pause stays. Errors: CodeInvalid, also if there are 1,000 limits, or while nodes
// live that do not follow limits.
func (c *Client) SetLimit(ctx context.Context, name string, rule LimitRule) error {
	if err := checkLimit(name); err != nil {
		return err
	}
	in := wire.LimitRule{Slots: wire.Given(rule.Slots), Rate: wire.Given(rule.Rate), Burst: wire.Given(rule.Burst)}
	if rule.Per != 0 {
		per, known := perNames[rule.Per]
		if !known {
			return errorOfUseCase(task.Invalid("per", "%s must be 1s, 1m or 1h", task.FormatDuration(rule.Per)))
		}
		in.Per = &per
	}
	return done(c.api.SetLimitWithResponse(ctx, name, nil, in))
}

// perNames are the times that a rate can be about, as the API has them.
var perNames = map[time.Duration]wire.LimitPer{
	time.Second: wire.PerSecond, time.Minute: wire.PerMinute, time.Hour: wire.PerHour,
}

// Limits returns the limits, those of keys first, then those of types, queues, namespaces, and that of all tasks.
// Errors: CodeInvalid while nodes live that do not follow limits; CodeDataUnreadable, together with the others, if some
// cannot be read.
func (c *Client) Limits(ctx context.Context) ([]Limit, error) {
	list, err := call[wire.LimitList](c.api.ListLimitsWithResponse(ctx))
	return each(list.Limits, limitOf), cmp.Or(err, leftOut(list.Warnings))
}

// Limit returns a limit by its name, which is that of SetLimit or PauseLimit. If a key, type, queue or namespace has
// none of its own, it returns what applies to it, with SetAs. Errors: CodeInvalid, CodeLimitNotFound if nothing does.
func (c *Client) Limit(ctx context.Context, name string) (*Limit, error) {
	if err := checkLimit(name); err != nil {
		return nil, err
	}
	found, err := call[wire.LimitEntry](c.api.GetLimitWithResponse(ctx, name))
	if err != nil {
		return nil, err
	}
	return new(limitOf(found)), nil
}

// DeleteLimit lifts a limit. Errors: CodeInvalid, CodeLimitNotFound.
func (c *Client) DeleteLimit(ctx context.Context, name string) error {
	if err := checkLimit(name); err != nil {
		return err
	}
	return done(c.api.DeleteLimitWithResponse(ctx, name))
}

// PauseLimit keeps the tasks of a limit from being handed over for a time. Tasks that were handed over go on. If there
// is no limit of that name, it creates one that ends with the pause: until then it allows what the limit allows that
// applies to it, such as "key:*". It replaces a pause that there is. Error: CodeInvalid.
func (c *Client) PauseLimit(ctx context.Context, name string, p LimitPause) error {
	if err := cmp.Or(checkLimit(name), checkTimes(map[string]time.Time{"until": p.Until})); err != nil {
		return err
	}
	in := wire.LimitPause{Note: wire.Given(p.Note)}
	if p.For != 0 {
		in.For = new(task.FormatDuration(p.For))
	}
	if !p.Until.IsZero() {
		in.Until = new(wire.At(p.Until))
	}
	return done(c.api.PauseLimitWithResponse(ctx, name, in))
}

// ResumeLimit ends the pause of a limit. It deletes a limit that was created for its pause. Errors: CodeInvalid,
// CodeLimitNotFound.
func (c *Client) ResumeLimit(ctx context.Context, name string) error {
	if err := checkLimit(name); err != nil {
		return err
	}
	return done(c.api.ResumeLimitWithResponse(ctx, name))
}

// checkLimit checks the name of a limit. Error: CodeInvalid.
func checkLimit(name string) error {
	_, err := limit.ParseName(name)
	return errorOfUseCase(err)
}

func limitOf(l wire.LimitEntry) Limit {
	rule := LimitRule{Slots: wire.Value(l.Slots), Rate: wire.Value(l.Rate), Burst: wire.Value(l.Burst)}
	for per, name := range perNames {
		if name == wire.Value(l.Per) {
			rule.Per = per
		}
	}
	return Limit{
		LimitUse: LimitUse{l.Name, l.Held, l.Waiting}, Rule: rule, Paused: l.Paused, Until: wire.Value(l.PausedUntil).Time,
		Note: wire.Value(l.Note), PausedBy: wire.Value(l.PausedBy), By: wire.Value(l.By), At: l.At.Time,
		Names: wire.Value(l.Names), SetAs: wire.Value(l.SetAs),
		Uses: each(l.Uses, func(u wire.LimitUse) LimitUse { return LimitUse{u.Name, u.Held, u.Waiting} }),
	}
}
