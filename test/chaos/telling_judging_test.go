package chaos

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
)

func TestPast_WhoLivesTellsThePrimaryThatTookOver(t *testing.T) {
	for name, test := range map[string]struct {
		told float64
		harm harm
		want string
		late bool
	}{
		"in time":                         {told: 3},
		"late":                            {told: 9, late: true},
		"too late":                        {told: 20, want: "node1 has not told"},
		"too late, as it was killed":      {told: 20, harm: harm{span: between(4, 5), name: "kill", member: "node1"}, late: true},
		"too late, and another was":       {told: 20, harm: harm{span: between(4, 5), name: "kill", member: "node2"}, want: "node1 has not told"},
		"too late, as Redis was away":     {told: 20, harm: harm{span: between(4, 5), name: "redis-kill", away: true}, late: true},
		"too late, and killed long after": {told: 40, harm: harm{span: between(30, 31), name: "kill", member: "node1"}, want: "node1 has not told"},
	} {
		t.Run(name, func(t *testing.T) {
			l := loss{span: between(0, 1)}
			p := &past{lost: []loss{l}, harms: []harm{{span: between(0, 2), name: losing, away: true}, test.harm}}
			expect(t, p.judgeTelling(l, "node1", at(2), at(test.told)), test.want)
			if late := p.harms[len(p.harms)-1].name == "late"; late != test.late {
				t.Errorf("its attempts are excused: %t, want %t", late, test.late)
			}
		})
	}
}

func TestTicking_ACallThatWasOverBeforeItCameOverlapsNothing(t *testing.T) {
	running, other := twoTries(), evidence{id: "other", calls: []call{called(1, 2, 2.01, "")}}
	s := &ticking{id: "s", overlap: wire.OverlapReplace}
	for want, finished := range map[string]float64{"": 1.9, "other began": 2.005} {
		other.history = []wire.Attempt{attempted(1, wire.OutcomeCancelled, 1.5, finished)}
		expect(t, s.judgeOverlap([]evidence{running, other}, &past{}), want)
	}
}

func TestFigures_CountARoundThatEndedBeforeItsTime(t *testing.T) {
	f := newFigures()
	f.add("standalone", &outcome{}, false)
	f.add("standalone", &outcome{plan: []happening{{fault: fault{name: "kill"}}}}, false)
	for _, fault := range []string{none, "kill"} {
		if got := f.of("standalone", fault); got.rounds != 1 || got.broken != 1 || len(got.recoveries) > 0 {
			t.Errorf("%s: %+v", fault, got)
		}
	}
}

func TestOutcome_RecoversWhenTheFirstTickAfterAMissedOneRuns(t *testing.T) {
	s := &ticking{id: "s", every: time.Second, start: at(1), end: at(9)}
	o := &outcome{plan: []happening{{after: time.Second}}, begin: at(1), probe: []*ticking{s}, calls: make(map[string][]call)}
	for _, second := range []float64{1, 2, 6, 7, 8, 9} { // nothing ran at 3 to 5
		o.calls[s.idOf(at(second))] = []call{called(1, second, second, "a")}
	}
	if got, last := o.recovery(); got != 4*time.Second || last != s.idOf(at(5)) {
		t.Errorf("it recovered after %s, with %s; want 4 s", got, last)
	}
	s.end = at(30)
	for second := 7.0; second <= 30; second++ {
		o.calls[s.idOf(at(second))] = []call{called(1, second, second, "a")}
	}
	o.calls[s.idOf(at(20))] = []call{called(1, 22, 22, "a")} // long after it has recovered
	if got, last := o.recovery(); got != 4*time.Second || last != s.idOf(at(5)) {
		t.Errorf("with a late tick afterwards, it recovered after %s, with %s; want 4 s", got, last)
	}
	o.plan[0].lasts = 14 * time.Second // of a member: late ticks may come until the end of that, too
	if got, last := o.recovery(); got != 20*time.Second || last != s.idOf(at(20)) {
		t.Errorf("after a longer fault, it recovered after %s, with %s; want 20 s", got, last)
	}
	s.end, o.plan[0].lasts = at(9), 0
	delete(o.calls, s.idOf(at(9)))
	delete(o.calls, s.idOf(at(8)))
	if got, _ := o.recovery(); got != 7*time.Second {
		t.Errorf("it recovered after %s, want 7 s, the end", got)
	}
}

func TestPast_MindsWhatIsLeftOverUnlessSomebodyMeddled(t *testing.T) {
	for _, test := range []struct {
		check, fault string
		want         bool
	}{
		{"delivery-leftovers", "kill", true},
		{"delivery-leftovers", "delivery-doubled", false},
		{"delivery-leftovers", "queue-deleted", false},
		{"delivery-unleased", "delivery-doubled", true},
		{"server-leftovers", "queue-deleted", true},
		{"persistence", "kill", false}, // it is not of the data
	} {
		p := &past{harms: []harm{{name: test.fault}}}
		if got := p.minds(test.check); got != test.want {
			t.Errorf("after %s, %s is a violation: %t, want %t", test.fault, test.check, got, test.want)
		}
	}
}
