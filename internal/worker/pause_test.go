package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/store/rules"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// An attempt that asks for a pause ends as it would have, and pauses each key of its task.
func TestAttempt_PausesTheLimitsOfItsKeys(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		err  error
		ends task.Outcome
		keys string
		want []string
	}{
		"a failure":   {errors.New("busy"), task.OutcomeFailed, "b,a", []string{"key:a", "key:b"}},
		"a snooze":    {executor.Snooze(errors.New("busy"), time.Second), task.OutcomeSnoozed, "a", []string{"key:a"}},
		"put off":     {executor.PutOff(errors.New("busy"), time.Second), task.OutcomeSnoozed, "a", []string{"key:a"}},
		"without key": {errors.New("busy"), task.OutcomeFailed, "", nil},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			alone := func(context.Context) ([]cluster.Node, error) { return nil, nil }
			testkit.Must(t, w.store.Advance(t.Context(), alone))
			w.start(func(context.Context, executor.Attempt) (string, error) {
				return "", executor.PauseKey(c.err, time.Minute)
			})
			ref := w.submit(task.Definition{Ref: task.Ref{ID: "a"}, LimitKey: c.keys})
			testkit.Eventually(t, "the attempt has ended", func() bool {
				return w.get(ref).State == task.Scheduled && w.get(ref).Attempt == 1
			})
			w.last(ref, c.ends)
			entries, now, err := w.store.Rules.All(t.Context())
			testkit.Must(t, err)
			var names []string
			for _, e := range entries {
				names = append(names, e.Name.String())
				checkPause(t, e, now, w.get(ref).DueAt)
			}
			if strings.Join(names, " ") != strings.Join(c.want, " ") {
				t.Errorf("the limits are %q, want %q", names, c.want)
			}
		})
	}
}

// checkPause demands that a pause of a minute is that of task a, and over when the next attempt is due.
func checkPause(t *testing.T, e rules.Entry, now, due time.Time) {
	t.Helper()
	lasts := e.Rule.Paused.Sub(now)
	if lasts < 50*time.Second || lasts > time.Minute || due.Before(e.Rule.Paused) || e.By != "task a" || e.Note != "busy" {
		t.Errorf("it lasts %s, and the next attempt is due at %s: %+v", lasts, due, e)
	}
}
