package route

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/task"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// idle5 returns an idle node with 5 slots, whose id is its name and a dash.
func idle5(name string) Candidate {
	return Candidate{ID: name + "-", Name: name, Slots: 5, CPU: math.NaN(), Memory: math.NaN()}
}

// having returns idle nodes a, b, c, ..., changed one by one.
func having(changes ...func(c *Candidate)) []Candidate {
	nodes := make([]Candidate, len(changes))
	for i, change := range changes {
		nodes[i] = idle5(string(rune('a' + i)))
		change(&nodes[i])
	}
	return nodes
}

func same(*Candidate)   {}
func full(c *Candidate) { c.Running, c.Waiting = 3, 2 }
func over(c *Candidate) { c.Running = 9 }

func running(n int) func(*Candidate)         { return func(c *Candidate) { c.Running = n } }
func waiting(n int) func(*Candidate)         { return func(c *Candidate) { c.Waiting = n } }
func slots(n int) func(*Candidate)           { return func(c *Candidate) { c.Slots = n } }
func prefer(n int) func(*Candidate)          { return func(c *Candidate) { c.Prefer = n } }
func weight(n int) func(*Candidate)          { return func(c *Candidate) { c.Weight = n } }
func named(name string) func(*Candidate)     { return func(c *Candidate) { c.Name = name } }
func used(n float64) func(*Candidate)        { return func(c *Candidate) { c.Used = n } }
func takes(d time.Duration) func(*Candidate) { return func(c *Candidate) { c.Response = d } }
func at(d time.Duration) func(*Candidate)    { return func(c *Candidate) { c.LastUsed = start.Add(d) } }
func busy(cpu, memory float64) func(*Candidate) {
	return func(c *Candidate) { c.CPU, c.Memory = cpu, memory }
}

func all(changes ...func(*Candidate)) func(*Candidate) {
	return func(c *Candidate) {
		for _, change := range changes {
			change(c)
		}
	}
}

func TestRoute_PlacesATask(t *testing.T) {
	t.Parallel()
	type placing struct {
		name  string
		nodes []Candidate
		want  Place
	}
	node, waits := func(id string) Place { return Place{Node: id} }, Place{}
	ba := []string{"b", "a"}
	for _, group := range []struct {
		route Route
		task  Task
		cases []placing
	}{
		{task: Task{Anywhere: true}, cases: []placing{
			{"the shared queue", having(same, full), Place{Shared: true}},
			{"all full", having(full, full), Place{Shared: true}},
			{"no nodes", nil, Place{Shared: true}},
			{"all preferred", having(prefer(5), prefer(5)), Place{Shared: true}},
			{"one preferred", having(same, all(running(4), prefer(1))), node("b-")},
		}},
		{route: Route{By: Any}, task: Task{Anywhere: true}, cases: []placing{
			{"the shared queue", having(same), Place{Shared: true}},
		}},
		{cases: []placing{
			{"the most free slots", having(running(1), slots(9), waiting(1)), node("b-")},
			{"all full", having(full, over, slots(0)), waits},
			{"no nodes", nil, waits},
		}},
		{route: Route{By: First}, cases: []placing{
			{"the least name that is free", having(full, running(4), same), node("b-")},
			{"all full", having(full, over), waits},
			{"preferred", having(same, prefer(1), prefer(2), prefer(2)), node("c-")},
			{"preferred one full", having(same, all(prefer(2), full), prefer(1)), node("c-")},
		}},
		{route: Route{By: Last}, cases: []placing{
			{"the greatest name that is free", having(same, same, full), node("b-")},
		}},
		{route: Route{By: LeastRunning}, cases: []placing{
			{"without regard to slots", having(running(2), all(running(1), waiting(2)), all(slots(2), running(1))), node("c-")},
		}},
		{route: Route{By: LeastUsed}, cases: []placing{
			{"a free one", having(used(0.2), used(0.1), all(used(0), full)), node("b-")},
			{"more often, but long ago", having(all(used(8), at(-2*time.Hour)), all(used(2), at(0))), node("a-")},
		}},
		{route: Route{By: LongestIdle}, cases: []placing{
			{"a free one", having(at(time.Second), at(0), all(at(-1), full)), node("b-")},
			{"never used", having(at(time.Second), same, at(0)), node("b-")},
		}},
		{route: Route{By: Weighted}, cases: []placing{
			{"by CPU", having(busy(0.5, 0.5), busy(0.4, 0.6)), node("b-")},
			{"by memory", having(busy(0.5, 0.5), busy(0.6, 0.3)), node("b-")},
			{"by slots", having(running(1), all(slots(10), running(1))), node("b-")},
			{"by what waits", having(waiting(1), same), node("b-")},
			{"by weight", having(same, all(weight(2), running(3))), node("b-")},
			{"unknown beside busy", having(busy(0.6, 0.6), same), node("b-")},
			{"unknown beside idle", having(same, busy(0.4, 0.4)), node("b-")},
			{"an impossible CPU", having(busy(-7, 1), busy(0, 0)), node("b-")},
		}},
		{route: Route{By: Weighted, Load: Load{Response: 1}}, cases: []placing{
			{"the fastest one that is free", having(takes(2), takes(1), all(takes(1), full)), node("b-")},
			{"unknown beside slow", having(takes(9), all(takes(1), running(4)), same, weight(3)), node("d-")},
			{"unknown beside fast", having(takes(9), all(takes(1), running(4)), same, weight(-1)), node("b-")},
		}},
		{route: Route{By: Weighted, Load: Load{CPU: 0.1}}, cases: []placing{
			{"by CPU only", having(busy(0.5, 0), all(busy(0.4, 1), running(4))), node("b-")},
		}},
		{route: Route{By: Failover, Order: ba}, cases: []placing{
			{"the first one", having(same, running(4)), node("b-")},
			{"the first one full", having(same, full), Place{For: "b"}},
			{"the first one gone", having(same), node("a-")},
			{"others only", having(named("c")), waits},
			{"another one preferred", having(prefer(9), same), node("b-")},
			{"several of a name", having(all(named("b"), running(2)), running(1), all(named("b"), full)), node("b-")},
		}},
		{route: Route{By: BusyOver, Order: ba}, cases: []placing{
			{"the first one", having(same, running(4)), node("b-")},
			{"the first one full", having(same, full), node("a-")},
			{"all full", having(full, full, same), waits},
		}},
		{route: Route{By: BusyOver}, cases: []placing{
			{"the least name that is free", having(full, same, same), node("b-")},
		}},
		{route: Route{By: Hash}, cases: []placing{
			{"preferred", having(same, all(prefer(1), running(2)), same, same), node("b-")},
			{"the only one that is free", having(full, all(prefer(1), full), running(4)), node("c-")},
			{"no nodes", nil, waits},
		}},
		{route: Route{By: Hash, Sticky: StickyRequire}, cases: []placing{
			{"preferred", having(same, all(prefer(1), full), same, same), Place{For: "b"}},
			{"no nodes", nil, waits},
		}},
		{route: Route{By: Hash, Sticky: StickyPrefer}, cases: []placing{
			{"no nodes", nil, waits},
		}},
	} {
		for _, c := range group.cases {
			if got, _ := group.route.Place(group.task, c.nodes, Turns{}); got != c.want {
				t.Errorf("%+v: %s: %+v, want %+v", group.route, c.name, got, c.want)
			}
		}
	}
}

// The home of a key is one of three nodes that are equal otherwise.
func TestRoute_HashKeepsToTheNodeOfAKey(t *testing.T) {
	t.Parallel()
	idle := having(same, same, same)
	place := func(sticky Sticky, waited time.Duration, change, others func(c *Candidate)) (Place, string) {
		route := Route{By: Hash, Sticky: sticky}
		home, _ := route.Place(Task{Key: "k"}, idle, Turns{})
		nodes := slices.Clone(idle)
		i := slices.IndexFunc(nodes, func(c Candidate) bool { return c.ID == home.Node })
		for j := range nodes {
			if others != nil {
				others(&nodes[j])
			}
		}
		change(&nodes[i])
		got, _ := route.Place(Task{Key: "k", Waited: waited}, nodes, Turns{})
		return got, nodes[i].Name
	}
	for name, c := range map[string]struct {
		sticky Sticky
		waited time.Duration
		change func(c *Candidate)
		home   bool
		waits  bool
		still  time.Duration
		others func(c *Candidate)
	}{
		"idle":                     {change: same, home: true},
		"half of it is free":       {change: running(2), home: true},
		"has more than its share":  {change: running(3)},
		"within 5/4 of its share":  {change: running(3), others: running(2), home: true},
		"full":                     {change: full},
		"sticky, more than others": {sticky: StickyPrefer, change: running(4), home: true},
		"sticky, full":             {sticky: StickyPrefer, change: full, waits: true, still: 2 * time.Second},
		"sticky, full for a time":  {StickyPrefer, time.Second, full, false, true, time.Second, nil},
		"sticky, full for long":    {sticky: StickyPrefer, waited: 2 * time.Second, change: full},
		"sticky, free in the end":  {sticky: StickyPrefer, waited: 2 * time.Second, change: running(4), home: true},
		"required, more":           {sticky: StickyRequire, change: running(4), home: true},
		"required, full for long":  {sticky: StickyRequire, waited: time.Hour, change: full, waits: true},
	} {
		got, home := place(c.sticky, c.waited, c.change, c.others)
		switch {
		case c.waits && got != Place{For: home, Still: c.still}:
			t.Errorf("%s: %+v, want it to wait %v for %s", name, got, c.still, home)
		case !c.waits && (got.Node == "" || (got.Node == home+"-") != c.home):
			t.Errorf("%s: %+v, want the node of the key, %s: %v", name, got, home, c.home)
		}
	}
}

func TestRoute_CheckSaysWhatIsInvalid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		route Route
		want  string
	}{
		{Route{}, ""},
		{Route{By: Failover, Order: []string{"a", "b"}}, ""},
		{Route{By: BusyOver}, ""},
		{Route{By: Hash, Sticky: StickyRequire}, ""},
		{Route{By: Weighted, Load: Load{CPU: 1, Memory: 0.5, Slots: 0.5, Response: 0.1}}, ""},
		{Route{By: "lru"}, `by: "lru" must be one of any, first, last, round, weighted_round, random, hash, least_running, ` +
			`least_used, longest_idle, weighted, failover, busy_over`},
		{Route{By: Failover}, "order: must name 1 to 16 nodes, the first one first"},
		{Route{By: Round, Order: []string{"a"}}, "order: must be left out: only failover and busy_over go by it"},
		{Route{By: Failover, Order: strings.Fields(strings.Repeat("a ", 17))}, "order: has 17 names; must have at most 16"},
		{Route{By: Failover, Order: []string{"a", ""}}, "order: has an empty name; must name nodes"},
		{Route{By: BusyOver, Order: []string{"a", "b", "a"}}, "order: names a node twice; must name each one once"},
		{Route{By: Hash, Sticky: "hard"}, `sticky: "hard" must be prefer or require, or left out`},
		{Route{By: Random, Sticky: StickyPrefer}, "sticky: must be left out: only hash goes by it"},
		{Route{By: Weighted, Load: Load{CPU: -0.1}}, "load.cpu: -0.1 must be 0 to 1"},
		{Route{By: Weighted, Load: Load{Memory: 1.1}}, "load.memory: 1.1 must be 0 to 1"},
		{Route{By: Weighted, Load: Load{Slots: math.NaN()}}, "load.slots: NaN must be 0 to 1"},
		{Route{By: Any, Load: Load{Response: 1}}, "load.response: must be left out: only weighted goes by it"},
	} {
		err := c.route.Check()
		if c.want == "" && err == nil {
			continue
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("%+v: %v, want %s", c.route, err, c.want)
		}
	}
	err := Route{By: "x", Sticky: "y", Order: []string{"z"}, Load: Load{CPU: 2}}.Check()
	var invalid *task.Error
	if !errors.As(err, &invalid) || len(invalid.Others) != 3 {
		t.Errorf("%v, want four invalid fields", err)
	}
}

func TestCandidate_CountsTheHandOversOfAnHour(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		used   float64
		passed time.Duration
		want   float64
	}{
		{10, 0, 11}, {10, -time.Hour, 11}, {10, time.Hour, 1 + 10/math.E}, {0, time.Hour, 1},
	} {
		now := start.Add(c.passed)
		got := Candidate{Used: c.used, LastUsed: start, Waiting: 3}.HandOver(now)
		if math.Abs(got.Used-c.want) > 1e-9 || got.Waiting != 4 || !got.LastUsed.Equal(now) {
			t.Errorf("%v after %v: %+v, want %v, and one more that waits", c.used, c.passed, got, c.want)
		}
	}
	var node Candidate
	for i := range 12 * 3600 {
		node = node.HandOver(start.Add(time.Duration(i) * time.Second))
	}
	if math.Abs(node.Used-3600) > 5 {
		t.Errorf("one hand-over a second for 12 hours counts %v, want about 3600", node.Used)
	}
}

func TestTurns_GoByName(t *testing.T) {
	t.Parallel()
	nodes := having(same, same, named("b"), full, same)
	var got []string
	var turns Turns
	for range 9 {
		var p Place
		p, turns = Route{By: Round}.Place(Task{}, nodes, turns)
		got = append(got, p.Node)
	}
	if diff := cmp.Diff(strings.Fields("a- b- c- e- a- b- c- e- a-"), got); diff != "" {
		t.Error(diff)
	}
}
