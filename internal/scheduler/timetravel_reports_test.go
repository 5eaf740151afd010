package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
)

// These are reports of runs that hung, or went wrong, in other engines. docs/workflows.md lists all of them with their
// tests.

// submits submits a run with that definition.
func (v *voyage) submits(id, definition string) task.Ref {
	v.t.Helper()
	payload, err := json.Marshal(map[string]json.RawMessage{"definition": json.RawMessage(definition)})
	testkit.Must(v.t, err)
	return v.submitsTask(id, payload)
}

// submitsTask submits a run with that payload.
func (v *voyage) submitsTask(id string, payload []byte) task.Ref {
	v.t.Helper()
	d := task.Definition{
		Ref: task.Ref{Namespace: "default", ID: id}, Type: task.WorkflowType, Queue: task.WorkflowQueue,
		Payload: payload, Retention: task.RetentionLimit,
	}
	for _, created := range v.store.Tasks.Create(v.t.Context(), []task.Definition{d.Normalize()}) {
		testkit.Must(v.t, created.Err)
	}
	return d.Ref
}

// sound checks that a run ended so, as its audit says, and returns the states of its steps and the attempts of their
// tasks, as "a=succeeded/1 b=skipped/0".
func (v *voyage) sound(ref task.Ref, state task.State) string {
	v.t.Helper()
	own, flow, run, steps := v.runOf(ref)
	if own.Task.State != state {
		v.t.Errorf("%s is %s, want %s: %s", ref.ID, own.Task.State, state, own.Text)
	}
	if findings := workflow.Audit(flow, run, own.Task.State, steps); len(findings) > 0 {
		v.t.Errorf("%s: %s", ref.ID, strings.Join(findings, "; "))
	}
	var all []string
	for i, s := range run.Steps {
		all = append(all, fmt.Sprintf("%s=%s/%d", flow.StepID(i), s.State, steps[i].Attempt))
	}
	return strings.Join(all, " ")
}

// death is who dies, and where.
type death struct {
	who    string // leader, worker, or both
	script string // that it was about to send
	then   fate
	want   string // the steps, and the attempts of their tasks
}

// Sidekiq's batches hung if a deploy killed a process between the end of a job and what follows it (report 4). Somebody
// dies at each script between the end of a step and the begin of the next one: that has one task, never none or two.
func TestTravel_ADeathBetweenTwoStepsLosesNothing(t *testing.T) {
	testkit.NotQuick(t)
	const flow = `{"steps": [{"id": "a", "task": {"type": "echo", "retry": {"max_attempts": 2}}},
		{"id": "b", "needs": ["a"], "task": {"type": "echo", "retry": {"max_attempts": 2}}}]}`
	const once, again, twice = "a=succeeded/1 b=succeeded/1", "a=succeeded/2 b=succeeded/1", "a=succeeded/1 b=succeeded/2"
	travel(t, at("2026-03-01T00:00Z"), slow, func(v *voyage) {
		v.start()
		v.takes(time.Minute)
		v.hire()
		for i, d := range []death{
			{"worker", "finish", sendLost, again}, // the attempt is lost
			{"worker", "finish", answerLost, once},
			{"both", "finish", answerLost, once},
			{"leader", "read_outbox", sendLost, once},
			{"leader", "read_runs", sendLost, once},
			{"leader", "advance", sendLost, once},
			{"leader", "advance", answerLost, once},
			{"leader", "claim", sendLost, once},
			{"leader", "claim", answerLost, once},
			{"leader", "enqueue", sendLost, once},
			{"leader", "enqueue", answerLost, once},
			{"worker", "begin", sendLost, once},
			{"worker", "begin", answerLost, twice},
		} {
			run := v.submits(fmt.Sprint("run-", i), flow)
			v.pass(30 * time.Second)
			if d.who == "leader" {
				v.trapped(v.leads(), d.script, d.then)
			} else {
				v.worker.way.lay(d.script, d.then)
				<-v.worker.way.dead
				v.hire()
			}
			if d.who == "both" {
				v.killed(v.leads())
			}
			if d.who != "worker" {
				v.start()
			}
			v.pass(5 * time.Hour)
			if got := v.sound(run, task.Succeeded); got != d.want {
				t.Errorf("the %s died at %s: %s, want %s", d.who, d.script, got, d.want)
			}
		}
		v.ranOnceEach()
	})
}

// BullMQ forgot that a child which stalled had failed (report 9): its worker dies, and no attempt is left.
func TestTravel_ALostStepFailsWhatNeedsIt(t *testing.T) {
	testkit.NotQuick(t)
	const flow = `{"steps": [
		{"id": "a", "task": {"type": "echo", "retry": {"max_attempts": 1}}},
		{"id": "b", "needs": ["a"], "task": {"type": "echo"}},
		{"id": "late", "task": {"type": "echo", "timeout": "2m", "retry": {"max_attempts": 1}}},
		{"id": "c", "needs": ["late"], "rule": "failure", "task": {"type": "echo"}}]}`
	travel(t, at("2026-03-01T00:00Z"), slow, func(v *voyage) {
		v.start()
		v.worker.does(func(t task.Task) (time.Duration, error) {
			switch _, step, _ := t.Ref.Run(); step {
			case "a":
				return time.Hour, nil
			case "late":
				return 2 * time.Minute, errors.New("timeout after 2m")
			}
			return time.Minute, nil
		})
		v.hire()
		run := v.submits("run", flow)
		v.pass(4 * time.Minute)
		v.worker.way.cut()
		v.hire()
		v.pass(5 * time.Hour)
		const want = "a=failed/1 b=upstream_failed/0 late=failed/1 c=succeeded/1"
		if got := v.sound(run, task.Failed); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// Celery's chords lost a part if the reply of Redis was lost after a task had succeeded, and began the body early if a
// task was delivered twice (reports 1 and 3). Here each end is reported three times, the last time after the join.
func TestTravel_EndsThatAreReportedAgainChangeNothing(t *testing.T) {
	testkit.NotQuick(t)
	var steps, needs []string
	for i := range 6 {
		steps = append(steps, fmt.Sprintf(`{"id": "s%d", "task": {"type": "echo"}}`, i))
		needs = append(needs, fmt.Sprintf(`"s%d"`, i))
	}
	steps = append(steps, `{"id": "join", "needs": [`+strings.Join(needs, ",")+`], "task": {"type": "echo"}}`)
	travel(t, at("2026-03-01T00:00Z"), slow, func(v *voyage) {
		v.start()
		v.worker.tells = 3
		v.worker.does(func(t task.Task) (time.Duration, error) {
			return time.Duration(chance(t.ID, 100)) * time.Second, nil
		})
		run := v.submits("run", `{"steps": [`+strings.Join(steps, ",")+`]}`)
		v.pass(time.Hour)
		v.sound(run, task.Succeeded)
		v.ranOnceEach()
		saw := v.worker.saw()
		if len(saw) != 7 {
			t.Errorf("%d tasks ran, want 7", len(saw))
		}
		for _, r := range saw[:6] {
			if join := saw[6]; join.begun.Before(r.ended) || join.ref != run.Step("join") {
				t.Errorf("%s began at %s, before the end of %s", join.ref.ID, join.begun, r.ref.ID)
			}
		}
	})
}

// Celery left a fan-out half made if it crashed meanwhile (report 5). Leaders die while they write its parts.
func TestTravel_AFanOutSurvivesTheDeathsOfItsLeaders(t *testing.T) {
	testkit.NotQuick(t)
	many := testkit.Amount(releasedAtOnce+20, 1000)
	var steps []string
	for i := range many {
		steps = append(steps, fmt.Sprintf(`{"id": "s%d", "task": {"type": "echo"}}`, i))
	}
	travel(t, at("2026-03-01T00:00Z"), slow, func(v *voyage) {
		n := v.start()
		v.submits("before", `{"steps": [{"id": "a", "task": {"type": "echo"}}]}`) // so that Redis knows the scripts
		v.pass(time.Minute)
		n.way.lay("advance", sendLost)
		run := v.submits("run", `{"steps": [`+strings.Join(steps, ",")+`]}`)
		v.trapped(n, "advance", sendLost)
		for _, part := range []struct {
			then fate
			want int
		}{{answerLost, releasedAtOnce}, {sendLost, releasedAtOnce}, {answerLost, min(many, 2*releasedAtOnce)}} {
			v.trapped(v.start(), "advance", part.then)
			_, _, known, _ := v.runOf(run)
			blocked := func(s workflow.StepRun) bool { return s.State == workflow.Blocked }
			if released := len(slices.DeleteFunc(known.Steps, blocked)); released != part.want {
				t.Errorf("%d steps are released, want %d", released, part.want)
			}
		}
		v.start()
		v.pass(5 * time.Hour)
		v.sound(run, task.Succeeded)
		v.ranOnceEach()
		if ran := len(v.worker.saw()); ran != many+1 {
			t.Errorf("%d tasks ran, want %d and one before", ran, many)
		}
	})
}

// 5 % of BullMQ's flows with 15 children ended with some that had never begun, as a rate limit held them up (report 8).
// Here runs wait for each other by max_runs, and steps by at_once. All of them wait for their queue: for hours, no
// worker takes tasks from it.
func TestTravel_RunsUnderLimitsEndWithAllTheirSteps(t *testing.T) {
	testkit.NotQuick(t)
	many := testkit.Amount(12, 200)
	const children = 15
	var steps []string
	for i := range children {
		steps = append(steps, fmt.Sprintf(`{"id": "s%d", "task": {"type": "echo", "retry": {"max_attempts": 1}}}`, i))
	}
	travel(t, at("2026-03-01T00:00Z"), slow, func(v *voyage) {
		flow := v.keeps("wide", 3, `{"at_once": 4, "steps": [`+strings.Join(steps, ",")+`]}`)
		v.start()
		v.worker.does(func(t task.Task) (time.Duration, error) {
			lasts := time.Duration(chance(t.ID, 300)) * time.Second
			if chance(t.ID+"end", 40) == 0 {
				return lasts, errors.New("by chance")
			}
			return lasts, nil
		})
		var runs []task.Ref
		for i := range many {
			runs = append(runs, v.submitsTask(fmt.Sprint("run-", i), fmt.Appendf(nil, `{"workflow": %q}`, flow.ID)))
		}
		v.pass(20 * time.Minute)
		v.worker.leave() // when what it runs has ended
		v.pass(3 * time.Hour)
		v.killed(v.leads())
		v.start()
		v.pass(3 * time.Hour)
		v.hire()
		v.pass(time.Duration(many) * time.Hour)
		for _, run := range v.audited(runs) {
			_, _, known, steps := v.runOf(run.Ref)
			for i, s := range known.Steps {
				if !s.State.Final() || steps[i].Attempt != 1 {
					t.Errorf("step %d of %s is %s after %d attempts", i, run.ID, s.State, steps[i].Attempt)
				}
			}
		}
		v.ranOnceEach()
		v.sideBySide(func(r run) string { ref, _, _ := r.ref.Run(); return ref.ID }, 4)
	})
}

// sideBySide checks that no more attempts of a group than most ran at the same time. of names the group of an attempt.
func (v *voyage) sideBySide(of func(run) string, most int) {
	v.t.Helper()
	saw := v.worker.saw()
	for _, r := range saw {
		side := 0
		for _, other := range saw {
			if of(r) == of(other) && !other.begun.After(r.begun) && other.ended.After(r.begun) {
				side++
			}
		}
		if side > most {
			v.t.Errorf("%d tasks of %s ran when %s began, want %d at most", side, of(r), r.ref.ID, most)
		}
	}
}

// An old run of Airflow that was cleared waited for the place of a new one, and the new one for the old one (report
// 11). Here the run of the first tick begins again while that of the second one runs, and the ticks after it wait.
func TestTravel_ARerunAndNewerRunsDoNotWaitForEachOther(t *testing.T) {
	testkit.NotQuick(t)
	travel(t, at("2026-03-10T08:05Z"), slow, func(v *voyage) {
		v.keeps("loads", 1, `{"steps": [{"id": "load", "task": {
			"type": "echo", "timeout": "24h", "retry": {"max_attempts": 1}}}]}`)
		v.start()
		broken := true
		v.worker.does(func(task.Task) (time.Duration, error) {
			if broken {
				broken = false
				return time.Minute, errors.New("broken")
			}
			return 25 * time.Minute, nil
		})
		s := v.put("s", ofRuns(tenMinutes(schedule.OverlapQueue)))
		v.until(at("2026-03-10T08:25Z"))
		first := task.Ref{Namespace: "default", ID: "s@" + schedule.TickName(at("2026-03-10T08:10Z"))}
		_, err := v.store.Tasks.RerunIn(v.t.Context(), first, "rerun", time.Time{})
		testkit.Must(t, err)
		v.until(at("2026-03-10T08:40Z"))
		if own, err := v.store.Tasks.Get(v.t.Context(), first); err != nil || own.State != task.Queued {
			t.Errorf("the first run is %s while the second one runs: %v", own.State, err)
		}
		v.until(at("2026-03-10T13:00Z"))
		s.ended(task.Succeeded, "08:10", "08:20", "08:30", "08:40", "08:50", "09:00", "09:10")
		v.sideBySide(func(run) string { return "loads" }, 1)
		s.counts(7)
	})
}

// A run of DolphinScheduler hung if the branch that failed came to the join in the wrong order, and no tick after it
// ran (report 12). Here the branches end in another order at each tick, and in all orders.
func TestTravel_TicksGoOnAfterAJoinWithAFailedBranch(t *testing.T) {
	testkit.NotQuick(t)
	orders := []map[string]time.Duration{ // how long each step takes
		{"sh1": 1, "sh3": 1, "sh2": 3, "sh4": 1}, {"sh1": 1, "sh3": 5, "sh2": 1, "sh4": 1},
		{"sh1": 2, "sh3": 2, "sh2": 1, "sh4": 2}, {"sh1": 1, "sh3": 1, "sh2": 1, "sh4": 1}, // the last two end at once
		{"sh1": 3, "sh3": 3, "sh2": 1, "sh4": 1}, {"sh1": 1, "sh3": 2, "sh2": 2, "sh4": 3},
		{"sh1": 4, "sh3": 1, "sh2": 4, "sh4": 1},
	}
	travel(t, at("2026-03-10T08:05Z"), slow, func(v *voyage) {
		step := func(id, needs string) string {
			return fmt.Sprintf(`{"id": %q, "needs": [%s], "task": {"type": "echo", "retry": {"max_attempts": 1}}}`, id, needs)
		}
		v.keeps("loads", 0, `{"steps": [`+strings.Join([]string{step("sh1", ""), step("sh3", `"sh1"`), step("sh2", ""),
			step("sh4", `"sh2"`), step("sh5", `"sh3", "sh4"`)}, ",")+`]}`)
		v.start()
		v.worker.does(func(t task.Task) (time.Duration, error) {
			run, step, _ := t.Ref.Run()
			_, name, _ := run.Tick()
			tick, _, _ := schedule.ParseTickName(name)
			lasts := orders[int(tick.Sub(at("2026-03-10T08:10Z"))/(10*time.Minute))][step] * time.Minute
			if step == "sh3" {
				return lasts, errors.New("broken")
			}
			return lasts, nil
		})
		s := v.put("s", ofRuns(tenMinutes(schedule.OverlapQueue)))
		v.until(at("2026-03-10T10:00Z"))
		for i := range orders {
			tick := at("2026-03-10T08:10Z").Add(time.Duration(i) * 10 * time.Minute)
			run := task.Ref{Namespace: "default", ID: "s@" + schedule.TickName(tick)}
			const want = "sh1=succeeded/1 sh3=failed/1 sh2=succeeded/1 sh4=succeeded/1 sh5=upstream_failed/0"
			if got := v.sound(run, task.Failed); got != want {
				t.Errorf("the run of %s: %s", tick, got)
			}
		}
		s.counts(len(orders))
		v.ranOnceEach()
	})
}
