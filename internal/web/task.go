package web

import (
	"context"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/why"
)

// How much of a task its page shows, whatever the task: bytes are those of HTML.
const (
	shownAttempts = 50
	shownReason   = 200     // bytes of why an attempt failed
	shownError    = 6 << 10 // bytes of a whole error, which is at most task.ErrorLimit without markup
	shownLines    = 200
	shownLine     = 1 << 10  // bytes of a line of the log
	shownLog      = 16 << 10 // bytes of the log
	lineMarkup    = 64       // bytes of the markup of a line of the log
	errorMarkup   = 160      // bytes of the markup of a whole error of an attempt
	shownLabels   = 2 << 10  // bytes of labels, which are also in their links
	shownText     = 8 << 10  // bytes of a payload or a result
	indentedText  = 32 << 10 // bytes of a payload that is indented
)

// oneTask is what the page of a task shows.
type oneTask struct {
	Task       task.Task
	Due        bool // it is scheduled, and its time has come: what it waits for is something else
	Mark       mark
	Verdict    template.HTML
	Error      string // the whole error, if the verdict shows only its beginning
	Why        control.Why
	Attempts   []task.Attempt // the newest first
	Before     bool           // there are attempts before these
	Whole      map[int]string // the whole errors of attempts whose rows have the beginning, by their numbers
	Unopened   bool           // some of these are left out
	Log        []task.LogLine
	Earlier    bool   // the log has lines before these, or more of these
	Schedule   string // that made it; "" if none did
	Payload    string
	Result     string
	Labels     []string
	MoreLabels int  // labels that are not shown
	Movable    bool // a handler runs it, which may give it up
}

func readTask(ctx context.Context, v *visit) (any, string, error) {
	c, id := v.site.Control, v.param("id")
	v.who.Namespace = v.param("namespace")
	var t task.Task
	var o oneTask
	var log control.LogPage
	var reasons control.Why
	var unexplained error
	err := calls.Try(
		func() (err error) { t, o.Attempts, err = c.GetTaskWithAttempts(ctx, v.who, id); return err },
		func() error { reasons, unexplained = c.WhyTask(ctx, v.who, id); return nil }, // it is not always needed
		func() (err error) {
			log, err = c.Logs(ctx, v.who, id, control.LogQuery{Backwards: true, Limit: shownLines})
			if edge.CodeOf(err) == task.CodeTaskNotFound {
				return nil
			}
			return err
		},
	)
	if err != nil {
		return nil, "", err
	}
	if !t.State.Final() && unexplained != nil {
		return nil, "", unexplained
	}
	o.Task, o.Mark, o.Verdict = t, stateMark(t), v.verdict(t)
	o.Movable = c.CanMove(t)
	o.Due = t.State == task.Scheduled && !t.WaitsForAnother() && !t.DueAt.After(v.now)
	if isLong(t.Error) {
		o.Error = cutHTML(t.Error, shownError)
	}
	o.explain(v, reasons)
	if t.State == task.Scheduled && len(o.Attempts) > 0 {
		o.again(v, o.Attempts[len(o.Attempts)-1].Outcome)
	}
	o.Verdict = v.bounded(o.Verdict, t)
	o.Payload, o.Result = indented(t.Payload), cutHTML(t.Result, shownText)
	slices.Reverse(o.Attempts)
	if len(o.Attempts) > shownAttempts {
		o.Attempts, o.Before = o.Attempts[:shownAttempts], true
	}
	var cut bool
	o.Log, cut = cutLog(log.Lines)
	o.Earlier = cut || log.More
	o.Whole, o.Unopened = wholeErrors(o.Attempts, o.left())
	if of, _, isTick := schedule.OfTask(t.Ref); isTick {
		o.Schedule = of
	}
	all := labelsOf(t.Labels)
	o.Labels = cutLabels(all)
	o.MoreLabels = len(all) - len(o.Labels)
	return o, id, nil
}

// explain says why a task waits. Reasons of another moment, when it had another state, are left out.
func (o *oneTask) explain(v *visit, reasons control.Why) {
	t := o.Task
	if t.State.Final() || reasons.State != "" && reasons.State != t.State {
		return
	}
	o.Why = reasons
	isPaused := func(r why.Reason) bool { return r.Code == why.QueuePaused }
	isDue := t.State == task.Queued || t.State == task.Scheduled && t.Attempt == 0 && !t.DueAt.After(v.now)
	if isDue && slices.ContainsFunc(reasons.Reasons, isPaused) {
		o.Verdict = v.T("Waits, as its queue is paused")
	}
}

// again says of a task that an attempt before its next one did not fail, if that is so.
func (o *oneTask) again(v *visit, before task.Outcome) {
	wait := v.Span(max(o.Task.DueAt.Sub(v.now), 0))
	switch before {
	case task.OutcomeSnoozed:
		o.Mark, o.Verdict = mark{"sched", ""}, v.T("Asked to run again later: runs in %s", wait)
	case task.OutcomeInterrupted:
		o.Mark, o.Verdict = mark{"sched", ""}, v.T("Was interrupted as its worker shut down: runs again in %s", wait)
	case task.OutcomeMoved:
		o.Mark, o.Verdict = mark{"sched", ""}, v.T("Moves to another worker: runs again in %s", wait)
	}
}

// left is how many bytes the payload, the result and the log leave of what the page has for them.
func (o *oneTask) left() int {
	room := 2*shownText + shownLog - htmlBytes(o.Payload) - htmlBytes(o.Result)
	for _, line := range o.Log {
		room -= htmlBytes(line.Text) + lineMarkup
	}
	return room
}

// cutLog is the newest lines of a log, each and all of them as much as the page shows. cut says that there is more.
func cutLog(lines []task.LogLine) (shown []task.LogLine, cut bool) {
	room := shownLog
	for i := len(lines) - 1; i >= 0; i-- {
		line := lines[i]
		line.Text = cutHTML(line.Text, shownLine)
		cut = cut || line.Text != lines[i].Text
		if room -= htmlBytes(line.Text) + lineMarkup; room < 0 {
			cut = true
			break
		}
		shown = append(shown, line)
	}
	slices.Reverse(shown)
	return shown, cut
}

// cutLabels is as many of the labels as the page shows.
func cutLabels(labels []string) []string {
	room := shownLabels
	for i, l := range labels {
		if room -= htmlBytes(l); room < 0 {
			return labels[:i]
		}
	}
	return labels
}

// IsRun reports whether the task is a run of a workflow.
func (o oneTask) IsRun() bool { return o.Task.Type == task.WorkflowType }

// StepOf is the run that has the task as a step; nil for none.
func (o oneTask) StepOf() *task.Ref {
	run, _, is := o.Task.Ref.Run()
	if !is {
		return nil
	}
	return &run
}

// RunPath is the page of the run that the task is, or that has it as a step; "" for none.
func (o oneTask) RunPath(v *view) template.URL {
	switch run := o.StepOf(); {
	case run != nil:
		return v.Path("runs", run.Namespace, run.ID)
	case o.IsRun():
		return v.Path("runs", o.Task.Namespace, o.Task.ID)
	}
	return ""
}

// Can says what can be done with a task now.
func (o oneTask) Can(what string) bool {
	ofSteps, notOfRuns := []string{"cancel", "elsewhere"}, []string{"move", "queue", "now"}
	if o.StepOf() != nil && !slices.Contains(ofSteps, what) || o.IsRun() && slices.Contains(notOfRuns, what) {
		return false
	}
	switch what {
	case "cancel":
		return !o.Task.State.Final() && o.Task.CancelRequested.IsZero()
	case "now":
		return o.Task.State == task.Scheduled && !o.Due
	case "move", "queue": // the form that moves it is sent to its queue
		return o.Task.State == task.Scheduled || o.Task.State == task.Queued
	case "elsewhere":
		return o.Task.State == task.Running && o.Task.CancelRequested.IsZero() && o.Movable
	case "retry":
		return o.Task.State.Final()
	}
	return false
}

// NotOffered says why the page of a task offers no other actions.
func (v *visit) NotOffered(o oneTask) template.HTML {
	switch t := o.Task; {
	case o.StepOf() != nil:
		return v.T("It is a step: its run decides when it runs, and whether it does again.")
	case o.IsRun():
		return v.T("Leaders carry it on, by its steps. Its page as a run has them.")
	case t.State.Final():
		return v.T("It has ended: it cannot be cancelled or moved.")
	case t.State == task.Running && !t.CancelRequested.IsZero():
		return v.T("It is asked to stop. When it has ended, it can be retried.")
	case t.State == task.Running && o.Movable:
		return v.T("When it has ended, it can be retried.")
	case t.State == task.Running:
		return v.T("A worker runs it: it cannot be moved. When it has ended, it can be retried.")
	case t.State == task.Queued:
		return v.T("It is due already. When it has ended, it can be retried.")
	}
	if o.Due {
		return v.T("It is due already: below is what it waits for.")
	}
	return v.T("When it has ended, it can be retried.")
}

// Offers are the actions that the page of a task offers. A retry is offered anew for each end.
func (o oneTask) Offers() string {
	all := []string{"cancel", "now", "move", "elsewhere", "retry"}
	offers := strings.Join(slices.DeleteFunc(all, func(what string) bool { return !o.Can(what) }), " ")
	if o.Can("retry") {
		offers += " " + o.Ended()
	}
	return offers
}

// Ended is when the task ended, as the form that retries it says it.
func (o oneTask) Ended() string { return ms(o.Task.FinishedAt) }

// retryTask retries a task with the end that the reader has seen: sent again, it does not run the task twice.
func retryTask(ctx context.Context, v *visit, form url.Values) (result, error) {
	var ended time.Time
	if ms, err := strconv.ParseInt(form.Get("ended"), 10, 64); err == nil {
		ended = time.UnixMilli(ms)
	}
	_, err := v.site.Control.RetryTask(ctx, v.ofPath(), v.param("id"), ended)
	if edge.CodeOf(err) == task.CodeNotFinished && !ended.IsZero() {
		err = v.retriedBefore(ctx)
	}
	return result{path: v.parent(), said: "retried"}, err
}

// retriedBefore is the answer to a retry of a task that was retried since its page was read: nil while it has not ended
// again, as it is due as was asked for. Error: CodeNotFinished; others as for GetTask.
func (v *visit) retriedBefore(ctx context.Context) error {
	t, err := v.site.Control.GetTask(ctx, v.ofPath(), v.param("id"))
	if err != nil || !t.State.Final() {
		return err
	}
	text := v.T("It was retried after this page was read, and has ended again. Retry it if it is to run once more.")
	return task.Errorf(task.CodeNotFinished, "%s", text)
}

// Seen is what the form that cancels the task says that its reader has seen: when its first attempt was due, or is,
// since the submission or the newest retry.
func (o oneTask) Seen() string { return seenOf(o.Task) }

func seenOf(t task.Task) string {
	if t.FirstDueAt.IsZero() {
		return ms(t.DueAt)
	}
	return ms(t.FirstDueAt)
}

// cancelTask cancels a task that nobody has retried since the reader saw it.
func cancelTask(ctx context.Context, v *visit, form url.Values) (result, error) {
	t, err := v.site.Control.GetTask(ctx, v.ofPath(), v.param("id"))
	if err == nil && !t.State.Final() { // else the form may have been sent before
		if err = v.changedSince(task.CodeChanged, form, seenOf(t)); err != nil {
			return result{}, err
		}
	}
	note := strings.TrimSpace(form.Get("note"))
	t, err = v.site.Control.CancelTask(ctx, v.ofPath(), v.param("id"), note)
	if err != nil {
		return result{}, err
	}
	done := result{path: v.parent(), said: "cancelled", at: t.CancelRequested.UnixMilli()}
	if t.State == task.Cancelled {
		done.at = t.FinishedAt.UnixMilli()
	}
	ours := v.who.By()
	if note != "" {
		ours += ": " + note
	}
	if by, _ := askedBy(strings.TrimSuffix(t.Error, stopped)); by != ours { // the first one stays
		done.said = "cancelled-before"
		if note != "" {
			done.said = "cancelled-before-note"
		}
	}
	return done, nil
}

func moveTask(ctx context.Context, v *visit, form url.Values) (result, error) {
	queue := strings.TrimSpace(form.Get("queue"))
	_, err := v.site.Control.ChangeTask(ctx, v.ofPath(), v.param("id"), control.TaskChange{Queue: &queue})
	return result{path: v.parent(), said: "moved"}, err
}

// askToMove asks the worker of a running task to give it up, so that the named node or any other one goes on.
func askToMove(ctx context.Context, v *visit, form url.Values) (result, error) {
	_, err := v.site.Control.MoveTask(ctx, v.ofPath(), v.param("id"), strings.TrimSpace(form.Get("to")))
	return result{path: v.parent(), said: "asked-to-move"}, err
}

func runTaskNow(ctx context.Context, v *visit, _ url.Values) (result, error) {
	now := time.Duration(0)
	_, err := v.site.Control.ChangeTask(ctx, v.ofPath(), v.param("id"), control.TaskChange{Delay: &now})
	return result{path: v.parent(), said: "due"}, err
}
