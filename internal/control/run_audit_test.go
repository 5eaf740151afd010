package control_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
)

// What Redis has of a run is changed by hand, so that it is a history that cannot have been. The audit finds each.
func TestAuditRun_FindsADamagedHistory(t *testing.T) {
	t.Parallel()
	w := &ward{World: storetest.New(t), t: t}
	w.control = control.New(control.Options{Store: w.Store, Nodes: fleet(nil)})
	w.startFlow()
	flow := func(change func(r *workflow.Run)) func() {
		return func() {
			w.replace(w.KeysOf(etl).Runs(), etl, func(text string) string {
				r, err := workflow.DecodeRun(text, 3)
				testkit.Must(t, err)
				change(&r)
				return r.Encode()
			})
		}
	}
	state := func(of task.Ref, from, to string) func() {
		return func() {
			w.replace(w.KeysOf(of).States(), of, func(text string) string { return strings.Replace(text, from, to, 1) })
		}
	}
	const extracts, loads, reports = 0, 1, 2
	for name, c := range map[string]struct {
		damage func()
		says   string
	}{
		"nothing": {func() {}, ""},
		"a step ran twice in one generation": {func() {
			ended := `{"number":1,"started":1,"finished":2,"outcome":"succeeded"}`
			w.do("RPUSH", w.KeysOf(extract).Attempts(extract), ended)
			state(extract, "succeeded 1 ", "succeeded 2 ")()
		}, "step extract ran again after it had succeeded: its task had succeeded 1 times"},
		"a step was released without its needs": {flow(func(r *workflow.Run) {
			r.Steps[loads].Released = r.Steps[extracts].Released
		}), `step load is active, its rule success said ""`},
		"the verdict is another one": {flow(func(r *workflow.Run) {
			r.Steps[extracts].State = workflow.State(workflow.Failed)
		}), "step extract is failed, its task is succeeded"},
		"the run ended, and a step runs": {func() {
			flow(func(r *workflow.Run) { r.Phase = workflow.PhaseEnded })()
			state(etl, "running", "failed")()
		}, "step load is active, and the run has ended"},
		"the run ended, and a step is blocked": {func() {
			flow(func(r *workflow.Run) { r.Phase = workflow.PhaseEnded })()
			state(etl, "running", "failed")()
		}, "step report is blocked, and the run has ended"},
		"the run has ended, and its steps go on": {
			state(etl, "running", "succeeded"), "the run is succeeded, its steps are in phase main",
		},
		"the run has another end": {func() {
			flow(func(r *workflow.Run) {
				r.Phase = workflow.PhaseEnded
				done := r.Steps[extracts]
				done.State, done.Released, done.Decided = workflow.State(workflow.Succeeded), r.Plans, r.Plans
				r.Steps[loads] = done
				r.Steps[reports] = done
			})()
			state(etl, "running", "failed")()
		}, "the run failed, its steps say it succeeded"},
	} {
		texts, states := w.KeysOf(etl).Runs(), w.KeysOf(etl).States()
		restore := w.copied(string(texts), string(states), string(w.KeysOf(extract).Attempts(extract)))
		c.damage()
		_, findings, err := w.control.AuditRun(w.Ctx, control.Caller{Namespace: "default"}, etl.ID)
		testkit.Must(t, err)
		found := strings.Join(findings, "\n")
		if !strings.Contains(found, c.says) || c.says == "" && found != "" {
			t.Errorf("%s: the audit finds %q, want %q", name, found, c.says)
		}
		restore()
	}
}

// replace changes what a hash has of a task.
func (w *ward) replace(hash any, of task.Ref, change func(string) string) {
	w.t.Helper()
	key := fmt.Sprint(hash)
	was := w.DB.HGet(w.Ctx, key, of.String()).Val()
	is := change(was)
	if is == was {
		w.t.Fatalf("%s of %s is %q, and stays so", key, of.ID, was)
	}
	testkit.Must(w.t, w.DB.HSet(w.Ctx, key, of.String(), is).Err())
}

// copied returns what has keys be again as they are now.
func (w *ward) copied(keys ...string) (restore func()) {
	dumps := make([]string, len(keys))
	for i, key := range keys {
		dumps[i] = w.DB.Dump(w.Ctx, key).Val()
	}
	return func() {
		for i, key := range keys {
			testkit.Must(w.t, w.DB.Del(w.Ctx, key).Err())
			if dumps[i] != "" {
				testkit.Must(w.t, w.DB.RestoreReplace(w.Ctx, key, 0, dumps[i]).Err())
			}
		}
	}
}
