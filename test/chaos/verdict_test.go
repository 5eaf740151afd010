package chaos

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
)

// judge compares what DTS says with what happened. It is meant for a round that has settled.
func (r *round) judge(w *workload) {
	r.noteLate()
	file := r.newCaseFile()
	r.askAgain(w, file)
	for _, bad := range r.handlers.bad {
		r.violation("a handler was called without a task: %s", bad)
	}
	r.add(r.locking.judge(&r.past))
	for _, j := range w.jobs {
		e, p := file.ofJob(j), r.past.of(j.id)
		r.add(j.judge(e, p, r.durable()))
		r.add(file.judgeFollowUps(e, j.when, p.isTouched(e.calls, j.answers), p))
	}
	r.judgeFlows(w, file)
	r.judgeLimits(w, file)
	for _, s := range r.schedules {
		r.judgeSchedule(s, file)
	}
	file.judgeStrangers(r)
	unknown := r.handlers.unknown()
	if unknown > len(r.handlers.calls)/20 && runtime.GOOS == "linux" {
		r.violation("the callers of %d of %d calls are not known: the judge excuses what it should not", unknown, len(r.handlers.calls))
	}
	r.t.Logf("%d tasks, %d of them of schedules, %d of them follow others, %d are steps of %d runs of workflows; "+
		"%d calls, %d by callers that are not known; the lock was held %d times",
		len(file.tasks), len(file.tasks)-len(w.jobs)-file.followUps-file.steps-len(w.flows), file.followUps,
		file.steps, len(w.flows),
		len(r.handlers.calls), unknown, r.locking.holds)
}

func (r *round) add(v verdict) {
	for _, text := range v {
		r.violation("%s", text)
	}
}

// caseFile is what the judge has before it.
type caseFile struct {
	r       *round
	tasks   map[string]wire.Task
	calls   map[string][]call
	members map[string][]string // see evidence
	known   map[string]bool     // the tasks that somebody submitted or a ledger names, and those that follow them

	byParent  map[string]map[string]bool // the tasks that follow others, also those of which only the handler knows
	followUps int                        // that are listed
	steps     int                        // of runs of workflows, that are listed
}

func (r *round) newCaseFile() *caseFile {
	file := &caseFile{r: r, tasks: make(map[string]wire.Task), calls: r.handlers.byTask(), members: make(map[string][]string), known: make(map[string]bool)}
	file.byParent = make(map[string]map[string]bool)
	for id := range file.calls {
		file.noteFollowUp(id)
	}
	all, _ := r.list(wire.StateScheduled, wire.StateQueued, wire.StateRunning, wire.StateSucceeded, wire.StateFailed, wire.StateCancelled)
	for _, t := range all {
		if _, twice := file.tasks[t.ID]; twice {
			r.violation("%s is listed twice", t.ID)
		}
		file.tasks[t.ID] = t
		file.noteFollowUp(t.ID)
	}
	for _, m := range r.members {
		for _, id := range m.ids() {
			file.members[id] = m.dependsOn()
		}
	}
	return file
}

// of is the evidence of a task.
func (file *caseFile) of(id string, behaviour behaviour, maxAttempts int, due time.Time) evidence {
	file.known[id] = true
	e := evidence{id: id, behaviour: behaviour, maxAttempts: maxAttempts, due: due, calls: file.calls[id], members: file.members}
	if t, found := file.tasks[id]; found {
		e.task, e.history = &t, file.r.attempts(id)
	}
	for _, a := range e.history {
		if hasMoved(a) {
			e.maxAttempts++ // it does not count
		}
	}
	return e
}

// ofJob is the evidence of the task of a job.
func (file *caseFile) ofJob(j *job) evidence {
	e := file.of(j.id, j.behaviour, j.maxAttempts, j.due)
	e.moves, e.asked = j.moves, j.moving > 0
	return e
}

// judgeStrangers: there is nothing but what somebody submitted or a ledger names.
func (file *caseFile) judgeStrangers(r *round) {
	for id := range file.calls {
		if file.isStrange(id) {
			r.violation("a handler was called for %s, which nobody submitted and no ledger names", id)
		}
	}
	for id := range file.tasks {
		if file.isStrange(id) {
			r.violation("there is a task %s, which nobody submitted and no ledger names", id)
		}
	}
}

// isStrange reports whether nobody submitted a task and no ledger names it. Redis may have lost that a schedule was
// resumed, and that its ticks fired: such a tick is not strange, nor are those that follow it. Its worker may have
// waited until Redis was back.
func (file *caseFile) isStrange(id string) bool {
	p := file.r.past.of(id)
	if file.known[id] || p.isTouched(file.calls[id], nil) {
		return false
	}
	_, name, _ := strings.Cut(id, "@")
	if tick, err := time.Parse("20060102T150405Z", name); err == nil && p.isLossy(span{tick, tick}) {
		return false
	}
	first, _, follows := strings.Cut(id, "@e")
	return !follows || file.known[first] || file.isStrange(first)
}

// askAgain submits the jobs that are not listed again, if Redis was full in the round: finished tasks go early then, and their ids are
// remembered, so that none of them runs again. Those that Redis may have lost would be accepted.
func (r *round) askAgain(w *workload, file *caseFile) {
	if !r.past.wasFull() {
		return
	}
	for _, j := range w.jobs {
		_, listed := file.tasks[j.id]
		if listed || !j.accepted || r.past.of(j.id).isTouched(file.calls[j.id], j.answers) && !r.durable() {
			continue
		}
		status, body := w.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
			return c.SubmitTaskWithResponse(ctx, nil, w.submission(j))
		})
		var t wire.Task
		if err := json.Unmarshal(body, &t); err != nil || status != http.StatusOK {
			r.violation("%s, which was accepted, is accepted again: %d: %s", j.id, status, body)
		}
		j.remembered = t.State
	}
}

// judgeSchedule judges a schedule and the tasks that its ledger names.
func (r *round) judgeSchedule(s *ticking, file *caseFile) {
	state, _ := r.schedule(s)
	if s.created = state.CreatedAt.Time; s.created.Before(s.asked.Truncate(time.Millisecond)) || s.created.After(s.answered) {
		r.violation("%s was put at %s, between %s and %s", s.id, s.created, s.asked, s.answered)
	}
	ledger, p := r.ledger(s), r.past.of(s.id)
	r.add(s.judgeLedger(ledger, p))
	var records []record
	var tasks []evidence
	for _, e := range ledger {
		known := record{LedgerEntry: e}
		if e.Task != nil {
			known.task = file.of(*e.Task, s.behaviour, tickAttempts, e.Tick.Time)
			r.add(s.judgeTick(e, known.task, p, r.durable()))
			r.add(file.judgeFollowUps(known.task, s.when, p.isTouched(known.task.calls, nil), p))
			tasks = append(tasks, known.task)
		} else if t, ok := file.tasks[s.idOf(e.Tick.Time)]; ok {
			known.task.task = &t
		}
		records = append(records, known)
	}
	r.add(s.judgeReasons(records, p))
	r.add(s.judgeLateness(records, p))
	r.add(s.judgeOverlap(tasks, p))
	if report, ok := r.audit(s); ok {
		r.add(s.judgeAudit(report, file.calls, p))
	}
}
