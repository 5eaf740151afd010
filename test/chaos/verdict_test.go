package chaos

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
)

// count lists the tasks in the given states, every page of them; -1 if that could not be.
func (r *round) count(states ...client.State) (tasks []client.Task, n int) {
	limit := 500
	params := client.ListTasksParams{Limit: &limit, State: states}
	for {
		var page client.TaskList
		status, body := r.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
			return c.ListTasksWithResponse(ctx, &params)
		})
		if err := json.Unmarshal(body, &page); err != nil || status != http.StatusOK {
			r.t.Errorf("listing tasks was answered by %d: %s", status, body)
			return nil, -1
		}
		tasks = append(tasks, page.Tasks...)
		if params.Cursor = page.NextCursor; params.Cursor == nil || *params.Cursor == "" {
			return tasks, len(tasks)
		}
	}
}

func (r *round) schedule(s *ticking) (state client.Schedule, ok bool) {
	status, body := r.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.GetScheduleWithResponse(ctx, s.id, nil)
	})
	if err := json.Unmarshal(body, &state); err != nil || status != http.StatusOK {
		r.t.Errorf("reading %s was answered by %d: %s", s.id, status, body)
		return state, false
	}
	return state, true
}

func (r *round) attempts(id string) []client.Attempt {
	var history client.AttemptList
	status, body := r.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.ListAttemptsWithResponse(ctx, id, nil)
	})
	if err := json.Unmarshal(body, &history); err != nil || status != http.StatusOK {
		r.t.Errorf("reading the attempts of %s was answered by %d: %s", id, status, body)
	}
	return history.Attempts
}

// judge compares what DTS says with what happened. It is meant for a round that has settled.
func (r *round) judge(w *workload) {
	tasks := make(map[string]client.Task)
	all, _ := r.count(client.StateScheduled, client.StateQueued, client.StateRunning, client.StateSucceeded, client.StateFailed, client.StateCancelled)
	for _, t := range all {
		if _, twice := tasks[t.ID]; twice {
			r.violation("%s is listed twice", t.ID)
		}
		tasks[t.ID] = t
	}
	r.readRemembered(w, tasks)
	calls := r.handlers.byTask()
	for _, bad := range r.handlers.bad {
		r.violation("a handler was called without a task: %s", bad)
	}
	for _, text := range r.locking.broken {
		if len(r.lost)+len(r.jumps) == 0 { // otherwise Redis may have lost that a lock was taken, or ended it early
			r.violation("%s", text)
		}
	}
	known := make(map[string]bool)
	for _, j := range w.jobs {
		known[j.id] = true
		r.judgeJob(j, tasks, calls[j.id])
	}
	for _, s := range r.schedules {
		for _, id := range r.judgeSchedule(s, tasks, calls) {
			known[id] = true
		}
	}
	for id := range calls { // Redis may have lost that a schedule was resumed, and that its ticks fired
		if !known[id] && !r.isTouched(nil, calls[id]) {
			r.violation("a handler was called for %s, which nobody submitted and no ledger names", id)
		}
	}
	for id := range tasks {
		if !known[id] && !r.isTouched(nil, calls[id]) {
			r.violation("there is a task %s, which nobody submitted and no ledger names", id)
		}
	}
	r.t.Logf("%d tasks, %d of them of schedules; %d calls; the lock was held %d times", len(tasks), len(tasks)-len(w.jobs), len(r.handlers.calls), r.locking.holds)
}

// readRemembered submits the jobs that are not listed again, if Redis was full in the round: finished tasks go early then, and their ids are
// remembered, so that none of them runs again.
func (r *round) readRemembered(w *workload, tasks map[string]client.Task) {
	for _, j := range w.jobs {
		if _, found := tasks[j.id]; found || !j.accepted || !r.wasFull.Load() {
			continue
		}
		status, body := w.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
			return c.SubmitTaskWithResponse(ctx, nil, w.submission(j))
		})
		if j.remembered = status == http.StatusOK; !j.remembered {
			r.violation("%s, which was accepted, is accepted again: %d: %s", j.id, status, body)
		}
	}
}

// judgeJob: what was accepted has ended, and as it must; what was cancelled or changed was not begun after that as if it were not.
func (r *round) judgeJob(j *job, tasks map[string]client.Task, calls []call) {
	t, found := tasks[j.id]
	touched := r.isTouched(j, calls)
	if !touched || r.durable() {
		for _, text := range j.missed {
			r.violation("%s", text)
		}
	}
	if !found {
		if j.accepted && !j.remembered && (!touched || r.durable()) {
			r.violation("%s was accepted and is not there", j.id)
		}
		return
	}
	if touched {
		r.judgeTouched(t, calls)
		return
	}
	r.judgeTask(t, j.behaviour, calls)
	if t.State == client.StateCancelled && !j.asked {
		r.violation("%s was cancelled, which nobody asked for", j.id)
	}
	for _, c := range calls {
		if c.begin.Before(r.earliest(j.due)) {
			r.violation("attempt %d of %s began %s early", c.attempt, j.id, j.due.Sub(c.begin))
		}
		if a := j.cancelled; a != nil && c.begin.After(a.at) && c.attempt > a.attempt {
			r.violation("attempt %d of %s began %s after it was said to be cancelled in attempt %d", c.attempt, j.id, c.begin.Sub(a.at), a.attempt)
		}
		for _, a := range j.changes {
			if c.begin.After(a.at) && c.attempt > a.attempt && c.version < a.version {
				r.violation("attempt %d of %s ran version %d, %s after the change to version %d", c.attempt, j.id, c.version, c.begin.Sub(a.at), a.version)
			}
		}
	}
}

// judgeTask: each attempt was begun once, all of them are in the history, and they ended as the handlers say.
func (r *round) judgeTask(t client.Task, b behaviour, calls []call) {
	begun := make(map[int]call)
	for _, c := range calls {
		if _, twice := begun[c.attempt]; twice {
			r.violation("attempt %d of %s was begun twice", c.attempt, t.ID)
		}
		if c.attempt > t.MaxAttempts {
			r.violation("attempt %d of %s, which has %d at most, was begun", c.attempt, t.ID, t.MaxAttempts)
		}
		begun[c.attempt] = c
	}
	history := r.attempts(t.ID)
	for i, a := range history {
		if a.Number != i+1 {
			r.violation("attempt %d in the history of %s has the number %d", i+1, t.ID, a.Number)
		}
		r.judgeAttempt(t, b, a, begun)
	}
	never := t.State == client.StateCancelled && len(history) == t.Attempt-1 // the last one was cancelled before it began
	if len(history) != t.Attempt && !never {
		r.violation("%s is in attempt %d, and has %d in its history", t.ID, t.Attempt, len(history))
	}
	for n := range begun {
		if n > t.Attempt {
			r.violation("attempt %d of %s was begun, and DTS knows of %d", n, t.ID, t.Attempt)
		}
	}
	r.judgeEnd(t, b, history, begun)
}

// judgeAttempt compares one attempt of a history with the call of its handler.
func (r *round) judgeAttempt(t client.Task, b behaviour, a client.Attempt, begun map[int]call) {
	c, called := begun[a.Number]
	switch {
	case a.Outcome == nil:
		r.violation("attempt %d of %s, which is %s, has no outcome", a.Number, t.ID, t.State)
	case *a.Outcome == client.OutcomeSucceeded && (!called || c.token == "" || b.fails(a.Number)):
		r.violation("attempt %d of %s has succeeded, which the handler does not confirm: %+v", a.Number, t.ID, c)
	case *a.Outcome == client.OutcomeFailed && (!called || !b.fails(a.Number)):
		r.violation("attempt %d of %s has failed (%s), which the handler does not confirm: %+v", a.Number, t.ID, value(a.Error), c)
	case *a.Outcome == client.OutcomeTimeout && b != hangs:
		r.violation("attempt %d of %s ended by its timeout: %+v", a.Number, t.ID, c)
	}
}

// judgeEnd: the task ended for a reason, with the result of the call that succeeded.
func (r *round) judgeEnd(t client.Task, b behaviour, history []client.Attempt, begun map[int]call) {
	var last client.Outcome
	if n := len(history); n > 0 && history[n-1].Outcome != nil {
		last = *history[n-1].Outcome
	}
	switch t.State {
	case client.StateSucceeded:
		if last != client.OutcomeSucceeded || value(t.Result) != begun[t.Attempt].token {
			r.violation("%s has succeeded with %q; its last attempt is %s, and was answered %q", t.ID, value(t.Result), last, begun[t.Attempt].token)
		}
	case client.StateFailed:
		if t.Attempt < t.MaxAttempts && (b != permanent || last != client.OutcomeFailed) {
			r.violation("%s has failed after %d of %d attempts; the last one is %s", t.ID, t.Attempt, t.MaxAttempts, last)
		}
	case client.StateCancelled:
	default:
		r.violation("%s is %s still", t.ID, t.State)
	}
	succeeded := slices.IndexFunc(history, func(a client.Attempt) bool { return a.Outcome != nil && *a.Outcome == client.OutcomeSucceeded })
	if succeeded >= 0 && succeeded < len(history)-1 {
		r.violation("%s has attempts after one that succeeded: %+v", t.ID, history)
	}
}

// judgeSchedule: each tick has one record, which agrees with its task, and the audit says so. It returns the tasks that the ledger names.
func (r *round) judgeSchedule(s *ticking, tasks map[string]client.Task, calls map[string][]call) []string {
	var named []string
	state, _ := r.schedule(s)
	if s.created = state.CreatedAt; s.created.Before(s.asked.Truncate(time.Millisecond)) || s.created.After(s.answered) {
		r.violation("%s was put at %s, between %s and %s", s.id, s.created, s.asked, s.answered)
	}
	recorded := make(map[time.Time]bool)
	for _, e := range r.ledger(s) {
		at := e.Tick.UTC()
		if recorded[at] {
			r.violation("%s: the tick %s has two records", s.id, at)
		}
		recorded[at] = true
		if e.Task == nil {
			if e.Outcome == client.TickOutcomeFired {
				r.violation("%s: the tick %s has fired without a task", s.id, at)
			}
			continue
		}
		named = append(named, *e.Task)
		r.judgeTick(s, e, tasks, calls)
	}
	expected := s.expected()
	for _, at := range expected {
		if !recorded[at.UTC()] {
			r.violation("%s: the tick %s has no record", s.id, at)
		}
		delete(recorded, at.UTC())
	}
	for at := range recorded {
		r.violation("%s: there is a record of %s, which is no tick", s.id, at)
	}
	r.judgeAudit(s, len(expected), doubledTicks(named, calls))
	return named
}

// judgeTick judges the task of a tick.
func (r *round) judgeTick(s *ticking, e client.LedgerEntry, tasks map[string]client.Task, calls map[string][]call) {
	t, found := tasks[*e.Task]
	if !found && r.wasFull.Load() {
		return // its history went early
	}
	if !found {
		r.violation("%s: the task of the tick %s, which was %s, is not there", s.id, e.Tick, e.Outcome)
		return
	}
	if r.isTouched(nil, calls[t.ID]) {
		r.judgeTouched(t, calls[t.ID])
		return
	}
	r.judgeTask(t, s.behaviour, calls[t.ID])
	if t.State == client.StateCancelled && s.overlap != client.OverlapReplace {
		r.violation("%s was cancelled, which nobody asked for", t.ID)
	}
	for _, c := range calls[t.ID] {
		if c.begin.Before(r.earliest(e.Tick)) {
			r.violation("%s began %s early", t.ID, e.Tick.Sub(c.begin))
		}
	}
}

// judgeAudit: the audit says that each tick is accounted for, and does not call proved what Redis has lost.
func (r *round) judgeAudit(s *ticking, expected int, doubled []string) {
	var report client.AuditReport
	status, body := r.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.AuditScheduleWithResponse(ctx, s.id, nil)
	})
	if err := json.Unmarshal(body, &report); err != nil || status != http.StatusOK {
		r.t.Errorf("the audit of %s was answered by %d: %s", s.id, status, body)
		return
	}
	excused := len(r.lost) > 0 && len(report.LostWrites) > 0
	if !report.Proved && !excused || report.Expected != expected || report.Accounted != expected {
		r.violation("%s: the audit says %s, of %d ticks", s.id, body, expected)
	}
	if report.Proved && len(doubled) > 0 {
		r.violation("%s: the audit says that it is proved, and these ran twice: %s", s.id, doubled)
	}
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// examine has the doctor look at everything: it must find no error.
func (r *round) examine() {
	var params client.ExamineParams
	for {
		var report client.DoctorReport
		status, body := r.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
			return c.ExamineWithResponse(ctx, &params)
		})
		if err := json.Unmarshal(body, &report); err != nil || status != http.StatusOK {
			r.t.Errorf("the examination was answered by %d: %s", status, body)
			return
		}
		for _, check := range report.Checks {
			if check.Severity == client.DoctorCheckSeverityError {
				r.violation("the doctor: %s: %d: %q %s", check.Name, check.Found, check.Examples, value(check.Detail))
			}
		}
		if params.Cursor = report.NextCursor; params.Cursor == nil {
			return
		}
	}
}
