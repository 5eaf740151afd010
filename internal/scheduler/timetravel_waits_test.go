package scheduler

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
)

// shipping waits for a signal, and then does something with its data.
const shipping = `{"steps": [{"id": "paid", "wait": {"signal": "paid"}},
	{"id": "ship", "needs": ["paid"], "task": {"type": "echo", "payload": "${{ prev.output }}"}}]}`

// signalOf is the ask that gives the signal paid, with that JSON.
func signalOf(data string) string {
	return workflow.Ask{
		Do: workflow.DoSignal, Signal: &workflow.Signal{Name: "paid", Data: json.RawMessage(data), By: "ann"},
	}.Encode(workflow.Unknown())
}

// gives gives a run the signal paid, also before it begins.
func (v *voyage) gives(ref task.Ref, data string) {
	v.t.Helper()
	testkit.Must(v.t, v.store.Tasks.AskEarly(v.t.Context(), ref, signalOf(data)))
}

// has checks which signals a run has, as "paid=1 by ann".
func (v *voyage) has(ref task.Ref, want ...string) {
	v.t.Helper()
	_, _, run, _ := v.runOf(ref)
	var got []string
	for _, s := range run.Signals {
		got = append(got, fmt.Sprintf("%s=%s by %s", s.Name, s.Data, s.By))
	}
	if !slices.Equal(got, want) {
		v.t.Errorf("%s has the signals %q, want %q", ref.ID, got, want)
	}
}

// Nothing happens in the partition until a step has waited long enough. It goes on at that moment, or as soon as there
// is a leader again.
func TestTravel_AStepWaitsAsLongAsItSays(t *testing.T) {
	const flow = `{"steps": [{"id": "a", "wait": {"for": "10m"}}, {"id": "b", "wait": {"until": "2026-03-01T00:42:00Z"}},
		{"id": "c", "wait": {"signal": "paid", "timeout": "1h7m", "on_timeout": "skip"}},
		{"id": "d", "needs": ["a"], "wait": {"approval": {}, "timeout": "3h", "on_timeout": "continue"}}]}`
	for name, dies := range map[string]bool{"": false, "its leader dies meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			from := at("2026-03-01T00:00Z")
			travel(t, from, slow, func(v *voyage) {
				v.start()
				v.pass(time.Minute)
				begin := clock.Now().UTC().Truncate(time.Millisecond)
				run := v.submits("run", flow)
				v.pass(time.Second)
				dues := []time.Duration{10 * time.Minute, 41 * time.Minute, 67 * time.Minute, 190 * time.Minute}
				for i, due := range dues {
					if dies && i == 3 {
						v.killed(v.leads())
						v.start()
					}
					moment := v.latest(begin.Add(due).Add(time.Second))
					v.until(begin.Add(due - time.Second))
					if _, _, r, _ := v.runOf(run); r.Steps[i].State != workflow.Waiting {
						t.Errorf("a second before it has waited %s, step %d is %s", due, i, r.Steps[i].State)
					}
					v.until(moment)
					_, _, r, _ := v.runOf(run)
					if s := r.Steps[i]; !s.State.Final() || s.At.Before(begin.Add(due)) || s.At.After(moment) {
						t.Errorf("after %s, step %d is %s, since %s", due, i, s.State, s.At.Sub(begin))
					}
				}
				if got := v.sound(run, task.Succeeded); got != "a=succeeded/0 b=succeeded/0 c=skipped/0 d=succeeded/0" {
					t.Error(got)
				}
			})
		})
	}
}

// A signal that is given to a run that is scheduled, or queued behind another one, is there when the run begins. So is
// it if nobody knows that it was given, and it is given again. The first one stays.
func TestTravel_AnEarlySignalIsKept(t *testing.T) {
	for name, queued := range map[string]bool{"scheduled": false, "queued": true} {
		t.Run(name, func(t *testing.T) {
			travel(t, at("2026-03-01T00:00Z"), slow, func(v *voyage) {
				ctx := v.t.Context()
				v.start()
				v.keeps("ships", 1, shipping)
				d := task.Definition{
					Ref: task.Ref{Namespace: "default", ID: "early"}, Type: task.WorkflowType, Queue: task.WorkflowQueue,
					Payload: []byte(`{"workflow": "ships"}`), Retention: task.RetentionLimit, RunAt: clock.Now().Add(2 * time.Hour),
				}
				first, is := task.Ref{Namespace: "default", ID: "first"}, task.Scheduled
				if queued {
					is, d.RunAt = task.Queued, time.Time{}
					v.submitsTask(first.ID, d.Payload)
					v.pass(time.Minute)
				}
				for _, c := range v.store.Tasks.Create(ctx, []task.Definition{d.Normalize()}) {
					testkit.Must(t, c.Err)
				}
				v.pass(time.Minute)
				if own, err := v.store.Tasks.Get(ctx, d.Ref); err != nil || own.State != is {
					t.Fatalf("the run is %s: %v", own.State, err)
				}
				lossy := newWay(v.redis)
				elsewhere, err := store.Open(ctx, store.Options{DB: v.open(lossy.dial)})
				testkit.Must(t, err)
				testkit.Must(t, v.store.Tasks.AskEarly(ctx, d.Ref, workflow.NoAsk)) // Redis knows the script
				sprung := lossy.lay("ask_run", answerLost)
				if err := elsewhere.Tasks.AskEarly(ctx, d.Ref, signalOf(`{"n":1}`)); err == nil {
					t.Error("the answer was not lost")
				}
				<-sprung
				synctest.Wait()
				v.gives(d.Ref, `{"n":2}`)
				v.gives(d.Ref, `{"n":1}`)
				v.killed(v.leads())
				v.start()
				v.pass(5 * time.Hour)
				if queued {
					v.gives(first, "0")
					v.pass(time.Hour)
				}
				if got := v.sound(d.Ref, task.Succeeded); got != "paid=succeeded/0 ship=succeeded/1" {
					t.Error(got)
				}
				v.has(d.Ref, `paid={"n":1} by ann`)
				ship, err := v.store.Tasks.Get(ctx, d.Ref.Step("ship"))
				if err != nil || string(ship.Payload) != `{"n":1}` {
					t.Errorf("it ships %s: %v", ship.Payload, err)
				}
				testkit.Must(t, v.store.Tasks.AskEarly(ctx, v.again(d.Ref), signalOf(`{"n":3}`))) // runs again, and is asked anew
				v.pass(3 * time.Hour)
				v.has(d.Ref, `paid={"n":1} by ann`)
				if got := v.sound(d.Ref, task.Succeeded); got != "paid=succeeded/0 ship=succeeded/2" {
					t.Error(got)
				}
			})
		})
	}
}

// again has a run that has ended begin again, from its first step on.
func (v *voyage) again(ref task.Ref) task.Ref {
	v.t.Helper()
	_, err := v.store.Tasks.RerunIn(v.t.Context(), ref, "rerun", time.Time{})
	testkit.Must(v.t, err)
	return ref
}

// The leader dies between a signal, or an answer, and the plan that follows from it: neither is lost, nor does it count
// twice.
func TestTravel_ADeathBetweenAskAndPlanLosesNothing(t *testing.T) {
	testkit.NotQuick(t)
	const flow = `{"steps": [{"id": "paid", "wait": {"signal": "paid"}}, {"id": "ok", "wait": {"approval": {}}},
		{"id": "ship", "needs": ["paid", "ok"], "task": {"type": "echo", "retry": {"max_attempts": 1}}}]}`
	const answer = `answer ok 1 {"approved":true,"by":"bob","note":"fine"}`
	travel(t, at("2026-03-01T00:00Z"), slow, func(v *voyage) {
		ctx := v.t.Context()
		v.start()
		for i, d := range []struct {
			script string // "": the leader is dead before anybody asks
			then   fate
		}{
			{}, {"read_outbox", sendLost}, {"read_outbox", answerLost}, {"read_runs", sendLost}, {"read_runs", answerLost},
			{"advance", sendLost}, {"advance", answerLost}, {"enqueue", sendLost},
		} {
			run := v.submits(fmt.Sprint("run-", i), flow)
			v.pass(time.Minute)
			v.gives(run, `{"n":1}`)
			v.pass(time.Minute)
			for _, asks := range [][]string{{signalOf(`{"n":2}`)}, {answer, `answer ok 1 {"approved":false}`}} {
				leader := v.leads()
				if d.script == "" {
					v.killed(leader)
				} else {
					leader.way.lay(d.script, d.then)
				}
				for _, ask := range asks {
					testkit.Must(t, v.store.Tasks.AskRun(ctx, run, ask))
				}
				if d.script != "" && (d.script != "enqueue" || asks[0] == answer) {
					<-leader.way.dead
					synctest.Wait() // Redis may still run a script whose answer is lost
					v.killed(leader)
				}
				if len(v.nodes) == 0 {
					v.start()
				}
				v.pass(2 * time.Hour)
			}
			if got := v.sound(run, task.Succeeded); got != "paid=succeeded/0 ok=succeeded/0 ship=succeeded/1" {
				t.Errorf("death at %q: %s", d.script, got)
			}
			v.has(run, `paid={"n":1} by ann`)
		}
		v.ranOnceEach()
	})
}

// messages are what the clients of some runs have told each of them, in the order in which it was accepted.
type messages struct {
	signals map[task.Ref][]string
	answers map[string][]workflow.Answer // by the step and its generation
}

// talks gives runs signals, and answers what they ask for. Some runs are told early and again, some once they ask, and
// others never.
func (v *voyage) talks(refs []task.Ref, has *messages) {
	v.t.Helper()
	for _, ref := range refs {
		own, err := v.store.Tasks.Get(v.t.Context(), ref)
		if err != nil || own.State.Final() {
			continue
		}
		flow, run, waits := v.waiting(own)
		now := fmt.Sprint(ref, clock.Now().Unix())
		early := chance(ref.String(), 4) == 1 && chance(now, 20) == 0
		if early || chance(ref.String(), 4) > 1 && len(waits) > 0 && chance(now, 3) == 0 {
			data := fmt.Sprintf(`{"n":%d}`, chance(now+"data", 3))
			err := v.store.Tasks.AskEarly(v.t.Context(), ref, signalOf(data))
			if task.CodeOf(err) == task.CodeNotRunning {
				continue // it has ended just now
			}
			testkit.Must(v.t, err)
			has.signals[ref] = append(has.signals[ref], data)
		}
		for _, i := range waits {
			if flow.StepID(i) == "ok" && chance(ref.String()+"ok", 4) > 0 && chance(now+"ok", 3) == 0 {
				v.answers(ref, flow, i, run.Steps[i].Generation, has)
			}
		}
	}
}

// waiting returns which steps of a run wait for somebody.
func (v *voyage) waiting(own task.Task) (flow *workflow.Flow, run workflow.Run, steps []int) {
	v.t.Helper()
	if own.State != task.Running {
		return nil, run, nil
	}
	_, flow, run, _ = v.runOf(own.Ref)
	for i, s := range run.Steps {
		if step, _ := flow.Step(i); s.State == workflow.Waiting && step.Wait.For == 0 {
			steps = append(steps, i)
		}
	}
	return flow, run, steps
}

// answers answers an approval twice, the second time the other way round.
func (v *voyage) answers(ref task.Ref, flow *workflow.Flow, step, generation int, has *messages) {
	v.t.Helper()
	name := fmt.Sprint(ref, generation)
	yes := chance(name, 3) > 0
	for _, approved := range []bool{yes, !yes} {
		answer := workflow.Answer{Approved: approved, By: "ops"}
		output, err := json.Marshal(answer)
		testkit.Must(v.t, err)
		ask := workflow.Ask{
			Do: workflow.DoAnswer, Steps: []int{step}, Answer: &workflow.Told{Generation: generation, Output: string(output)},
		}
		if err := v.store.Tasks.AskRun(v.t.Context(), ref, ask.Encode(flow)); task.CodeOf(err) == task.CodeNotRunning {
			continue // the first answer has ended it
		} else if err != nil {
			v.t.Error(err)
		}
		has.answers[name] = append(has.answers[name], answer)
	}
}

// heeded checks that the first of what the runs were told counts, that they waited as long as they say, and that each
// of the ways to go on was taken.
func (v *voyage) heeded(refs []task.Ref, has *messages) {
	v.t.Helper()
	ways := make(map[string]int)
	for _, ref := range refs {
		_, flow, run, _ := v.runOf(ref)
		var given []string
		if s, is := run.IsGiven("paid"); is {
			given = append(given, string(s.Data))
		}
		if first := has.signals[ref][:min(1, len(has.signals[ref]))]; !slices.Equal(first, given) {
			v.t.Errorf("%s has the signal %q, and was given %q", ref.ID, given, has.signals[ref])
		}
		for i, s := range run.Steps {
			if step, _ := flow.Step(i); step.Wait != nil && s.Released > 0 {
				ways[v.way(ref, step, s, has)]++
			}
		}
	}
	for _, way := range []string{"for", "no signal", "early signal", "signal", "approved", "rejected", "no answer"} {
		if ways[way] == 0 {
			v.t.Errorf("no run went on by this: %s; only by %v", way, slices.Sorted(maps.Keys(ways)))
		}
	}
}

// way returns what a step that waited went on by. One that waits for a time goes on when that is over. One that waits
// for an answer has the first that it was given.
func (v *voyage) way(ref task.Ref, step workflow.Step, s workflow.StepRun, has *messages) string {
	v.t.Helper()
	switch w := step.Wait; {
	case w.For > 0:
		if late := s.At.Sub(v.latest(s.Since.Add(w.For))); late > 0 {
			v.t.Errorf("%s: step %s went on %s late", ref.ID, step.ID, late)
		}
		return "for"
	case w.Signal != "" && !s.At.Before(s.Until):
		return "no signal"
	case w.Signal != "" && s.At.Equal(s.Since):
		return "early signal"
	case w.Signal != "":
		return "signal"
	}
	answer, all := s.Answer(), has.answers[fmt.Sprint(ref, s.Generation)]
	if (answer == nil) != (len(all) == 0) || answer != nil && answer.Approved != all[0].Approved {
		v.t.Errorf("%s: its approval has the answer %v, and was given %v", ref.ID, answer, all)
	}
	switch {
	case answer == nil:
		return "no answer"
	case answer.Approved:
		return "approved"
	}
	return "rejected"
}
