package web

import (
	"context"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/task"
)

// oneQueue is what the page of a queue shows.
type oneQueue struct {
	queueRow
	Known    bool // it is on the list; else only its name and its past are known
	Sentence template.HTML
	Why      control.Why
	Hour     hour
	Waited   template.HTMLAttr // bars of what waited in the last hour
	Most     int               // the most that waited at the end of a minute
	Causes   []control.Failure
}

func readQueue(ctx context.Context, v *visit) (any, string, error) {
	c, name := v.site.Control, v.param("name")
	var stats control.Stats
	var failures control.Failures
	var nodes []cluster.Node
	var reasons control.Why
	var unexplained error
	var q oneQueue
	err := calls.Try(
		func() (err error) { stats, failures, err = c.ReadHour(ctx, v.who, name); return err },
		func() (err error) { q.QueueInfo, q.Known, err = c.GetQueue(ctx, v.who, name); return err },
		func() (err error) { nodes, err = c.ListNodes(ctx, v.who); return err },
		func() error { reasons, unexplained = c.WhyQueue(ctx, v.who, name); return nil }, // it is not always needed
	)
	if err != nil {
		return nil, "", err
	}
	q.queueRow = rowOf(q.QueueInfo, nodes, v.Status.Reasons)
	if !q.Known && len(stats.Queues) == 0 && len(q.Servers) == 0 {
		return nil, "", task.Errorf(control.CodeQueueNotFound, "no queue %q", name)
	}
	if q.Due() > 0 || q.Paused {
		if unexplained != nil {
			return nil, "", unexplained
		}
		q.Why = reasons
	}
	q.Causes = failures.Causes[:min(len(failures.Causes), shownCauses)]
	q.Hour = hourOf(stats, status.Figures{Running: q.Active, Capacity: q.Slots})
	q.Waited, q.Most = waitedBars(stats, q.Due())
	q.Sentence = v.queueSentence(q.queueRow)
	return q, name, nil
}

// waitedBars draws how many tasks waited at the end of each minute, and now. It also returns the maximum.
func waitedBars(s control.Stats, now int) (template.HTMLAttr, int) {
	values := make([]int, len(s.Periods))
	for i, p := range s.Periods {
		values[i] = p.Counts.Waiting
	}
	if last := len(values) - 1; last >= 0 {
		values[last] = max(values[last], now)
	}
	most := slices.Max(append(values, 0))
	return bars(values, most, 5, 4, chartHeight), most
}

// queueSentence says how a queue is.
func (v *visit) queueSentence(q queueRow) template.HTML {
	switch q.State {
	case queueUnserved:
		return v.T("No worker takes its tasks")
	case queueUnrun:
		return v.T("No worker runs a type that waits")
	case queueTaken:
		return v.T("Long-running tasks hold all its slots")
	case queuePaused:
		return v.T("Paused: workers take nothing from it")
	case queueFull:
		return v.T("At its capacity: it takes no task that is due")
	case queueLate:
		return v.T("Its tasks wait long")
	case queueForeign:
		return v.T("Only servers of asynq serve it")
	case queueAsynqs:
		return v.T("Another asynq client uses it, and none of its servers runs")
	case queueIdle:
		return v.T("Nobody serves it, and nothing waits")
	}
	if q.Due() == 0 {
		return v.T("Served, and nothing waits")
	}
	return v.T("Served")
}

// QueueRow is the queue as the list of queues has it.
func (q oneQueue) QueueRow() queueRow { return q.queueRow }

// CapacityText is the capacity as the form has it; "" for none.
func (q oneQueue) CapacityText() string {
	if q.Capacity == 0 {
		return ""
	}
	return itoa(q.Capacity)
}

// CanSteer reports whether the queue can be paused, and given a capacity, here: the deliveries of asynq's own tasks are
// steered in asynqmon.
func (q oneQueue) CanSteer() bool { return q.Known && !q.IsOthers() }

// IsOthers reports whether DTS has nothing to do with the queue: only its clients and servers of asynq use it.
func (q oneQueue) IsOthers() bool { return q.State == queueForeign || q.State == queueAsynqs }

// Can says what can be done with a queue now.
func (q oneQueue) Can(what string) bool {
	switch what {
	case "pause":
		return q.CanSteer() && !q.Paused
	case "resume":
		return q.CanSteer() && q.Paused
	}
	return q.CanSteer() // set its capacity
}

// Offers are the actions that the page of a queue offers.
func (q oneQueue) Offers() string {
	switch {
	case q.Can("resume"):
		return "resume"
	case q.Can("pause") && q.Capacity > 0:
		return "pause lift"
	case q.Can("pause"):
		return "pause"
	}
	return ""
}

// pauseQueue is the action of the form that pauses a queue.
func pauseQueue(ctx context.Context, v *visit, form url.Values) (result, error) {
	done, name := result{path: v.parent(), said: "queue-paused"}, v.param("name")
	note := strings.TrimSpace(form.Get("note"))
	q, known, err := v.site.Control.GetQueue(ctx, v.who, name)
	switch {
	case err != nil:
		return done, err
	case known && q.Paused && (q.PauseNote != note || q.PausedBy != v.who.By()): // else by this form, if it is sent again
		return done, v.pausedBefore(task.CodeChanged, pause{q.PausedBy, q.PausedAt, q.PauseNote}, note)
	}
	return done, v.site.Control.PauseQueue(ctx, v.who, name, note)
}

// Seen is what the form that resumes the queue says that its reader has seen: since when it is paused.
func (q oneQueue) Seen() string { return ms(q.PausedAt) }

// resumeQueue is the action of the form that resumes a queue, unless somebody has paused it anew.
func resumeQueue(ctx context.Context, v *visit, form url.Values) (result, error) {
	q, _, err := v.site.Control.GetQueue(ctx, v.who, v.param("name"))
	if err == nil && q.Paused {
		if err = v.changedSince(task.CodeChanged, form, ms(q.PausedAt)); err != nil {
			return result{}, err
		}
	}
	return result{path: v.parent(), said: "queue-resumed"}, v.site.Control.ResumeQueue(ctx, v.who, v.param("name"))
}

// setCapacity is the action of the form that says how many tasks may wait in a queue.
func setCapacity(ctx context.Context, v *visit, form url.Values) (result, error) {
	done := result{path: v.parent(), said: "queue-capacity"}
	n, err := strconv.Atoi(strings.TrimSpace(form.Get("capacity")))
	if form.Get("do") == "lift" {
		n, err = 0, nil
	}
	if err != nil || n < 0 || n > control.QueueCapacityMost {
		most := control.QueueCapacityMost
		return done, v.invalid("capacity", v.T("must be a whole number from 0 to %d; 0 for any number of tasks", most))
	}
	if n == 0 {
		done.said = "queue-no-capacity"
	}
	return done, v.site.Control.SetQueueCapacity(ctx, v.who, v.param("name"), n)
}
