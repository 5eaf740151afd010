package why

import (
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/task"
)

// What holds up a task is what its cost says: it can never start, or waits until enough is free.
func TestLimited_CountsTheCost(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		limit  Limit
		detail string
		do     string
	}{
		{
			Limit{Rule: limit.Rule{Slots: 5}}, "has the cost 10, and the limit key:a has 5 slots: it can never start",
			"--slots 10",
		},
		{
			Limit{Rule: limit.Rule{Slots: 20, Rate: 9, Per: time.Minute, Burst: 7}},
			"has the cost 10, and the limit key:a has 7 tokens at most: it can never start", "--burst 10",
		},
		{
			Limit{Rule: limit.Rule{Slots: 12}, Held: 3}, "needs 10 slots of the limit key:a, which has 12, and 3 of them",
			"Wait until enough are free",
		},
		{
			Limit{Rule: limit.Rule{Rate: 60, Per: time.Minute}, Token: now.Add(time.Second)},
			"gives 60 tokens in 1m, and this task needs 10", "--rate N --per 1m",
		},
		{
			Limit{Rule: limit.Rule{Slots: 12, Paused: limit.UntilResumed}, By: "ann", Note: "a 429"},
			"is paused by ann (a 429) until somebody resumes it", "resume 'key:a'",
		},
		{Limit{Rule: limit.Rule{Slots: 12}, Held: 2}, "", ""},
	} {
		c.limit.Name, c.limit.Of = "key:a", "key:a"
		f := TaskFacts{}
		f.Limits, f.Now, f.Task = []Limit{c.limit}, now, task.Task{Definition: task.Definition{Cost: 10}}
		got := f.limited()
		switch {
		case c.detail == "" && len(got) > 0:
			t.Errorf("it waits for %+v, and enough is free", got)
		case c.detail == "":
		case len(got) != 1 || !strings.Contains(got[0].Detail, c.detail) || !strings.Contains(got[0].Do, c.do):
			t.Errorf("%+v, want one that says %q and %q", got, c.detail, c.do)
		}
	}
}

// A limit that was lowered has fewer slots than are in use: one more than the surplus must become free.
func TestLimited_CountsWhatMustBecomeFree(t *testing.T) {
	t.Parallel()
	var holders []task.Ref
	for _, id := range []string{"k1", "k2", "k3"} {
		holders = append(holders, task.Ref{Namespace: "default", ID: id})
	}
	for _, c := range []struct {
		slots, held int
		detail, do  string
	}{
		{1, 3, "The limit key:a has 1 slot, and 3 are in use, such as k1, k2, k3.", "Wait until 3 of the 3 are free"},
		{2, 3, "The limit key:a has 2 slots, and 3 are in use", "Wait until 2 of the 3 are free again"},
		{3, 3, "Each of the 3 slots of the limit key:a is in use, such as k1, k2, k3.", "Wait for one of them"},
		{1, 1, "The only slot of the limit key:a is in use, by k1.", "Wait until it is free"},
	} {
		f := TaskFacts{}
		f.Task.Ref = task.Ref{Namespace: "default", ID: "b"}
		f.Limits = []Limit{{
			Name: "key:a", Of: "key:a", Rule: limit.Rule{Slots: c.slots}, Held: c.held, Holders: holders[:c.held],
		}}
		got := f.limited()
		if len(got) != 1 || !strings.HasPrefix(got[0].Detail, c.detail) || !strings.HasPrefix(got[0].Do, c.do) {
			t.Errorf("%d of %d slots: %+v, want %q and %q", c.held, c.slots, got, c.detail, c.do)
		}
	}
}

// The command that raises a limit keeps what else the limit allows, and does not raise that of other keys.
func TestLimit_IsRaisedAlone(t *testing.T) {
	t.Parallel()
	l := Limit{Name: "key:a", Of: "key:*", Rule: limit.Rule{Slots: 5, Rate: 60, Per: time.Minute, Burst: 10}}
	for flag, want := range map[string]string{
		"slots": "dtsctl limit set 'key:a' --slots N --rate 60 --per 1m --burst 10.",
		"rate":  "dtsctl limit set 'key:a' --slots 5 --rate N --per 1m --burst 10.",
		"burst": "dtsctl limit set 'key:a' --slots 5 --rate 60 --per 1m --burst N.",
	} {
		if got := l.raise(flag, "N"); got != want {
			t.Errorf("%s: %s, want %s", flag, got, want)
		}
	}
}
