package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
)

// whens are after which ends tasks follow.
var whens = []wire.FollowUpWhen{wire.FollowUpWhenSucceeded, wire.FollowUpWhenFailed, wire.FollowUpWhenEnded}

// onEnd is what follows a task; nil if nothing does.
func (w *workload) onEnd(when wire.FollowUpWhen) *wire.FollowUp {
	if when == "" {
		return nil
	}
	return &wire.FollowUp{When: when, Task: wire.FollowUpTask{
		Type: "http", Payload: payloadOf(w.handlers.address(works, 0, 1)), Timeout: ptr(works.timeout().String()),
		Retry: retryUpTo(tickAttempts),
	}}
}

// follows reports whether a task follows an end in that state.
func follows(when wire.FollowUpWhen, state wire.State) bool {
	return string(when) == string(state) || when == wire.FollowUpWhenEnded
}

// judgeFollowUps: what must follow the end of a task is there, and nothing else follows it. If an end was lost, as a
// cancellation, what followed it may be there: workers restore it. isTouched says that of a follow-up. full: Redis had
// no memory for more, so what has ended went early.
func (e evidence) judgeFollowUps(
	when wire.FollowUpWhen, found []wire.Task, isTouched func(id string) bool, full bool,
) (v verdict) {
	if e.task == nil {
		return nil
	}
	expected := ""
	if follows(when, e.task.State) {
		expected = task.Ref{ID: e.id}.FollowUp(e.task.Attempt).ID
	}
	if expected != "" && !full && !slices.ContainsFunc(found, func(t wire.Task) bool { return t.ID == expected }) {
		v.add("nothing follows %s, which is %s with attempt %d", e.id, e.task.State, e.task.Attempt)
	}
	for _, t := range found {
		switch {
		case isTouched(t.ID):
		case t.ID != expected:
			v.add("%s must not follow %s, which is %s with attempt %d", t.ID, e.id, e.task.State, e.task.Attempt)
		case said(t.Parent) != endOf(e.id, e.task.State, e.task.Attempt):
			v.add("%s says that it follows %s, not %s", t.ID, said(t.Parent), endOf(e.id, e.task.State, e.task.Attempt))
		}
	}
	return v
}

func said(p *wire.Parent) string {
	if p == nil {
		return "nothing"
	}
	return endOf(p.ID, p.State, p.Attempt)
}

func endOf(id string, state wire.State, attempt int) string {
	return fmt.Sprintf("%s, %s with attempt %d", id, state, attempt)
}

// judgeFollowUps judges what follows a task, and how it ran.
func (file *caseFile) judgeFollowUps(e evidence, when wire.FollowUpWhen, touched bool, p *past) (v verdict) {
	var found []wire.Task
	for id := range file.byParent[e.id] {
		next := file.of(id, works, tickAttempts, time.Time{}) // it is due when the other one ends, also early
		if next.task != nil {
			found = append(found, *next.task)
		}
		switch {
		case !p.isTouched(next.calls, nil):
			v = append(v, next.judgeCalls(p)...)
			if next.task != nil {
				v = append(v, next.judgeTask(p)...)
			}
		case next.task != nil:
			v = append(v, next.judgeTouched(p, file.r.durable())...)
		}
	}
	file.followUps += len(found)
	isTouched := func(id string) bool { return touched || p.isTouched(file.calls[id], nil) }
	return append(v, e.judgeFollowUps(when, found, isTouched, p.full)...)
}

// noteFollowUp notes a task, or one of which a handler was called, that follows another one.
func (file *caseFile) noteFollowUp(id string) {
	parent, _, follows := strings.Cut(id, "@e")
	if !follows {
		return
	}
	if file.byParent[parent] == nil {
		file.byParent[parent] = make(map[string]bool)
	}
	file.byParent[parent][id] = true
}
