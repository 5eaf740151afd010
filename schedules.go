package dts

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// PutOption is a condition or a wish of [Client.PutSchedule] and [Client.PutWorkflow].
type PutOption func(*put)

type put struct {
	ifMatch, ifNoneMatch *string
	dryRun, paused       *bool
}

// IfRevision puts a definition only over this revision. Otherwise the error has CodeScheduleChanged or
// CodeWorkflowChanged.
func IfRevision(revision int) PutOption {
	return func(p *put) { p.ifMatch = new(strconv.Quote(strconv.Itoa(revision))) }
}

// IfAbsent puts a definition only if there is none of this id. Otherwise the error has CodeScheduleChanged or
// CodeWorkflowChanged.
func IfAbsent() PutOption { return func(p *put) { p.ifNoneMatch = new("*") } }

// Paused pauses or resumes the schedule as well. Without it, a schedule stays as it is, and a new one is not paused.
// PutWorkflow refuses it.
func Paused(paused bool) PutOption { return func(p *put) { p.paused = &paused } }

// DryRun checks everything and returns the schedule or workflow as it would be, but changes nothing.
func DryRun() PutOption { return func(p *put) { p.dryRun = new(true) } }

// PutSchedule creates a schedule, or replaces its definition as a whole. An equal definition changes nothing. Ticks that are due already
// are decided by the definition of their time, so that none is lost or runs twice.
// Errors: CodeInvalid; CodeScheduleChanged, if a condition does not hold; CodeUnavailable.
func (c *Client) PutSchedule(ctx context.Context, id string, d ScheduleDefinition, options ...PutOption) (*Schedule, error) {
	var p put
	for _, option := range options {
		option(&p)
	}
	in, err := c.wireSchedule(id, d)
	if err != nil {
		return nil, inGo(d.Task.Payload, err)
	}
	in.Paused = p.paused
	body, err := rest.Body(in)
	if err != nil {
		return nil, err
	}
	params := client.PutScheduleParams{
		Namespace: c.api.Namespace, IfMatch: p.ifMatch, IfNoneMatch: p.ifNoneMatch, DryRun: p.dryRun,
	}
	s, err := scheduleOf(c.api.PutScheduleWithBodyWithResponse(ctx, id, &params, rest.JSONType, body))
	return s, inGo(d.Task.Payload, err)
}

// GetSchedule returns a schedule. Error: CodeScheduleNotFound.
func (c *Client) GetSchedule(ctx context.Context, id string) (*Schedule, error) {
	if err := c.checkSchedule(id); err != nil {
		return nil, err
	}
	return scheduleOf(c.api.GetScheduleWithResponse(ctx, id, &client.GetScheduleParams{Namespace: c.api.Namespace}))
}

// ScheduleFilter narrows a list of schedules. Zero fields match all; the others are joined by "and".
type ScheduleFilter struct {
	Paused *bool
	Owner  string
	Labels map[string]string

	Condition  ScheduleCondition
	StaleAfter time.Duration // for the condition stale; 0: 24 h
}

// ListSchedules yields the schedules of the namespace, by id. Errors: CodeInvalid for the filter; CodeDataUnreadable, after the
// others, if some cannot be read.
func (c *Client) ListSchedules(ctx context.Context, f ScheduleFilter) iter.Seq2[*Schedule, error] {
	if err := c.checkNamespace(); err != nil {
		return failing[*Schedule](err)
	}
	params := client.ListSchedulesParams{Namespace: c.api.Namespace, Paused: f.Paused, Owner: wire.Given(f.Owner), Limit: new(pageLimit),
		Condition: wire.Given(wire.ScheduleCondition(f.Condition)), StaleAfter: givenSpan(f.StaleAfter)}
	for _, name := range slices.Sorted(maps.Keys(f.Labels)) {
		params.Label = append(params.Label, name+"="+f.Labels[name])
	}
	return pages(func(cursor *string) (page[*Schedule], error) {
		params.Cursor = cursor
		list, err := call[wire.ScheduleList](c.api.ListSchedulesWithResponse(ctx, &params))
		return page[*Schedule]{each(list.Schedules, scheduleFrom), list.NextCursor, list.Warnings}, err
	})
}

// PauseSchedule keeps a schedule from ticking; note says who and why, "" leaves the note as it is.
// Errors: CodeScheduleNotFound, CodeInvalid for a note of more than 500 bytes.
func (c *Client) PauseSchedule(ctx context.Context, id, note string) (*Schedule, error) {
	if err := c.checkSchedule(id); err != nil {
		return nil, err
	}
	if err := task.ValidateText("note", note, schedule.NoteLimit); err != nil {
		return nil, errorOfUseCase(err)
	}
	params := client.PauseScheduleParams{Namespace: c.api.Namespace}
	return scheduleOf(c.api.PauseScheduleWithResponse(ctx, id, &params, wire.SchedulePause{Note: wire.Given(note)}))
}

// ResumeSchedule lets a paused schedule tick again; the misfire policy decides about the ticks of the pause. Error: CodeScheduleNotFound.
func (c *Client) ResumeSchedule(ctx context.Context, id string) (*Schedule, error) {
	if err := c.checkSchedule(id); err != nil {
		return nil, err
	}
	return scheduleOf(c.api.ResumeScheduleWithResponse(ctx, id, &client.ResumeScheduleParams{Namespace: c.api.Namespace}))
}

// TriggerSchedule runs a schedule now, paused or not, beside its ticks. The outcome is TickTriggered, or TickQueued if the overlap policy
// lets the run wait. Each call is a run. Errors: CodeScheduleNotFound, CodeScheduleBusy, CodeUnavailable.
func (c *Client) TriggerSchedule(ctx context.Context, id string) (LedgerEntry, error) {
	if err := c.checkSchedule(id); err != nil {
		return LedgerEntry{}, err
	}
	return c.trigger(ctx, id, client.TriggerScheduleParams{})
}

// TriggerScheduleWithKey is TriggerSchedule for calls that may be repeated. Within an hour, a call with the same key runs nothing, and returns
// the entry of the first run. A key is 1-200 of A-Z a-z 0-9 . _ -, and belongs to one schedule.
func (c *Client) TriggerScheduleWithKey(ctx context.Context, id, key string) (LedgerEntry, error) {
	if err := c.checkSchedule(id); err != nil {
		return LedgerEntry{}, err
	}
	if err := checkKey(key); err != nil {
		return LedgerEntry{}, err
	}
	return c.trigger(ctx, id, client.TriggerScheduleParams{IdempotencyKey: &key})
}

func (c *Client) trigger(ctx context.Context, id string, params client.TriggerScheduleParams) (LedgerEntry, error) {
	params.Namespace = c.api.Namespace
	entry, err := call[wire.LedgerEntry](c.api.TriggerScheduleWithResponse(ctx, id, &params))
	return entryFrom(entry), err
}

// CancelTasks says which tasks of a deleted schedule are cancelled.
type CancelTasks string

// Which tasks are cancelled.
const (
	CancelWaiting CancelTasks = "waiting" // those that are not running; the others go on
	CancelAll     CancelTasks = "all"     // those that are running are asked to stop as well
	CancelNone    CancelTasks = "none"    // all of them go on
)

// DeleteSchedule deletes a schedule with its ledger and history; "" means CancelWaiting. Error: CodeScheduleNotFound.
func (c *Client) DeleteSchedule(ctx context.Context, id string, tasks CancelTasks) (Deletion, error) {
	if err := c.checkSchedule(id); err != nil {
		return Deletion{}, err
	}
	params := client.DeleteScheduleParams{Namespace: c.api.Namespace, Tasks: wire.Given(wire.DeleteTasks(tasks))}
	d, err := call[wire.ScheduleDeletion](c.api.DeleteScheduleWithResponse(ctx, id, &params))
	return Deletion{Cancelled: d.Cancelled, Stopping: d.Stopping, Left: d.Left}, err
}

// UpcomingTicks returns the next count ticks of a schedule, at most 500, whether it is paused or not; 0 means 10.
// Errors: CodeScheduleNotFound, CodeInvalid for the count.
func (c *Client) UpcomingTicks(ctx context.Context, id string, count int) ([]UpcomingTick, error) {
	if err := c.checkSchedule(id); err != nil {
		return nil, err
	}
	params := client.PreviewScheduleParams{Namespace: c.api.Namespace, Count: wire.Given(count)}
	preview, err := call[wire.SchedulePreview](c.api.PreviewScheduleWithResponse(ctx, id, &params))
	return each(preview.Ticks, func(t wire.UpcomingTick) UpcomingTick {
		return UpcomingTick{Tick: t.Tick.Time, Local: t.Local, Excluded: wire.Value(t.Excluded), Note: wire.Value(t.Note)}
	}), err
}

// ScheduleLedger yields what became of the ticks of a schedule, the newest first.
// Errors: CodeScheduleNotFound, CodeInvalid for the filter; CodeDataUnreadable, after the others, if some cannot be read.
func (c *Client) ScheduleLedger(ctx context.Context, id string, f LedgerFilter) iter.Seq2[LedgerEntry, error] {
	if err := c.checkSchedule(id); err != nil {
		return failing[LedgerEntry](err)
	}
	params := client.ReadLedgerParams{
		Namespace: c.api.Namespace, Since: givenTime(f.Since), Until: givenTime(f.Until), Gaps: wire.Given(f.Gaps), Limit: new(pageLimit),
	}
	return pages(func(cursor *string) (page[LedgerEntry], error) {
		params.Cursor = cursor
		list, err := call[wire.LedgerPage](c.api.ReadLedgerWithResponse(ctx, id, &params))
		return page[LedgerEntry]{each(list.Entries, entryFrom), list.NextCursor, list.Warnings}, err
	})
}

// AuditSchedule computes anew which ticks there should have been between two times, and compares them with the ledger. A zero from means
// as far back as the ledger goes, a zero to means now. Errors: CodeScheduleNotFound, CodeInvalid.
func (c *Client) AuditSchedule(ctx context.Context, id string, from, to time.Time) (AuditReport, error) {
	if err := c.checkSchedule(id); err != nil {
		return AuditReport{}, err
	}
	params := client.AuditScheduleParams{Namespace: c.api.Namespace, From: givenTime(from), To: givenTime(to)}
	a, err := call[wire.AuditReport](c.api.AuditScheduleWithResponse(ctx, id, &params))
	if err != nil {
		return AuditReport{}, err
	}
	outcomes := make(map[TickOutcome]int, len(a.Outcomes))
	for outcome, count := range a.Outcomes {
		outcomes[TickOutcome(outcome)] = count
	}
	return AuditReport{
		From: a.From.Time, To: a.To.Time, Expected: a.Expected, Accounted: a.Accounted, Outcomes: outcomes, Gaps: each(a.Gaps, momentOf),
		Strays: each(a.Strays, entryFrom), Pending: a.Pending, ForgottenUntil: wire.Value(a.ForgottenUntil).Time,
		LostWrites: each(a.LostWrites, func(l wire.LostWrites) LostWrites { return LostWrites{From: l.From.Time, To: l.To.Time} }), Proved: a.Proved,
		Warnings: a.Warnings,
	}, nil
}

// BackfillSchedule runs past ticks that did not run, one pace after the other, and returns their records; left is how many of the range had
// run before. Errors: CodeScheduleNotFound, CodeInvalid for the range, CodeUnavailable.
func (c *Client) BackfillSchedule(ctx context.Context, id string, b Backfill) (entries []LedgerEntry, left int, err error) {
	if err := c.checkSchedule(id); err != nil {
		return nil, 0, err
	}
	if err := checkTimes(map[string]time.Time{"from": b.From, "to": b.To}); err != nil {
		return nil, 0, err
	}
	if b.Key != "" {
		if err := checkKey(b.Key); err != nil {
			return nil, 0, err
		}
	}
	in := wire.Backfill{From: wire.At(b.From), To: wire.At(b.To)}
	if b.Pace != nil {
		in.Pace = new(b.Pace.String())
	}
	params := client.BackfillScheduleParams{Namespace: c.api.Namespace, IdempotencyKey: wire.Given(b.Key)}
	answer, err := call[wire.BackfillAnswer](c.api.BackfillScheduleWithResponse(ctx, id, &params, in))
	return each(answer.Entries, entryFrom), answer.Left, err
}

// ScheduleRevisions returns the earlier definitions of a schedule and the present one, the newest first. Errors: CodeScheduleNotFound;
// CodeDataUnreadable, together with the others, if some cannot be read.
func (c *Client) ScheduleRevisions(ctx context.Context, id string) ([]Revision, error) {
	if err := c.checkSchedule(id); err != nil {
		return nil, err
	}
	params := client.ListRevisionsParams{Namespace: c.api.Namespace}
	var all []Revision
	var warnings []string
	for {
		page, err := call[wire.RevisionList](c.api.ListRevisionsWithResponse(ctx, id, &params))
		if err != nil {
			return nil, err
		}
		all = append(all, each(page.Revisions, func(r wire.Revision) Revision {
			return Revision{Revision: r.Revision, From: r.From.Time, Until: wire.Value(r.Until).Time, Definition: definitionFrom(r.Definition)}
		})...)
		warnings = append(warnings, page.Warnings...)
		if params.Cursor = page.NextCursor; params.Cursor == nil {
			return all, leftOut(warnings)
		}
	}
}

// RollbackSchedule puts an earlier definition in force again, as a new revision. Errors: CodeScheduleNotFound, CodeRevisionNotFound.
func (c *Client) RollbackSchedule(ctx context.Context, id string, revision int) (*Schedule, error) {
	if err := c.checkSchedule(id); err != nil {
		return nil, err
	}
	params := client.RollbackScheduleParams{Namespace: c.api.Namespace}
	return scheduleOf(c.api.RollbackScheduleWithResponse(ctx, id, &params, wire.Rollback{Revision: revision}))
}
