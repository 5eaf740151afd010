package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
)

// decided is a record of a tick, and of when it was decided.
func decided(tick, at2 float64, outcome wire.TickOutcome) record {
	r := record{LedgerEntry: wire.LedgerEntry{Tick: wire.At(at(tick)), DecidedAt: wire.At(at(at2)), Outcome: outcome}}
	r.LateMs = r.DecidedAt.Sub(r.Tick.Time).Milliseconds()
	return r
}

// ran adds a task to a record, which was created when the tick was decided and ended at a time.
func ran(r record, end float64) record {
	r.Task = ptr("t")
	r.task = evidence{task: &wire.Task{CreatedAt: r.DecidedAt, FinishedAt: ptr(wire.At(at(end)))}}
	return r
}

func TestTicking_ATickIsSkippedOrReplacedOnlyForAnotherOne(t *testing.T) {
	fired, skipped, replaced := wire.TickOutcomeFired, wire.TickOutcomeSkippedOverlap, wire.TickOutcomeReplaced
	gaveWay := func(r record, at2 float64) record { r.DecidedAt = wire.At(at(at2)); return r }
	unnamed := func(r record) record { r.Task = nil; return r }
	for name, test := range map[string]struct {
		records []record
		past    *past
		want    string
	}{
		"skipped while another one ran":   {[]record{ran(decided(1, 1, fired), 2.5), decided(2, 2, skipped)}, &past{}, ""},
		"skipped after the other one":     {[]record{ran(decided(1, 1, fired), 1.9), decided(2, 2, skipped)}, &past{}, "was skipped"},
		"skipped before the other one":    {[]record{decided(1, 1, skipped), ran(decided(2, 2, fired), 3)}, &past{}, "was skipped"},
		"skipped for one that is not run": {[]record{decided(1, 17, wire.TickOutcomeMissed), decided(2, 17, skipped)}, &past{}, "was skipped"},
		"skipped for one whose firing is lost": {
			[]record{unnamed(ran(decided(1, 1, wire.TickOutcomeMissed), 3)), decided(2, 2, skipped)}, &past{}, "",
		},
		"skipped when Redis had lost why": {[]record{decided(1, 1, skipped)}, &past{lost: []loss{{span: between(-2, -1)}}}, ""},
		"skipped when its clock was back": {
			[]record{ran(decided(1, 1, fired), 1.9), decided(2, 2, skipped)},
			&past{jumps: []jump{{between(1.2, 4), -500 * time.Millisecond}}}, "",
		},
		"replaced while it ran": {[]record{gaveWay(ran(decided(1, 1, replaced), 2), 2), ran(decided(2, 2, fired), 3)}, &past{}, ""},
		"replaced after it ran": {[]record{gaveWay(ran(decided(1, 1, replaced), 1.5), 2), ran(decided(2, 2, fired), 3)}, &past{}, "when its task had ended"},
		"replaced by no other":  {[]record{ran(decided(0, 0, fired), 1), gaveWay(ran(decided(1, 1, replaced), 2), 2)}, &past{}, "no later one was decided"},
		"replaced while it waited": {
			[]record{ran(decided(1, 1, fired), 2.5), gaveWay(decided(2, 2, replaced), 3), ran(decided(3, 3, fired), 4)}, &past{}, "",
		},
		"replaced while it waited for nothing": {
			[]record{ran(decided(1, 1, fired), 1.5), gaveWay(decided(2, 2, replaced), 3), ran(decided(3, 3, fired), 4)}, &past{}, "waited from",
		},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, (&ticking{id: "s"}).judgeReasons(test.records, test.past), test.want)
		})
	}
}

func TestTicking_TicksAreNotLate(t *testing.T) {
	fired, missed := wire.TickOutcomeFired, wire.TickOutcomeMissed
	begins := func(r record, begin float64) record { r.task.calls = []call{{begin: at(begin)}}; return r }
	killed := []harm{{span: between(5, 6), name: "kill", member: "node1"}}
	for name, test := range map[string]struct {
		record  record
		overlap wire.Overlap
		harms   []harm
		pauses  []span
		want    string
	}{
		"on time":                   {record: decided(1, 1.1, fired)},
		"late":                      {record: decided(1, 21.1, fired), want: "was decided (fired)"},
		"missed, and late":          {record: decided(1, 21.1, missed), want: "was decided (missed)"},
		"late after a fault":        {record: decided(1, 25.9, fired), harms: killed},
		"late long after a fault":   {record: decided(1, 26.1, fired), harms: killed, want: "was decided"},
		"late before a fault":       {record: decided(-20, 4, fired), harms: killed, want: "was decided"},
		"late after two faults":     {record: decided(1, 40, fired), harms: append(slices.Clone(killed), harm{span: between(20, 22)})},
		"late in a pause":           {record: decided(1, 30, fired), pauses: []span{between(2, 12)}},
		"late, as it waited":        {record: decided(1, 50, fired), overlap: wire.OverlapQueue},
		"begins on time":            {record: begins(decided(1, 1.1, fired), 1.2)},
		"begins late":               {record: begins(decided(1, 1.1, fired), 42), want: "began at"},
		"begins late after a fault": {record: begins(decided(1, 1.1, fired), 42), harms: killed},
		"begins long after a fault": {record: begins(decided(1, 1.1, fired), 47), harms: killed, want: "began at"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &ticking{id: "s", overlap: test.overlap, pauses: test.pauses}
			expect(t, s.judgeLateness([]record{test.record}, &past{harms: test.harms}), test.want)
		})
	}
}

func TestPast_AJumpIsHiddenFromALeaderThatStartsAfterIt(t *testing.T) {
	for name, test := range map[string]struct {
		harm  harm
		ahead time.Duration
		want  bool
	}{
		"it starts after the jump":        {harm{span: between(1, 6), name: "kill", member: "node1"}, 20 * time.Second, true},
		"it had started long before":      {harm{span: between(1, 3), name: "kill", member: "node1"}, 20 * time.Second, false},
		"it is no leader":                 {harm{span: between(1, 6), name: "kill", member: "node2"}, 20 * time.Second, false},
		"it stood still, and has a clock": {harm{span: between(1, 6), name: "freeze", member: "node1"}, 20 * time.Second, false},
		"the clock jumped back":           {harm{span: between(1, 6), name: "kill", member: "node1"}, -20 * time.Second, false},
		"it starts when the tick is over": {harm{span: between(40, 41), name: "kill", member: "node1"}, 20 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &past{harms: []harm{test.harm}, leaders: []string{"node1"}, jumps: []jump{{between(5, 9), test.ahead}}}
			if got := p.hidesJump(between(0, 30)); got != test.want {
				t.Errorf("it is hidden: %t, want %t", got, test.want)
			}
		})
	}
}

func TestPast_ExplainsThatATickIsMissed(t *testing.T) {
	both := []harm{{span: between(1, 2), name: "kill", member: "node1"}, {span: between(3, 4), name: "freeze", member: "node2"}}
	for name, test := range map[string]struct {
		harms []harm
		want  bool
	}{
		"nothing happened":                {nil, false},
		"one of two leaders was harmed":   {both[:1], false},
		"both were":                       {both, true},
		"Redis was away":                  {[]harm{{span: between(1, 2), away: true}}, true},
		"Redis was away long before":      {[]harm{{span: between(-30, -29), away: true}}, false},
		"Redis was full":                  {[]harm{{span: between(1, 2), name: filling}}, true},
		"Redis had only lost connections": {[]harm{{span: between(1, 2), name: "client-kill"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &past{harms: test.harms, leaders: []string{"node1", "node2"}}
			if got := p.explainsMiss(between(0, 17)); got != test.want {
				t.Errorf("it explains a missed tick: %t, want %t", got, test.want)
			}
		})
	}
}
