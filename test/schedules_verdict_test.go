package test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
)

// onTime is how late a tick may be decided and still run whatever the policy for misfires.
const onTime = 15 * time.Second

// account is what the server says of a schedule at the end.
type account struct {
	*living
	state  wire.Schedule
	report wire.AuditReport
	ledger []wire.LedgerEntry // the oldest tick first
}

// read asks the server about every schedule.
func (f *fleet) read() []account {
	f.t.Helper()
	accounts := make([]account, len(f.all))
	var g errgroup.Group
	g.SetLimit(4)
	for i, s := range f.all {
		g.Go(func() (err error) {
			accounts[i], err = f.readOne(f.t.Context(), s)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		f.t.Fatal(err)
	}
	return accounts
}

func (f *fleet) readOne(ctx context.Context, s *living) (account, error) {
	state, err := f.api.GetScheduleWithResponse(ctx, s.id, nil)
	if err != nil {
		return account{}, err
	}
	report, err := f.api.AuditScheduleWithResponse(ctx, s.id, nil)
	if err != nil {
		return account{}, err
	}
	if state.JSON200 == nil || report.JSON200 == nil {
		return account{}, fmt.Errorf("%s: %s, %s", s.id, state.Body, report.Body)
	}
	a := account{living: s, state: *state.JSON200, report: *report.JSON200}
	params := client.ReadLedgerParams{Limit: ptr(500)}
	for {
		page, err := f.api.ReadLedgerWithResponse(ctx, s.id, &params)
		if err != nil {
			return account{}, err
		}
		if page.JSON200 == nil {
			return account{}, fmt.Errorf("%s: %s", s.id, page.Body)
		}
		a.ledger = append(a.ledger, page.JSON200.Entries...)
		if params.Cursor = page.JSON200.NextCursor; params.Cursor == nil {
			slices.Reverse(a.ledger)
			return a, nil
		}
	}
}

// tasks lists all tasks by id.
func (f *fleet) tasks() map[string]wire.Task {
	f.t.Helper()
	tasks := make(map[string]wire.Task)
	for _, task := range f.api.all("scheduled", "queued", "running", "succeeded", "failed", "cancelled") {
		if _, double := tasks[task.ID]; double {
			f.t.Errorf("task %s is listed twice", task.ID)
		}
		tasks[task.ID] = task
	}
	return tasks
}

// verdict compares the records, and collects the figures.
type verdict struct {
	t        *testing.T
	end      time.Time
	far      map[string][]call
	tasks    map[string]wire.Task
	api      *node
	named    int // tasks in the ledgers
	ticks    int
	pending  int
	again    int // tasks that needed more than one attempt
	failures int
	outcomes map[wire.TickOutcome]int
}

// errorf says what is wrong, as far as anybody would read it.
func (v *verdict) errorf(format string, args ...any) {
	v.t.Helper()
	if v.failures++; v.failures <= 50 {
		v.t.Errorf(format, args...)
	}
	if v.failures == 51 {
		v.t.Error("and more that is wrong")
	}
}

// check judges one schedule.
func (v *verdict) check(a account) {
	v.checkTicks(a)
	for _, e := range a.ledger {
		v.checkEntry(a, e)
		if e.Task != nil {
			v.checkTask(a, e)
		}
	}
	if a.overlap != wire.OverlapAllow {
		v.checkOverlap(a)
	}
	if a.rest != nil {
		v.checkRest(a)
	}
}

// checkTicks compares the ledger, and what the audit says of it, with the ticks that must be there: each of them
// once, and no other.
func (v *verdict) checkTicks(a account) {
	want := a.expected(v.end)
	open := want[len(want):]
	if a.state.Paused {
		first := slices.IndexFunc(want, func(at time.Time) bool { return at.After(a.state.Cursor.Time) })
		open, want = want[first:], want[:first]
	}
	if r := a.report; !r.Proved || r.Expected != len(want) || r.Accounted != len(want) || r.Pending != len(open) || r.ForgottenUntil != nil {
		v.errorf("%s: the audit says %+v, want %d ticks and %d pending", a.id, r, len(want), len(open))
	}
	if a.state.Revision != len(a.revisions) {
		v.errorf("%s: it is at revision %d, want %d", a.id, a.state.Revision, len(a.revisions))
	}
	var got []time.Time
	for _, e := range a.ledger {
		got = append(got, e.Tick.Time)
	}
	for _, at := range without(want, got) {
		v.errorf("%s: no record of %s", a.id, at)
	}
	for _, at := range without(got, want) {
		v.errorf("%s: a record of %s, which is no tick", a.id, at)
	}
	if len(got) != len(want) {
		v.errorf("%s: %d records, want %d", a.id, len(got), len(want))
	}
	v.ticks += len(want)
	v.pending += len(open)
}

// without are the times that are in all, but not in these.
func without(all, these []time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(all), func(at time.Time) bool { return slices.ContainsFunc(these, at.Equal) })
}

// checkEntry judges whether a tick could come to that end: nothing is missed but what was due in a pause, and nothing
// skipped where the schedule allows an overlap.
func (v *verdict) checkEntry(a account, e wire.LedgerEntry) {
	v.outcomes[e.Outcome]++
	rested := a.rested(e.Tick.Time)
	ok := map[wire.TickOutcome]bool{
		wire.TickOutcomeFired:          e.Task != nil,
		wire.TickOutcomeSkippedOverlap: e.Task == nil && a.overlap == wire.OverlapSkip,
		wire.TickOutcomeMissed:         e.Task == nil && rested && a.policy != wire.MisfirePolicyAll,
	}
	if !ok[e.Outcome] {
		v.errorf("%s: tick %s (of a pause: %t) came to %s: %+v", a.id, e.Tick, rested, e.Outcome, e)
	}
	late := time.Duration(e.LateMs) * time.Millisecond
	if late != e.DecidedAt.Sub(e.Tick.Time) || late < 0 || late > onTime && !rested && a.overlap != wire.OverlapQueue {
		v.errorf("%s: tick %s was decided %s late, at %s", a.id, e.Tick, late, e.DecidedAt)
	}
}

// checkTask compares the ledger with the task and with the handlers' record: they were called for it, for each
// attempt once, with what the definition said at the time, and one attempt succeeded.
func (v *verdict) checkTask(a account, e wire.LedgerEntry) {
	id := *e.Task
	v.named++
	name := strings.Replace(e.Tick.UTC().Format("20060102T150405.000Z"), ".000", "", 1)
	if id != a.id+"@"+name {
		v.errorf("%s: the task of %s is %s", a.id, e.Tick, id)
	}
	task, found := v.tasks[id]
	if !found || task.State != wire.StateSucceeded || *task.Schedule != a.id || !task.Tick.Equal(e.Tick.Time) {
		v.errorf("%s: it is %+v", id, task)
	}
	calls := v.far[id]
	if len(calls) == 0 {
		v.errorf("%s: no handler was called", id)
	}
	attempts := make(map[int]bool)
	for _, c := range calls {
		if attempts[c.attempt] || c.attempt > task.Attempt || c.version != version(e.Revision) {
			v.errorf("%s, which the ledger says is of revision %d, was called so: %+v", id, e.Revision, calls)
		}
		attempts[c.attempt] = true
	}
	if !attempts[task.Attempt] {
		v.errorf("%s: attempt %d has succeeded and was never called", id, task.Attempt)
	}
	if task.Attempt > 1 {
		v.again++
		v.checkAttempts(task)
	}
}

// checkAttempts: all attempts were lost in the crash, but the last one.
func (v *verdict) checkAttempts(task wire.Task) {
	history := v.api.attempts(task.ID)
	for i, attempt := range history {
		want := "lost"
		if i == task.Attempt-1 {
			want = "succeeded"
		}
		if attempt.Number != i+1 || string(*attempt.Outcome) != want {
			v.errorf("%s: attempt %d: %+v, want %s", task.ID, i+1, attempt, want)
		}
	}
	if len(history) != task.Attempt {
		v.errorf("%s: %d attempts in the history, want %d", task.ID, len(history), task.Attempt)
	}
}

// checkOverlap: no task of the schedule was created before the one before it had ended, and where a tick was skipped
// for that, a task had indeed not ended.
func (v *verdict) checkOverlap(a account) {
	var all []wire.Task
	for _, e := range a.ledger {
		if e.Task != nil {
			all = append(all, v.tasks[*e.Task])
		}
	}
	for i := 1; i < len(all); i++ {
		if all[i].CreatedAt.Before(all[i-1].FinishedAt.Time) {
			v.errorf("%s was created at %s, before the end of %s at %s", all[i].ID, all[i].CreatedAt, all[i-1].ID, all[i-1].FinishedAt)
		}
	}
	for _, e := range a.ledger {
		busy := func(t wire.Task) bool {
			return !t.CreatedAt.After(e.DecidedAt.Time) && !t.FinishedAt.Before(e.DecidedAt.Time)
		}
		if e.Outcome == wire.TickOutcomeSkippedOverlap && !slices.ContainsFunc(all, busy) {
			v.errorf("%s: tick %s was skipped though nothing ran at %s", a.id, e.Tick, e.DecidedAt)
		}
	}
}

// checkRest: what was due in a pause did not run, unless the policy for misfires says so.
func (v *verdict) checkRest(a account) {
	if a.rest.after.IsZero() || a.policy == wire.MisfirePolicyAll {
		return
	}
	var within []wire.LedgerEntry // surely
	edge := false
	for _, e := range a.ledger {
		switch {
		case e.Tick.After(a.rest.from) && !e.Tick.After(a.rest.before):
			within = append(within, e)
		case e.Tick.After(a.rest.before) && !e.Tick.After(a.rest.after):
			edge = true
		}
	}
	for i, e := range within {
		newest := i == len(within)-1
		if newest && edge { // there may have been a newer one
			break
		}
		later, maybe := a.laterRan(e)
		if maybe && !later {
			continue
		}
		runs := newest && a.policy != wire.MisfirePolicySkip && !later
		if missed := e.Outcome == wire.TickOutcomeMissed; missed == runs {
			v.errorf("%s: tick %s of a pause (the newest: %t) came to %s", a.id, e.Tick, newest, e.Outcome)
		}
	}
}

// laterRan reports whether a later tick was decided in the same moment as a tick, and did not count as a misfire: with policy
// once, the later tick runs for all before it. maybe says that a later tick was due by then and decided in another moment:
// the leader may not have seen it when it planned.
func (a account) laterRan(e wire.LedgerEntry) (ran, maybe bool) {
	for _, later := range a.ledger {
		if later.Tick.After(e.Tick.Time) && !later.Tick.After(e.DecidedAt.Time) && later.Outcome != wire.TickOutcomeMissed {
			ran = ran || later.DecidedAt.Equal(e.DecidedAt.Time)
			maybe = true
		}
	}
	return ran, maybe
}

// checkTotal: the handlers were called for no task that is in no ledger, there is no other task, and all of this was
// about something.
func (v *verdict) checkTotal(f *fleet) {
	if len(v.far) != v.named || len(v.tasks) != v.named {
		v.errorf("the ledgers name %d tasks; there are %d, and the handlers know of %d", v.named, len(v.tasks), len(v.far))
	}
	if v.ticks < f.fleetSize.ticks || f.changes < f.fleetSize.changes {
		v.errorf("there were only %d ticks and %d changes", v.ticks, f.changes)
	}
	for _, outcome := range []wire.TickOutcome{wire.TickOutcomeFired, wire.TickOutcomeSkippedOverlap, wire.TickOutcomeMissed} {
		if v.outcomes[outcome] == 0 {
			v.errorf("no tick came to %s", outcome)
		}
	}
}
