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

// turn is what says when a task has its turn, and which limits count it.
type turn struct {
	Priority   int
	FairKey    string
	FairWeight int
	LimitKey   string
	Cost       int
}

func turnOf(s dts.Submission) turn {
	return turn{s.Priority, s.FairKey, s.FairWeight, s.LimitKey, s.Cost}
}

func turnOfTask(t *dts.Task) turn {
	return turn{t.Priority, t.FairKey, t.FairWeight, t.LimitKey, t.Cost}
}

// placed is where a task may run.
type placed struct {
	Select string
	Prefer []dts.Preference
	Route  dts.Route
	Slots  int
}

func placedOf(s dts.Submission) placed { return placed{s.Select, s.Prefer, s.Route, s.Slots} }

func placedTask(t *dts.Task) placed { return placed{t.Select, t.Prefer, t.Route, t.Slots} }

// A submission, what follows it, a schedule and its tasks say where they run, and a change says another place.
func TestClient_SaysWhereTasksRun(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		ctx := t.Context()
		submitFollowed(t, c, dts.Submission{Type: "noop", OnEnd: noop(dts.WhenEnded, nil)})
		want := placed{
			"gpu,zone in (eu,us)", []dts.Preference{{Select: "zone=eu", Weight: 10}, {Select: "!spot", Weight: 1}},
			dts.Route{By: dts.RouteHash, Key: "tenant-7", Sticky: dts.StickyPrefer}, 4,
		}
		s := dts.Submission{ID: "a", Type: "noop", Payload: json.RawMessage(`{}`), Delay: time.Hour}
		s.Select, s.Prefer, s.Route, s.Slots = "zone in (us, eu), gpu", want.Prefer, want.Route, 4
		s.Prefer = []dts.Preference{{Select: "zone=eu", Weight: 10}, {Select: "!spot"}}
		next := s
		next.ID = ""
		s.OnEnd = &dts.FollowUp{When: dts.WhenEnded, Task: next}
		made, err := c.Submit(ctx, s)
		testkit.Must(t, err)
		put, err := c.PutSchedule(ctx, "s", dts.ScheduleDefinition{Every: 24 * time.Hour, Task: dts.TaskTemplate{
			Type: "noop", Select: s.Select, Prefer: s.Prefer, Route: s.Route, Slots: 4, OnEnd: s.OnEnd,
		}})
		testkit.Must(t, err)
		scheduled := put.Definition.Task
		for what, got := range map[string]placed{
			"task": placedTask(made), "follow-up": placedOf(made.OnEnd.Task),
			"schedule":      {scheduled.Select, scheduled.Prefer, scheduled.Route, scheduled.Slots},
			"its follow-up": placedOf(scheduled.OnEnd.Task),
		} {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the %s (-want +got):\n%s", what, diff)
			}
		}
		weighted := dts.Route{By: dts.RouteWeighted, Load: dts.Load{CPU: 0.5, Memory: 0.1, Slots: 0.25, Response: 1}}
		for _, change := range []struct {
			dts.TaskChange
			change func(*placed)
		}{
			{dts.TaskChange{Select: new("")}, func(p *placed) { p.Select = "" }},
			{dts.TaskChange{Slots: new(2)}, func(p *placed) { p.Slots = 2 }},
			{dts.TaskChange{Slots: new(1)}, func(p *placed) { p.Slots = 0 }},
			{dts.TaskChange{Route: &weighted}, func(p *placed) { p.Route = weighted }},
			{dts.TaskChange{Prefer: &[]dts.Preference{}}, func(p *placed) { p.Prefer = nil }},
			{dts.TaskChange{Select: new("a=b")}, func(p *placed) { p.Select = "a=b" }},
			{dts.TaskChange{Route: &dts.Route{}}, func(p *placed) { p.Route = dts.Route{} }},
		} {
			got, err := c.Change(ctx, "a", change.TaskChange)
			testkit.Must(t, err)
			change.change(&want)
			if diff := cmp.Diff(want, placedTask(got)); diff != "" {
				t.Errorf("after a change (-want +got):\n%s", diff)
			}
		}
	})
}

// A submission, what follows it, a schedule and its tasks have their turn, and a change gives a task another one.
func TestClient_GivesTasksTheirTurn(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		ctx := t.Context()
		submitFollowed(t, c, dts.Submission{Type: "noop", OnEnd: noop(dts.WhenEnded, nil)})
		want := turn{7, "customer-7", 3, "b,a", 5}
		s := dts.Submission{ID: "a", Type: "noop", Delay: time.Hour, Priority: 7, FairKey: "customer-7", FairWeight: 3}
		s.LimitKey, s.Cost = "b,a", 5
		s.OnEnd = &dts.FollowUp{When: dts.WhenEnded, Task: dts.Submission{
			Type: "noop", Payload: json.RawMessage(`{}`), Priority: 7, FairKey: "customer-7", FairWeight: 3,
			LimitKey: "b,a", Cost: 5,
		}}
		made, err := c.Submit(ctx, s)
		testkit.Must(t, err)
		many, err := c.SubmitMany(ctx, []dts.Submission{s, {ID: "a", Type: "noop", Delay: time.Hour, OnEnd: s.OnEnd}})
		testkit.Must(t, err)
		if many[0].Err != nil || !many[0].Existed || dts.CodeOf(many[1].Err) != dts.CodeTaskConflict {
			t.Errorf("the same submission: %+v; without a turn: %+v", many[0], many[1])
		}
		definition := dts.ScheduleDefinition{Every: 24 * time.Hour, Task: dts.TaskTemplate{
			Type: "noop", Payload: json.RawMessage(`{}`), Priority: 7, FairKey: "customer-7", FairWeight: 3, OnEnd: s.OnEnd,
			LimitKey: "b,a", Cost: 5,
		}}
		put, err := c.PutSchedule(ctx, "s", definition)
		testkit.Must(t, err)
		run, err := c.TriggerSchedule(ctx, "s")
		testkit.Must(t, err)
		ticked := ends(t, c, run.Task)
		for what, got := range map[string]turn{
			"task": turnOfTask(made), "repeated task": turnOfTask(many[0].Task), "follow-up": turnOf(made.OnEnd.Task),
			"task of the schedule": turnOfTask(ticked), "follow-up of that": turnOfTask(ends(t, c, run.Task+"@e1")),
			"schedule": turnOf(dts.Submission{
				Priority: put.Definition.Task.Priority, FairKey: put.Definition.Task.FairKey,
				FairWeight: put.Definition.Task.FairWeight, LimitKey: put.Definition.Task.LimitKey,
				Cost: put.Definition.Task.Cost,
			}),
		} {
			if got != want {
				t.Errorf("the %s has %+v, want %+v", what, got, want)
			}
		}
		for _, change := range []struct {
			dts.TaskChange
			want turn
		}{
			{dts.TaskChange{Priority: new(9)}, turn{9, "customer-7", 3, "b,a", 5}},
			{dts.TaskChange{FairWeight: new(1)}, turn{9, "customer-7", 0, "b,a", 5}},
			{dts.TaskChange{Priority: new(0), FairKey: new("")}, turn{LimitKey: "b,a", Cost: 5}},
			{dts.TaskChange{LimitKey: new("c")}, turn{LimitKey: "c", Cost: 5}},
			{dts.TaskChange{LimitKey: new("")}, turn{Cost: 5}},
			{dts.TaskChange{Cost: new(1)}, turn{}},
		} {
			got, err := c.Change(ctx, "a", change.TaskChange)
			testkit.Must(t, err)
			if diff := cmp.Diff(change.want, turnOfTask(got)); diff != "" {
				t.Errorf("after a change (-want +got):\n%s", diff)
			}
		}
	})
}

// What cannot be a turn is refused, and the field is named.
func TestClient_RefusesTurnsThatAreNone(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		submitFollowed(t, c, dts.Submission{Type: "noop", OnEnd: noop(dts.WhenEnded, nil)})
		for _, s := range []struct {
			dts.Submission
			field string
		}{
			{dts.Submission{Priority: 10}, "priority"},
			{dts.Submission{Priority: -1}, "priority"},
			{dts.Submission{FairKey: "a b"}, "fair_key"},
			{dts.Submission{FairKey: "k", FairWeight: 101}, "fair_weight"},
			{dts.Submission{FairWeight: 2}, "fair_weight"},
			{dts.Submission{LimitKey: "a,a"}, "limit_key"}, {dts.Submission{Cost: 101}, "cost"},
			{dts.Submission{Slots: 101}, "slots"},
			{dts.Submission{Select: "a=b=c"}, "select"},
			{dts.Submission{Prefer: []dts.Preference{{Select: "a"}, {Select: "b", Weight: 101}}}, "prefer[1].weight"},
			{dts.Submission{Route: dts.Route{By: dts.RouteHash}}, "route.key"},
		} {
			s.Type = "noop"
			_, err := c.Submit(t.Context(), s.Submission)
			var refused *dts.Error
			if !errors.As(err, &refused) || refused.Code != dts.CodeInvalid || refused.Field != s.field {
				t.Errorf("%+v: %v, want one for the field %q", turnOf(s.Submission), err, s.field)
			}
		}
	})
}
