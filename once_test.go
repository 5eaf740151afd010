package dts_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/testkit"
)

// sleeps is a submission with a key that runs for a while.
func sleeps(id, howLong string, once dts.Once) dts.Submission {
	return dts.Submission{ID: id, Type: "noop", Payload: json.RawMessage(`{"sleep":"` + howLong + `"}`), Once: &once}
}

// What becomes of a submission with a key is in its answer, and the tasks of a key follow each other.
func TestClient_SubmitsWithAKey(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		submitFollowed(t, c, dts.Submission{Type: "noop", OnEnd: noop(dts.WhenEnded, nil)})
		once := dts.Once{Mode: dts.OnceCancelRunning, Key: "report"}
		submit := func(s dts.Submission, want dts.Once) *dts.Task {
			t.Helper()
			got, err := c.Submit(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			got.Once.Next = time.Time{}
			if diff := cmp.Diff(&want, got.Once); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			return got
		}
		made := once
		made.Outcome = dts.OnceCreated
		first := submit(sleeps("one", "1m", once), made)
		if first.ID != "report@kone" || first.Schedule != "" {
			t.Errorf("the task is %+v", first)
		}
		runs(t, c, first.ID)
		delayed := once
		delayed.Outcome, delayed.After = dts.OnceDelayed, first.ID
		second := submit(sleeps("two", "1ms", once), delayed)
		if got := ends(t, c, first.ID); got.State != dts.StateCancelled {
			t.Errorf("the first one is %s", got.State)
		}
		if got := ends(t, c, second.ID); got.State != dts.StateSucceeded {
			t.Errorf("the second one is %s", got.State)
		}

		debounce := dts.Once{Mode: dts.OnceDebounce, Key: "index", Wait: time.Hour, Max: 2 * time.Hour}
		made, replaced := debounce, debounce
		made.Outcome, replaced.Outcome = dts.OnceCreated, dts.OnceReplaced
		third := submit(sleeps("one", "1ms", debounce), made)
		got := submit(sleeps("two", "2ms", debounce), replaced)
		if got.ID != third.ID || string(got.Payload) != `{"sleep":"2ms"}` {
			t.Errorf("the debounced task is %+v", got)
		}
		throttle := dts.Once{Mode: dts.OnceThrottle, Key: "mail", Every: time.Hour, Excess: dts.ExcessDrop}
		made, skipped := throttle, throttle
		made.Outcome, skipped.Outcome = dts.OnceCreated, dts.OnceSkipped
		submit(sleeps("one", "1ms", throttle), made)
		many, err := c.SubmitMany(t.Context(), []dts.Submission{sleeps("two", "1ms", throttle), {Type: "noop"}})
		if err != nil || many[0].Err != nil || !many[0].Existed || many[1].Existed {
			t.Fatalf("many: %+v, %v", many, err)
		}
		if got := many[0].Task.Once.Outcome; got != dts.OnceSkipped {
			t.Errorf("the second one of a throttle is %s", got)
		}
	})
}

// Until the other task has ended, a task that waits for it has no due time, and names that task.
func TestClient_TellsWhatATaskWaitsFor(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		submitFollowed(t, c, dts.Submission{Type: "noop", OnEnd: noop(dts.WhenEnded, nil)})
		submit := func(id string) string {
			t.Helper()
			got, err := c.Submit(t.Context(), sleeps(id, "1m", dts.Once{Mode: dts.OnceLatest, Key: "mine"}))
			testkit.Must(t, err)
			return got.ID
		}
		first := submit("one")
		runs(t, c, first)
		second := submit("two")
		got, err := c.Get(t.Context(), second)
		if err != nil || !got.RunAt.IsZero() || got.Once.After != first {
			t.Errorf("it is due at %v, after %q, %v", got.RunAt, got.Once.After, err)
		}
		for _, id := range []string{second, first} {
			_, err := c.Cancel(t.Context(), id)
			testkit.Must(t, err)
		}
	})
}

// runs waits until a task runs.
func runs(t *testing.T, c *dts.Client, id string) {
	t.Helper()
	testkit.Eventually(t, id+" runs", func() bool {
		got, err := c.Get(t.Context(), id)
		return err == nil && got.State == dts.StateRunning
	})
}

// What a key and its mode cannot mean is refused, and the field is named.
func TestClient_RefusesKeysThatAreNone(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		submitFollowed(t, c, dts.Submission{Type: "noop", OnEnd: noop(dts.WhenEnded, nil)})
		keyed := dts.Submission{Type: "noop", Once: &dts.Once{}}
		for field, s := range map[string]dts.Submission{
			"once.mode":        {Once: &dts.Once{Mode: "twice", Key: "a"}},
			"once.key":         {Once: &dts.Once{Mode: dts.OnceSingleton, Key: "a b"}},
			"once.wait":        {Once: &dts.Once{Mode: dts.OnceDebounce, Key: "a"}},
			"once.max":         {Once: &dts.Once{Mode: dts.OnceDebounce, Key: "a", Wait: time.Hour, Max: time.Minute}},
			"once.every":       {Once: &dts.Once{Mode: dts.OnceThrottle, Key: "a", Every: 25 * time.Hour}},
			"once.excess":      {Once: &dts.Once{Mode: dts.OnceThrottle, Key: "a", Every: time.Hour, Excess: "keep"}},
			"on_end.task.once": {OnEnd: &dts.FollowUp{When: dts.WhenEnded, Task: keyed}},
		} {
			s.Type = "noop"
			_, err := c.Submit(t.Context(), s)
			var refused *dts.Error
			if !errors.As(err, &refused) || refused.Code != dts.CodeInvalid || refused.Field != field {
				t.Errorf("%v, want one for the field %q", err, field)
			}
		}
		s := sleeps("", "1ms", dts.Once{Mode: dts.OnceLatest, Key: "a"})
		s.Delay = time.Second
		if _, err := c.Submit(t.Context(), s); err == nil {
			t.Error("a delay beside latest is accepted")
		}
	})
}
