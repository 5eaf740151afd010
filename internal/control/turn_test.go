package control

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// withTurns are definitions with a turn, by the field that is refused while nodes of an earlier release live.
func withTurns() map[string]task.Definition {
	urgent := task.Definition{Type: "http", Priority: 9}
	return map[string]task.Definition{
		"priority":  urgent,
		"fair_key":  {Type: "http", FairKey: "customer-7", FairWeight: 3},
		"limit_key": {Type: "http", LimitKey: "b,a"},
		"cost":      {Type: "http", Cost: 5},
		"slots":     {Type: "http", Reach: ";;;4"},
		"select":    {Type: "http", Reach: "a;;hash:7:require", RouteKey: "x"},
		"prefer":    {Type: "http", Reach: ";10*zone=eu;"},
		"route":     {Type: "http", Reach: ";;round"},
		"on_end":    {Type: "http", OnEnd: &task.FollowUp{When: task.WhenEnded, Task: urgent}},
	}
}

// Submissions, schedules and changes with a turn are refused while nodes live that do not know it.
func TestControl_RefusesTurnsBesideOlderNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.submit([]task.Definition{{Ref: task.Ref{ID: "waits"}, Type: "http", Delay: time.Hour}})
	refused := func(what, field string, err error) {
		t.Helper()
		if task.CodeOf(err) != task.CodeInvalid || !strings.HasPrefix(err.Error(), field+": works as soon as") {
			t.Errorf("%s: %v, want a refusal of %s", what, err, field)
		}
	}
	for field, d := range withTurns() {
		_, err := w.Submit(w.ctx, me, d)
		refused("a submission", field, err)
		_, err = w.PutSchedule(w.ctx, me, daily(func(s *schedule.Definition) { s.Task = d }), PutOptions{})
		refused("a schedule", "task."+field, err)
	}
	_, err := w.ChangeTask(w.ctx, me, "waits", TaskChange{Priority: new(1)})
	refused("a change", "priority", err)
	_, err = w.ChangeTask(w.ctx, me, "waits", TaskChange{FairKey: new("customer-7"), FairWeight: new(2)})
	refused("a change", "fair_key", err)
	_, err = w.ChangeTask(w.ctx, me, "waits", TaskChange{LimitKey: new("b,a")})
	refused("a change", "limit_key", err)
	_, err = w.ChangeTask(w.ctx, me, "waits", TaskChange{Cost: new(5)})
	refused("a change", "cost", err)
	_, err = w.ChangeTask(w.ctx, me, "waits", TaskChange{Route: &route.Route{By: route.Round}})
	refused("a change", "route", err)
	_, err = w.ChangeTask(w.ctx, me, "waits", TaskChange{Slots: new(2)})
	refused("a change", "slots", err)
	if got, err := w.ChangeTask(w.ctx, me, "waits", TaskChange{Priority: new(0), FairKey: new("")}); err != nil {
		t.Errorf("a change to what it is: %+v, %v", got, err)
	}
}

func TestControl_KeepsTurns(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	for _, d := range withTurns() {
		made, err := w.Submit(w.ctx, me, d)
		testkit.Must(t, err)
		s := daily(func(s *schedule.Definition) { s.ID, s.Task = made.Task.ID, d })
		put, err := w.PutSchedule(w.ctx, me, s, PutOptions{})
		testkit.Must(t, err)
		run, err := w.TriggerSchedule(w.ctx, me, put.Schedule.ID)
		testkit.Must(t, err)
		ticked, err := w.GetTask(w.ctx, me, run.TaskID(put.Schedule.ID))
		testkit.Must(t, err)
		for what, got := range map[string]task.Definition{
			"task": made.Task.Definition, "schedule": put.Schedule.Task, "tick": ticked.Definition,
		} {
			if got.Priority != d.Priority || got.FairKey != d.FairKey || got.FairWeight != d.FairWeight ||
				got.LimitKey != d.LimitKey || got.Cost != d.Cost || got.Reach != d.Reach || got.RouteKey != d.RouteKey {
				t.Errorf("the %s is %+v, want %+v", what, got, d)
			}
		}
	}
	bad := daily(func(s *schedule.Definition) { s.Task.FairWeight = 2 })
	if _, err := w.PutSchedule(w.ctx, me, bad, PutOptions{}); task.CodeOf(err) != task.CodeInvalid ||
		!strings.HasPrefix(err.Error(), "task.fair_weight: belongs to fair_key") {
		t.Errorf("a weight without a key: %v", err)
	}
}

// A change touches what it names. The weight is that of the key: another key has 1, and without one, there is none.
func TestChangeTask_ChangesTheTurn(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	first := task.Definition{Ref: task.Ref{ID: "a"}, Type: "http", Delay: time.Hour}
	made := w.submit([]task.Definition{first})[0].Task
	type turn struct {
		priority int
		key      string
		weight   int
		limits   string
	}
	for _, c := range []struct {
		change TaskChange
		want   turn
	}{
		{TaskChange{Priority: new(7)}, turn{7, "", 0, ""}},
		{TaskChange{FairKey: new("customer-7"), FairWeight: new(3)}, turn{7, "customer-7", 3, ""}},
		{TaskChange{Queue: new("low")}, turn{7, "customer-7", 3, ""}},
		{TaskChange{FairKey: new("customer-8")}, turn{7, "customer-8", 0, ""}},
		{TaskChange{FairWeight: new(4)}, turn{7, "customer-8", 4, ""}},
		{TaskChange{FairKey: new("customer-8")}, turn{7, "customer-8", 4, ""}},
		{TaskChange{FairWeight: new(1)}, turn{7, "customer-8", 0, ""}},
		{TaskChange{FairWeight: new(5), Priority: new(0)}, turn{0, "customer-8", 5, ""}},
		{TaskChange{LimitKey: new("b,a")}, turn{0, "customer-8", 5, "b,a"}},
		{TaskChange{FairKey: new("")}, turn{0, "", 0, "b,a"}},
		{TaskChange{LimitKey: new("")}, turn{}},
	} {
		got, err := w.ChangeTask(w.ctx, me, "a", c.change)
		testkit.Must(t, err)
		now := turn{got.Priority, got.FairKey, got.FairWeight, got.LimitKey}
		if now != c.want || !got.DueAt.Equal(made.DueAt) {
			t.Errorf("it is %+v, due %s, want %+v, due %s", now, got.DueAt, c.want, made.DueAt)
		}
	}
	for field, change := range map[string]TaskChange{
		"priority": {Priority: new(10)}, "fair_key": {FairKey: new("a b")}, "fair_weight": {FairWeight: new(2)},
		"limit_key": {LimitKey: new("a,a")}, "cost": {Cost: new(101)},
	} {
		_, err := w.ChangeTask(w.ctx, me, "a", change)
		if task.CodeOf(err) != task.CodeInvalid || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if again := w.submit([]task.Definition{first})[0]; again.Err != nil || !again.Existed {
		t.Errorf("the first submission again: %+v", again)
	}
}

// A change replaces the selector, all preferences or the whole route, and leaves the others as they are.
func TestChangeTask_ChangesWhereItRuns(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	w.submit([]task.Definition{{
		Ref: task.Ref{ID: "a"}, Type: "http", Delay: time.Hour, Reach: "gpu;3*zone=eu;hash:61:prefer", RouteKey: "tenant-7",
	}})
	for _, c := range []struct {
		change TaskChange
		reach  string
		key    string
	}{
		{TaskChange{Priority: new(7)}, "gpu;3*zone=eu;hash:61:prefer", "tenant-7"},
		{TaskChange{Select: new("zone in (b,a)")}, "zone~in~(a,b);3*zone=eu;hash:61:prefer", "tenant-7"},
		{TaskChange{Prefer: &[]route.Wish{{Select: "a", Weight: 1}}}, "zone~in~(a,b);1*a;hash:61:prefer", "tenant-7"},
		{TaskChange{Route: &route.Route{By: route.Hash}, RouteKey: "x"}, "zone~in~(a,b);1*a;hash:7:", "x"},
		{TaskChange{Prefer: new([]route.Wish{})}, "zone~in~(a,b);;hash:7:", "x"},
		{TaskChange{Slots: new(3)}, "zone~in~(a,b);;hash:7:;3", "x"},
		{TaskChange{Select: new("")}, ";;hash:7:;3", "x"},
		{TaskChange{Slots: new(1)}, ";;hash:7:", "x"},
		{TaskChange{Route: &route.Route{By: route.First}}, ";;first", ""},
		{TaskChange{Route: new(route.Route)}, "", ""},
	} {
		got, err := w.ChangeTask(w.ctx, me, "a", c.change)
		testkit.Must(t, err)
		if got.Reach != c.reach || got.RouteKey != c.key {
			t.Errorf("after %+v it runs at %q, %q, want %q, %q", c.change, got.Reach, got.RouteKey, c.reach, c.key)
		}
	}
	for field, change := range map[string]TaskChange{
		"slots": {Slots: new(101)}, "select": {Select: new("a b")},
		"prefer[0].weight": {Prefer: &[]route.Wish{{Select: "a"}}},
		"route.by":         {Route: &route.Route{By: "best"}}, "route.key": {Route: &route.Route{By: route.Hash}},
	} {
		_, err := w.ChangeTask(w.ctx, me, "a", change)
		if task.CodeOf(err) != task.CodeInvalid || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Of a task whose reach is damaged, a change must replace all of it.
func TestChangeTask_ReplacesADamagedReach(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	w.submit([]task.Definition{{Ref: task.Ref{ID: "a"}, Type: "http", Delay: time.Hour, Reach: ";;nearest"}})
	change := TaskChange{Select: new("gpu"), Route: &route.Route{By: route.Round}}
	_, err := w.ChangeTask(w.ctx, me, "a", change)
	if task.CodeOf(err) != task.CodeUnreadable || !strings.Contains(err.Error(), "give select, prefer and route") {
		t.Errorf("a part: %v", err)
	}
	change.Prefer = new([]route.Wish{})
	if got, err := w.ChangeTask(w.ctx, me, "a", change); err != nil || got.Reach != "gpu;;round" {
		t.Errorf("all: %+v, %v", got, err)
	}
}

// A task that waits for room and becomes urgent goes first, and is due when it was.
func TestChangeTask_PutsAnUrgentTaskFirst(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	claim := func(room int) (ids []string) {
		t.Helper()
		for p := range w.store.Partitions.Count() {
			grant := handover.Grant{Lanes: handover.Quotas{{Queue: task.DefaultQueue}: {Number: room}}}
			claimed, err := w.store.Partitions.At(p).Lead(fence).Claim(w.ctx, 100, grant, time.Second)
			testkit.Must(t, err)
			for _, d := range claimed.Deliveries {
				ids = append(ids, d.Ref.ID)
			}
		}
		return ids
	}
	first := w.submit([]task.Definition{{Ref: task.Ref{ID: "a"}, Type: "http"}})[0].Task
	var last task.Task
	for n := 0; w.store.PartitionOf(last.Ref) != w.store.PartitionOf(first.Ref) || last.ID == ""; n++ {
		last = w.submit([]task.Definition{{Ref: task.Ref{ID: fmt.Sprint("b", n)}, Type: "http"}})[0].Task
	}
	if got := claim(0); len(got) != 0 {
		t.Fatalf("claimed without room: %q", got)
	}
	for _, priority := range []int{3, 9} {
		got, err := w.ChangeTask(w.ctx, me, last.ID, TaskChange{Priority: &priority})
		if err != nil || !got.DueAt.Equal(last.DueAt) {
			t.Fatalf("with priority %d it is due %s, was due %s, %v", priority, got.DueAt, last.DueAt, err)
		}
		claim(0)
	}
	if got := claim(1); !slices.Contains(got, last.ID) || slices.Contains(got, first.ID) {
		t.Errorf("claimed %q, want %s first", got, last.ID)
	}
}
