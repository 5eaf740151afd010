package task

import "testing"

func TestRef_KnowsTheRunOfAStep(t *testing.T) {
	t.Parallel()
	for id, want := range map[string][2]string{
		"etl@.load":                      {"etl", "load"},
		"nightly@20260102T150405Z@.load": {"nightly@20260102T150405Z", "load"},
		"etl@.load@.inner":               {"etl@.load", "inner"},
		"etl@.load@e1":                   {}, // follows a step
		"nightly@20260102T150405Z":       {},
		"tenant@k.load":                  {},
		"@.load":                         {},
		"etl":                            {},
	} {
		run, step, ok := Ref{Namespace: "shop", ID: id}.Run()
		if got := [2]string{run.ID, step}; got != want || ok != (step != "") {
			t.Errorf("%s is step %q of run %q, %v", id, step, run.ID, ok)
		}
		if ok && (run.Step(step) != Ref{Namespace: "shop", ID: id}) {
			t.Errorf("%s becomes %s", id, run.Step(step))
		}
		if _, _, tick := (Ref{Namespace: "shop", ID: id}).Tick(); ok && tick {
			t.Errorf("%s is that of a tick as well", id)
		}
	}
}
