package control

import (
	"context"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/store/doctor"
	"github.com/dts-sched/dts/internal/task"
)

// readExamined reads what doctor has found. Error: CodeUnavailable.
func (c *Control) readExamined(ctx context.Context, how situation, f *status.Facts) (err error) {
	f.Doctor, err = c.statuses.examined.Get(ctx, how.seldom(), c.findExamined)
	return err
}

// findExamined returns what doctor has found within a day. Error: CodeUnavailable.
func (c *Control) findExamined(ctx context.Context) (x status.Examination, _ error) {
	found, err := c.store.ReadExamined(ctx)
	if err != nil {
		return x, err
	}
	now := c.now(ctx, task.Ref{})
	for name, e := range found {
		if x.At.Before(e.At) {
			x.At = e.At
		}
		switch {
		case e.Open == 0 || now.Sub(e.At) > status.ExaminedSince:
		case e.Severity == string(doctor.Error):
			x.Errors = append(x.Errors, name)
		case e.Severity == string(doctor.Warning):
			x.Warnings = append(x.Warnings, name)
		}
	}
	slices.Sort(x.Errors)
	slices.Sort(x.Warnings)
	return x, nil
}

// The minutes that a status looks at: the last ones, the present one included, and the hour before.
const (
	lastMinutes = 5
	pastMinutes = lastMinutes + 60
)

// readPast reads what became of attempts in the last minutes, and in the hour before. Error: CodeUnavailable.
func (c *Control) readPast(ctx context.Context, how situation, f *status.Facts) error {
	p, err := c.statuses.past.Get(ctx, how.seldom(), func(ctx context.Context) (past, error) {
		return c.recentMinutes(ctx, pastMinutes)
	})
	if err != nil {
		return err
	}
	f.Last, f.Hour, f.Cause = pastOf(p)
	return nil
}

// pastOf sums up the last minutes, up to the time of the reading, and the hour before them. It returns also the most
// frequent cause of the failures of the last minutes.
func pastOf(p past) (last, hour status.Window, cause status.Cause) {
	if len(p.minutes) != pastMinutes {
		return last, hour, cause
	}
	before, newest := p.minutes[:pastMinutes-lastMinutes], p.minutes[pastMinutes-lastMinutes:]
	last, hour = windowOf(newest, p.at), windowOf(before, newest[0].At)
	merged := rollup.Merge(newest[0].At, rollup.Span, rollup.HourCauses, newest...)
	if len(merged.Causes) > 0 {
		c := merged.Causes[0]
		cause = status.Cause{Text: c.Text, Count: c.Count, Example: c.Example.Task.String()}
	}
	return last, hour, cause
}

// windowOf sums up minutes, which have been counted until a time.
func windowOf(minutes []rollup.Minute, until time.Time) status.Window {
	var all rollup.Queue
	for _, m := range minutes {
		all = all.Plus(m.Total())
	}
	return status.Window{
		Span: until.Sub(minutes[0].At), Begun: all.Begun, Ended: all.Ended(), Failed: all.Bad(),
		LateP50: all.Late.Quantile(0.5), LateP99: all.Late.Quantile(0.99), LateMost: all.Late.Max,
	}
}
