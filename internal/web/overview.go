package web

import (
	"context"
	"html/template"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/task"
)

// How many rows the parts of the overview have.
const (
	shownTicks  = 8
	shownCauses = 5
	shownTasks  = 5
	shownQueues = 6
)

// overview is what the overview shows.
type overview struct {
	Reasons   []status.Reason
	Hour      hour
	Next      []schedule.MergedTick
	NextLate  bool // Next is not known, as it took too long to look for it
	Causes    []control.Failure
	Longest   []task.Task
	Queues    []queueRow // those with trouble first
	AllQueues int
	Empty     bool // nothing has run in the last hour, and nothing is to come
}

func readOverview(ctx context.Context, v *visit) (any, string, error) {
	c, all := v.site.Control, v.who
	o := overview{Reasons: v.Status.Reasons}
	running := control.TaskFilter{
		Namespace: all.Namespace, States: []task.State{task.Running}, Brief: true, Sort: index.Order{Asc: true},
	}
	var stats control.Stats
	var failures control.Failures
	var next control.Upcoming
	var longest control.TaskPage
	var queues []queueRow
	err := calls.Try(
		func() (err error) { stats, failures, err = c.ReadHour(ctx, all, ""); return err },
		func() (err error) { next, err = c.NextTicks(ctx, all, shownTicks); return err },
		func() (err error) { longest, err = c.ListTasks(ctx, all, running, shownTasks, ""); return err },
		func() (err error) { queues, err = v.queueRows(ctx); return err },
	)
	if err != nil {
		return nil, "", err
	}
	now := v.Status.Figures
	now.Running, now.Waiting = slotsTaken(v, longest), dueIn(queues)
	o.Hour, o.Next, o.Longest = hourOf(stats, now), next.Ticks, longest.Tasks
	o.NextLate = isLate(next)
	o.Causes = failures.Causes[:min(len(failures.Causes), shownCauses)]
	o.AllQueues = len(queues)
	o.Queues = queues[:min(len(queues), shownQueues)]
	o.Empty = o.Hour.Ended == 0 && len(o.Next) == 0 && !o.NextLate && len(o.Longest) == 0 && o.Hour.Waiting == 0
	return o, string(v.T("Overview")), nil
}

// isLate reports whether no tick is known, though there may be some: it took too long to look for them.
func isLate(next control.Upcoming) bool { return len(next.Ticks) == 0 && !next.KnownUntil.IsZero() }

// Name is that of the queue of which the causes are: of all.
func (overview) Name() string { return "" }

// slotsTaken is how many slots tasks hold. The status is seconds old; a list that has all tasks that run is not, and
// stands beside the number.
func slotsTaken(v *visit, longest control.TaskPage) (slots int) {
	for _, t := range longest.Tasks {
		if t.Type != task.WorkflowType { // leaders carry runs on
			slots += route.SlotsOf(t.Reach)
		}
	}
	if v.Chosen() == "" && longest.NextCursor == "" && longest.Missing == "" {
		return slots
	}
	return max(v.Status.Figures.Running, slots)
}

// dueIn is how many due tasks wait in some queues.
func dueIn(queues []queueRow) *int {
	due := 0
	for _, q := range queues {
		due += q.Due()
	}
	return &due
}

// Where is the page that shows what a reason of the status is about; "" if there is none, as of reasons to wait.
func (v *visit) Where(reason any) template.URL {
	r, _ := reason.(status.Reason)
	switch r.Code {
	case status.FailuresJumped:
		return "/tasks?state=failed"
	case status.DoctorFound:
		return "/doctor"
	}
	switch r.Kind {
	case "schedule":
		return v.Path("schedules", r.Namespace, r.ID)
	case "queue":
		return v.Path("queues", r.ID)
	case "limit":
		return v.Path("limits", r.ID)
	case "node", "partition", "redis":
		return "/nodes"
	}
	return ""
}
