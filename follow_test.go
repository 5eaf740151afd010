package dts_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/testkit"
)

// submitFollowed submits a task with follow-ups as soon as the fleet knows these.
func submitFollowed(t *testing.T, c *dts.Client, s dts.Submission) {
	t.Helper()
	testkit.Eventually(t, "the fleet knows follow-ups", func() bool {
		_, err := c.Submit(t.Context(), s)
		if err != nil && !strings.Contains(err.Error(), "no living node is of an earlier release") {
			t.Fatal(err)
		}
		return err == nil
	})
}

// ends waits until a task is there and has ended.
func ends(t *testing.T, c *dts.Client, id string) *dts.Task {
	t.Helper()
	testkit.Eventually(t, id+" is there", func() bool {
		_, err := c.Get(t.Context(), id)
		return err == nil
	})
	got, err := c.Wait(t.Context(), id)
	testkit.Must(t, err)
	return got
}

// A task follows another one, and a third one follows that, each with the outcome of the one before as its payload.
func TestClient_SubmitsTasksThatFollowEachOther(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		submitFollowed(t, c, dts.Submission{
			ID: "first", Type: "noop", Payload: json.RawMessage(`{"fail":"seven"}`), Owner: "shop",
			Retry: dts.Retry{MaxAttempts: 1},
			OnEnd: &dts.FollowUp{When: dts.WhenFailed, Task: dts.Submission{
				Type: "noop", Payload: json.RawMessage(`{}`), Delay: time.Millisecond, OnEnd: noop(dts.WhenEnded, nil),
			}},
		})
		second, third := ends(t, c, "first@e1"), ends(t, c, "first@e1@e1")
		want := dts.Parent{Namespace: second.Namespace, ID: "first", Attempt: 1, State: dts.StateFailed, Error: "seven"}
		if second.Parent == nil || *second.Parent != want {
			t.Errorf("the second task follows %+v, want %+v", second.Parent, want)
		}
		if second.Owner != "shop" || second.OnEnd == nil || second.Schedule != "" {
			t.Errorf("the second task is %+v", second)
		}
		if third.Parent == nil || third.Parent.ID != "first@e1" || third.State != dts.StateSucceeded {
			t.Errorf("the third task is %+v", third)
		}
	})
}

// noop is a follow-up that does nothing, and is followed by another one.
func noop(when dts.When, next *dts.FollowUp) *dts.FollowUp {
	return &dts.FollowUp{When: when, Task: dts.Submission{Type: "noop", Payload: json.RawMessage(`{}`), OnEnd: next}}
}

// Of a follow-up, its name and its time come from the end; what is wrong is named.
func TestClient_RefusesFollowUpsThatAreNone(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		submitFollowed(t, c, dts.Submission{Type: "noop", OnEnd: noop(dts.WhenEnded, nil)})
		next := noop(dts.WhenEnded, nil)
		for range 4 {
			next = noop(dts.WhenEnded, next)
		}
		for field, f := range map[string]*dts.FollowUp{
			"on_end.when":         noop("done", nil),
			"on_end.task":         {When: dts.WhenEnded, Task: dts.Submission{Type: "noop", ID: "mine"}},
			"on_end.task.type":    {When: dts.WhenEnded},
			"on_end.task.payload": {When: dts.WhenEnded, Task: dts.Submission{Type: "http"}},
			"on_end.task.on_end.task.on_end.task.on_end.task.on_end": next,
		} {
			_, err := c.Submit(t.Context(), dts.Submission{Type: "noop", OnEnd: f})
			var refused *dts.Error
			if !errors.As(err, &refused) || refused.Code != dts.CodeInvalid || refused.Field != field {
				t.Errorf("%v, want one for the field %q", err, field)
			}
		}
	})
}
