package web

import (
	"context"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
)

// oneRun is what the page of a run of a workflow shows.
type oneRun struct {
	control.Run
	Progress workflow.Progress
	Mark     mark
	Verdict  template.HTML
	Error    string // the whole error, if the verdict shows only its beginning
	Graph    []drawing
	Tabs     []stepTab
	Rows     []stepRow
	From, To int    // of the rows, among those that match
	Match    int    // steps that match the filter
	Alike    string // the step that all listed ones are like; "" for no such filter
	Next     string // where the next page begins; "" at the end
	Waiting  []waitingStep

	Approvals []approvalForm // that are open, and for which there is room
	NotOpen   int            // further ones
	Signal    *signalForm    // nil if the run takes none
	Given     []givenSignal  // the newest ones

	Params string
	Output string
	Labels []string
}

func readRun(ctx context.Context, v *visit) (any, string, error) {
	id := v.param("id")
	v.who.Namespace = v.param("namespace")
	r, err := v.site.Control.GetRun(ctx, v.who, id)
	if edge.CodeOf(err) == task.CodeNotARun && !v.quiet {
		return elsewhere(v.Path("tasks", v.who.Namespace, id)), id, nil
	}
	if err != nil {
		return nil, "", err
	}
	o := &oneRun{Run: r, Progress: r.Run.Progress(), Labels: labelsOf(r.Task.Labels)}
	o.Mark, _ = v.runState(r.Task, isPaused(r))
	if onlyWaits(r, o.Progress) {
		o.Mark = stepMark(workflow.Waiting)
	}
	o.Verdict = v.runVerdict(r, o.Progress)
	if isLong(r.Task.Error) {
		o.Error = cutHTML(r.Task.Error, shownError)
	}
	rows := v.stepRows(r)
	shown := make(map[string]shownStep, len(rows))
	for _, row := range rows {
		shown[row.ID] = row.shownStep
	}
	sections := r.Sections()
	o.Graph = drawings(sections, shown)
	o.list(v, rows, sections)
	v.readWaits(o)
	if len(r.Params) > 0 {
		text, err := wire.Encode(r.Params)
		if err != nil {
			return nil, "", err
		}
		o.Params = indented(text)
	}
	o.Output = cutHTML(r.Task.Result, shownText)
	return o, id, nil
}

// isPaused reports whether a run releases no steps until somebody resumes it.
func isPaused(r control.Run) bool { return r.Run.Paused && r.Task.State == task.Running }

// isAgain reports whether a run is to begin again, as somebody wants: unlike a task, none is tried again by itself.
func isAgain(t task.Task) bool { return t.State == task.Scheduled && t.Attempt > 0 }

// runState is how a run is shown, and in a word.
func (v *visit) runState(t task.Task, paused bool) (mark, string) {
	switch {
	case paused:
		return mark{"pause", "t-warn"}, string(v.T("paused"))
	case isAgain(t):
		return mark{"sched", ""}, v.stateName(t.State)
	}
	return stateMark(t), v.StateName(t)
}

// runVerdict says in a sentence how a run is.
func (v *visit) runVerdict(r control.Run, p workflow.Progress) template.HTML {
	t := r.Task
	switch {
	case t.State == task.Queued || isAgain(t):
		return v.T("Is due, and has not begun")
	case t.State != task.Running:
		return v.verdict(t)
	case !t.CancelRequested.IsZero():
		return v.stopping(t)
	case isPaused(r):
		return v.T("Paused: no further step begins. %d of %d steps have ended", p.Ended(), p.Steps)
	case p.Phase == workflow.PhaseOnFailure:
		return v.T("Is going to fail. Its steps for that case run: %d of %d steps have ended", p.Ended(), p.Steps)
	case p.Phase == workflow.PhaseFinally:
		return v.T("Runs its last steps: %d of %d steps have ended", p.Ended(), p.Steps)
	}
	if onlyWaits(r, p) {
		return v.T("Waits: %d of %d steps have ended", p.Ended(), p.Steps)
	}
	return v.T("Runs: %d of %d steps have ended", p.Ended(), p.Steps)
}

// onlyWaits reports whether a run does nothing but wait, for a time or for people.
func onlyWaits(r control.Run, p workflow.Progress) bool {
	isSteered := isPaused(r) || !r.Task.CancelRequested.IsZero() || p.Phase != workflow.PhaseMain
	return !isSteered && r.Task.State == task.Running && p.States[workflow.Waiting] > 0 && p.States[workflow.Active] == 0
}

// PhaseName is what steps of a run may be released, in a word.
func (v *visit) PhaseName(p workflow.Phase) string {
	switch p {
	case workflow.PhaseMain:
		return string(v.T("main steps"))
	case workflow.PhaseOnFailure:
		return string(v.T("after a failure"))
	case workflow.PhaseFinally:
		return string(v.T("last steps"))
	case workflow.PhaseEnded:
		return string(v.T("ended"))
	}
	return string(v.T("not begun"))
}

// SectionName is the heading of a section of steps.
func (v *visit) SectionName(section string) template.HTML {
	switch section {
	case "on_failure":
		return v.T("If the run is going to fail")
	case "finally":
		return v.T("Last, whatever came before")
	}
	return v.T("Steps")
}

// Drawn says of a section what its drawing leaves out or joins; "" for nothing.
func (v *visit) Drawn(d drawing) template.HTML {
	var said []string
	if d.Joined {
		said = append(said, string(v.T("A box with a number stands for steps that need the same, and that the same need.")))
	}
	if d.LeftOut > 0 {
		said = append(said, string(v.T("%d of %d steps are not drawn: the list has them.", d.LeftOut, d.Steps)))
	}
	if d.Thinned {
		said = append(said, string(v.T("Not all lines are drawn.")))
	}
	return template.HTML(strings.Join(said, " ")) //nolint:gosec // made by T
}

// Can says what can be done with a run now.
func (o *oneRun) Can(what string) bool {
	t := o.Task
	switch what {
	case "pause":
		goesOn := t.State == task.Running && t.CancelRequested.IsZero()
		return goesOn && !o.Progress.Paused && o.Progress.Phase == workflow.PhaseMain
	case "resume":
		return isPaused(o.Run) && t.CancelRequested.IsZero()
	case "cancel":
		return !t.State.Final() && t.CancelRequested.IsZero()
	case "rerun":
		return t.State.Final()
	case "approve", "reject":
		return len(o.Approvals) > 0
	case "signal":
		return o.Signal != nil
	}
	return false
}

// Offers are the actions that the page offers. A rerun is offered anew for each end, and an answer for each question.
func (o *oneRun) Offers() string {
	all := []string{"pause", "resume", "cancel", "rerun"}
	offers := strings.Join(slices.DeleteFunc(all, func(what string) bool { return !o.Can(what) }), " ")
	if o.Can("rerun") {
		offers += " " + o.Ended()
	}
	return offers + o.questions()
}

// Ended is when the run ended, as the form that reruns it says it.
func (o *oneRun) Ended() string { return ms(o.Task.FinishedAt) }

// Seen is as of oneTask.
func (o *oneRun) Seen() string { return seenOf(o.Task) }

// HasFailed reports whether the run has ended with steps from which a rerun begins by itself.
func (o *oneRun) HasFailed() bool {
	return slices.ContainsFunc([]workflow.Verdict{workflow.Failed, workflow.Cancelled, workflow.UpstreamFailed},
		func(end workflow.Verdict) bool { return o.Progress.States[workflow.State(end)] > 0 })
}

// RunNotOffered says why the page of a run offers no other actions.
func (v *visit) RunNotOffered(o *oneRun) template.HTML {
	switch t := o.Task; {
	case t.State.Final():
		return v.T("It has ended: it cannot be paused or cancelled.")
	case !t.CancelRequested.IsZero():
		return v.T("It is asked to stop. When it has ended, it can be run again.")
	case t.State == task.Running && o.Progress.Phase != workflow.PhaseMain:
		return v.T("Its main steps have ended: it cannot be paused. When it has ended, it can be run again.")
	}
	return v.T("When it has ended, it can be run again.")
}

// Deadline is when a run is ended that runs; zero for others.
func (o *oneRun) Deadline() time.Time {
	if o.Task.State != task.Running || o.Run.Run.Begun.IsZero() {
		return time.Time{}
	}
	return o.Run.Run.Begun.Add(o.Flow.EffectiveDeadline())
}

// Asks says what somebody has asked of a run that its leader has not done yet; "" for nothing.
func (v *visit) Asks(o *oneRun) template.HTML {
	if len(o.Asked) == 0 || o.Task.State.Final() {
		return ""
	}
	return v.T("Its leader has not done yet what was asked of it last.")
}

// MadeBy is the schedule that made a task; "" if none did.
func (v *visit) MadeBy(t task.Task) string {
	of, _, isTick := schedule.OfTask(t.Ref)
	if !isTick {
		return ""
	}
	return of
}

func pauseRun(ctx context.Context, v *visit, _ url.Values) (result, error) {
	_, err := v.site.Control.PauseRun(ctx, v.ofPath(), v.param("id"))
	return result{path: v.parent(), said: "run-paused"}, err
}

func resumeRun(ctx context.Context, v *visit, _ url.Values) (result, error) {
	_, err := v.site.Control.ResumeRun(ctx, v.ofPath(), v.param("id"))
	return result{path: v.parent(), said: "run-resumed"}, err
}

// cancelRun is cancelTask for a run.
func cancelRun(ctx context.Context, v *visit, form url.Values) (result, error) {
	done, err := cancelTask(ctx, v, form)
	if done.said != "" {
		done.said = "run-" + done.said
	}
	return done, err
}

// rerunRun runs a run again with the end that the reader has seen: sent again, it does not run twice.
func rerunRun(ctx context.Context, v *visit, form url.Values) (result, error) {
	var ended time.Time
	if ms, err := strconv.ParseInt(form.Get("ended"), 10, 64); err == nil {
		ended = time.UnixMilli(ms)
	}
	from := wordsOf(form.Get("from"))
	if form.Has("from") && len(from) == 0 {
		return result{}, v.invalid("from", v.T("name a step"))
	}
	_, err := v.site.Control.RerunRun(ctx, v.ofPath(), v.param("id"), from, ended)
	if edge.CodeOf(err) == task.CodeNotFinished && !ended.IsZero() {
		err = v.retriedBefore(ctx)
	}
	return result{path: v.parent(), said: "run-again"}, err
}
