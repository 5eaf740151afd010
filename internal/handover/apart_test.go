package handover

import (
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/lua"
)

// What is served may change, and change back, while claims look at many tasks in parts.
func TestApart_LooksAgainIfWhatIsServedChangesDuringALook(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	a, waits := &apart{lanes: []Lane{{Queue: "waits"}}}, []Lane{{Queue: "waits"}}
	claim := func(served, next string) string {
		t.Helper()
		now = now.Add(unnamedPause)
		if !a.due(served, now) {
			return ""
		}
		g := Grant{Served: served}
		a.grant(&g, false, now)
		a.note(g, Outcome{Found: Found{Backlog: Backlog{}, Apart: waits, Unnamed: next}}, now)
		return g.Unnamed
	}
	for i, c := range []struct{ served, next, want string }{
		{"one", "5 t", lua.FirstUnnamed}, {"both", "6 t", "5 t"}, {"one", "", "6 t"},
		{"one", "", lua.FirstUnnamed}, // what the looks have passed while "both" were served
		{"one", "", ""}, {"both", "", lua.FirstUnnamed}, {"both", "", ""},
	} {
		if got := claim(c.served, c.next); got != c.want {
			t.Errorf("claim %d looks from %q, want %q", i, got, c.want)
		}
	}
	if now = now.Add(unnamedTime); claim("both", "") != lua.FirstUnnamed {
		t.Error("it does not look again after a long time")
	}
	now = now.Add(unnamedTime)
	g := Grant{Served: "both"}
	a.grant(&g, false, now)
	a.note(g, Outcome{}, now)
	if got := claim("both", ""); got != lua.FirstUnnamed {
		t.Errorf("after a claim that failed, one looks from %q", got)
	}
}

// A claim looks at all names if the planner may have missed some, and once in a while in any case.
func TestGrant_HasAClaimLookAtAllNames(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		happens func(p *Planner, g Grant)
		after   time.Duration
		known   bool
	}{
		"nothing": {func(p *Planner, g Grant) { p.Claimed(1, g, Outcome{Found: Found{Backlog: Backlog{}}}, start) }, 0, true},
		"a call without a reply": {func(p *Planner, g Grant) {
			p.Claimed(1, g, Outcome{}, start)
		}, 0, false},
		"tasks are taken back": {func(p *Planner, g Grant) {
			p.TookBack(1)
			p.Claimed(1, g, Outcome{Found: Found{Backlog: Backlog{}}}, start) // of a claim that was on its way
		}, 0, false},
		"others are served": {func(p *Planner, g Grant) {
			p.Claimed(1, g, Outcome{Found: Found{Backlog: Backlog{}}}, start)
			p.SetFleet(Fleet{Workers: []Node{aWorker("a", 1, 0, "other")}})
		}, 0, false},
		"another term": {func(p *Planner, g Grant) {
			p.Claimed(1, g, Outcome{Found: Found{Backlog: Backlog{}}}, start)
			p.Leave(1)
		}, 0, false},
		"time": {func(p *Planner, g Grant) {
			p.Claimed(1, g, Outcome{Found: Found{Backlog: Backlog{}}}, start)
		}, never, false},
	} {
		p := New(Options{HandOver: 4, Partitions: 16, Ask: never, Look: never})
		p.SetFleet(Fleet{Workers: []Node{aWorker("a", 1, 0, "default")}})
		g, _ := p.Grant(1, true, start)
		if g.Known {
			t.Errorf("%s: the first claim does not look", name)
		}
		p.Claimed(1, g, Outcome{Found: Found{Backlog: Backlog{}}}, start)
		g, _ = p.Grant(1, true, start)
		c.happens(p, g)
		if pause := p.Pause(1, start.Add(c.after)); c.after > 0 && pause != 0 || pause > never {
			t.Errorf("%s: the term sleeps for %s", name, pause)
		}
		g, ok := p.Grant(1, c.after == 0, start.Add(c.after))
		if !ok || g.Known != c.known {
			t.Errorf("%s: then a claim is made: %t, and knows all names: %t", name, ok, g.Known)
		}
	}
}

// A claim of known lanes tells of some only. The others stay in their order.
func TestClaimed_ChangesWhatItKnowsOfTheOtherLanes(t *testing.T) {
	t.Parallel()
	p, rare, empty := waitingIn(0), Lane{Queue: "default", Type: "rare"}, Lane{Queue: "default", Type: "empty"}
	p.setBacklog(1, Backlog{plain: start, rare: start, empty: start})
	g := Grant{Known: true, Lanes: Quotas{plain: {Number: 5}, empty: {Number: 5}, rare: {}}}
	later := start.Add(time.Second)
	p.Claimed(1, g, Outcome{Found: Found{Backlog: Backlog{plain: later}}}, later)
	for lane, want := range map[Lane][]waiting{
		plain: {{2, time.UnixMilli(9000), 0}, {1, later, 0}}, rare: {{1, start, 0}}, empty: nil,
	} {
		if got := p.flow(lane).plain.line; !slices.Equal(got, want) {
			t.Errorf("%v waits in %v, want %v", lane, got, want)
		}
	}
}
