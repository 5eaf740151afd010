package control

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/doctor"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// DoctorRequest says what to examine.
type DoctorRequest = doctor.Request

// DoctorResult is what one check found.
type DoctorResult = doctor.Result

// DoctorReport is what an examination found.
type DoctorReport = doctor.Report

// Examine looks for what does not fit together in Redis and in the deployment, and repairs it if the request says so.
// It concerns all namespaces. It needs the queues and the nodes. While Redis does not answer, an examination from the
// start says so, and how the nodes were. Errors: CodeInvalid, CodeUnavailable.
func (c *Control) Examine(ctx context.Context, who Caller, r DoctorRequest) (DoctorReport, error) {
	operation := "examine"
	if r.Repair {
		operation = "repair"
	}
	if _, err := c.begin(ctx, who, operation); err != nil {
		return DoctorReport{}, err
	}
	var names []string
	for _, check := range doctor.Checks {
		names = append(names, check.Name)
	}
	for _, name := range r.Checks {
		if !slices.Contains(names, name) {
			const text = "there is no check %q: there are %s"
			return DoctorReport{}, task.Invalid("check", text, task.CutMiddle(name, 40), strings.Join(names, ", "))
		}
	}
	d := doctor.New(doctor.Options{
		Layout: c.store.Layout, Tasks: c.store.Tasks, Schedules: c.store.Schedules, Listing: c.store.Listing,
		Queues: c.queues,
		Nodes:  c.nodes.Nodes, Audit: c.unaccounted, Embedded: c.embedded, Limits: c.limits.All,
	})
	report, err := d.Examine(ctx, r)
	away := c.store.DB.Link().Outage() != nil // not only one call has failed
	if blocked := c.blockedBy(err); blocked != nil && away && !r.Repair && r.Cursor == "" {
		view := c.nodes.View()
		return d.Away(r, blocked.Detail, view.Nodes, view.At)
	}
	if err == nil {
		c.noteExamined(ctx, r, report)
	}
	return report, err
}

// noteExamined keeps what doctor found for the status. What another page of the same examination found stays.
func (c *Control) noteExamined(ctx context.Context, r DoctorRequest, report DoctorReport) {
	if r.Partition != nil {
		return // the other partitions have not been looked at
	}
	before := map[string]layout.Examined{}
	if r.Cursor != "" {
		before, _ = c.store.ReadExamined(ctx)
	}
	found := make(map[string]layout.Examined)
	at := c.now(ctx, task.Ref{})
	for _, result := range report.Results {
		e := layout.Examined{At: at, Severity: string(result.Severity), Open: result.Found - result.Repaired}
		if e.Open == 0 && before[result.Name].Open > 0 {
			continue
		}
		e.Open += before[result.Name].Open
		found[result.Name] = e
	}
	if len(found) == 0 {
		return
	}
	if err := c.store.WriteExamined(ctx, found); err != nil {
		c.log.DebugContext(ctx, "the status does not know what doctor found", "error", err)
	}
}

// unaccounted returns the decided ticks of a schedule between two times that have no record, and the records that have
// no tick. Errors: as for AuditSchedule.
func (c *Control) unaccounted(ctx context.Context, ref task.Ref, from, until time.Time) ([]string, error) {
	s, now, err := c.store.Schedules.Read(ctx, ref)
	if err != nil {
		return nil, err
	}
	evidence, err := c.evidence(ctx, s, from, until)
	if err != nil {
		return nil, err
	}
	evidence.Now, evidence.Paused = now, true // ticks that are not decided yet are pending, however late
	report, more := schedule.Audit(evidence)
	if more {
		return nil, nil // more ticks than an audit can compare: nothing is said about them
	}
	var found []string
	for _, tick := range report.Gaps {
		found = append(found, "has no record of "+schedule.TickName(tick))
	}
	for _, e := range report.Strays {
		found = append(found, "has a record of "+e.Name+", which no definition explains")
	}
	return found, nil
}
