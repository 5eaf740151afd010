package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
)

// These tests show made-up rounds to the judge: one thing in each is wrong, and the judge says which.

// at is a time of a made-up round, in seconds.
func at(seconds float64) time.Time {
	return time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

func between(from, until float64) span { return span{at(from), at(until)} }

// called is a call of a handler that was answered with a token, unless that is "".
func called(attempt int, from, until float64, token string) call {
	return call{attempt: attempt, version: 1, behaviour: works, begin: at(from), end: at(until), token: token}
}

// attempted is an attempt of node1 in a history.
func attempted(number int, outcome wire.Outcome, from, until float64) wire.Attempt {
	return wire.Attempt{Number: number, Node: "id1", Outcome: &outcome, StartedAt: wire.At(at(from)), FinishedAt: ptr(wire.At(at(until)))}
}

// twoTries is a task that failed at second 1 and succeeded at second 3.
func twoTries() evidence {
	return evidence{
		id: "t", behaviour: works, maxAttempts: 3, due: at(0),
		task:    &wire.Task{ID: "t", State: wire.StateSucceeded, Attempt: 2, MaxAttempts: 3, Result: ptr("b")},
		history: []wire.Attempt{attempted(1, wire.OutcomeLost, 1, 2), attempted(2, wire.OutcomeSucceeded, 3, 4)},
		calls:   []call{called(1, 1, 2, ""), called(2, 3, 4, "b")},
		members: map[string][]string{"id1": {"node1"}, "web": {"webworker", "node1"}},
	}
}

// jumpedOver has the first attempt run by a worker by HTTP when the clock of Redis jumps, and nothing else happen.
func jumpedOver(e *evidence, p *past, ahead time.Duration) {
	p.harms, p.jumps = nil, []jump{{between(1.5, 5), ahead}}
	e.history[0].Node = "web"
}

// loseAll has a task of five attempts fail after n of them, each of which a kill of its member lost.
func loseAll(e *evidence, p *past, n int) {
	e.maxAttempts, e.task = 5, &wire.Task{State: wire.StateFailed, Attempt: n}
	e.history, e.calls, p.harms = nil, nil, nil
	for i := range n {
		from := float64(1 + 2*i)
		e.history = append(e.history, attempted(i+1, wire.OutcomeLost, from, from+1))
		e.calls = append(e.calls, called(i+1, from, from+1, ""))
		p.harms = append(p.harms, harm{span: between(from+0.5, from+0.6), name: "kill", member: "node1"})
	}
}

// failFirst has the first attempt fail at a time, and the second one, which is cancelled, begin at second 3.
func failFirst(j *job, e *evidence, end float64) {
	j.asked = true
	e.behaviour, e.history[0] = flaky, attempted(1, wire.OutcomeFailed, 1, end)
	e.calls[0].behaviour, e.calls[1].behaviour = flaky, works
	e.history[1], e.task.State = attempted(2, wire.OutcomeCancelled, 3, 4), wire.StateCancelled
	e.calls[1].token = ""
}

// moveFirst has the first attempt move.
func moveFirst(e *evidence, moves, asked bool) {
	e.moves, e.asked, e.history[0] = moves, asked, attempted(1, wire.OutcomeMoved, 1, 2)
}

// rememberedAsFailed has the only attempt of a task succeed on a member, and its history go.
func rememberedAsFailed(j *job, e *evidence, member string) {
	e.task, e.calls, e.maxAttempts, j.remembered = nil, []call{called(1, 1, 2, "a")}, 1, wire.StateFailed
	e.calls[0].members = []string{member}
}

// killed is what happens to the task of twoTries: node1 is killed while it runs.
func killed() *past {
	return &past{harms: []harm{{span: between(1.5, 1.6), name: "kill", member: "node1"}}}
}

// expect checks that a verdict is one violation with a text in it, or none if the text is "".
func expect(t *testing.T, v verdict, want string) {
	t.Helper()
	switch {
	case want == "" && len(v) > 0:
		t.Errorf("the verdict is %q, want none", v)
	case want != "" && (len(v) != 1 || !strings.Contains(v[0], want)):
		t.Errorf("the verdict is %q, want %q only", v, want)
	}
}

func TestJob_IsJudgedByTheCallsOfItsHandler(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(j *job, e *evidence, p *past)
		want   string
	}{
		{name: "as it was", change: func(*job, *evidence, *past) {}},
		{"not there", func(_ *job, e *evidence, _ *past) { e.task = nil }, "accepted and is not there"},
		{"an answer that it is not there", func(j *job, _ *evidence, _ *past) { j.missed = []string{"404"} }, "404"},
		{"begun twice", func(_ *job, e *evidence, _ *past) {
			e.calls = append(e.calls[:1], called(2, 3, 4, ""), e.calls[1])
		}, "begun twice"},
		{"begun twice, and it is not kept", func(j *job, e *evidence, p *past) {
			e.task, j.remembered, p.full = nil, wire.StateSucceeded, true
			e.calls = append(e.calls[:1], called(2, 3, 4, ""), e.calls[1])
		}, "begun twice"},
		{"begun twice, in the time of which Redis lost writes", func(_ *job, e *evidence, p *past) {
			p.harms, p.lost = []harm{{span: between(2.5, 4.5), name: losing}}, []loss{{span: between(2.5, 4.5)}}
			e.calls = append(e.calls, called(2, 6, 7, "c"))
		}, "although Redis was told again"},
		{"begun twice, by a member that died when Redis lost writes", func(_ *job, e *evidence, p *past) {
			p.harms, p.lost = []harm{{span: between(3.5, 3.6), name: "kill", member: "node1"}}, []loss{{span: between(2.5, 4.5)}}
			e.calls = append(e.calls, called(2, 6, 7, "c"))
		}, ""},
		{"begun twice, first by who found the begin lost and then by a member that stood still", func(_ *job, e *evidence, p *past) {
			p.harms, p.lost = append(p.harms, harm{span: between(2.5, 6), name: "freeze", member: "node1"}), []loss{{span: between(2.5, 2.8)}}
			e.calls = append(e.calls, called(2, 6.1, 7, "c"))
		}, ""},
		{"begun twice, and no member stood still when Redis lost writes", func(_ *job, e *evidence, p *past) {
			p.lost = []loss{{span: between(2.5, 2.8)}}
			e.calls = append(e.calls[:1], called(2, 3, 4, ""), called(2, 6.1, 7, "b"))
		}, "begun twice"},
		{"early", func(_ *job, e *evidence, _ *past) { e.due = at(1.5) }, "began 500ms early"},
		{"too many attempts", func(_ *job, e *evidence, _ *past) { e.maxAttempts = 1 }, "attempt 2 of t, which has 1 at most"},
		{"an attempt after a success", func(_ *job, e *evidence, p *past) {
			p.harms[0].keepsRuns, e.history[0] = true, attempted(1, wire.OutcomeFailed, 1, 2)
			e.behaviour, e.calls[0].behaviour, e.calls[0].token = flaky, works, "a"
			e.history[1], e.task = attempted(2, wire.OutcomeFailed, 3, 4), &wire.Task{State: wire.StateFailed, Attempt: 3}
			e.history = append(e.history, attempted(3, wire.OutcomeCancelled, 5, 6))
			e.maxAttempts = 3
		}, "was the last word"},
		{"again after its backoff", func(j *job, e *evidence, _ *past) { failFirst(j, e, 2.91) }, ""},
		{"again before its backoff", func(j *job, e *evidence, _ *past) { failFirst(j, e, 2.92) }, "began 10ms before its backoff of 90ms was over"},
		{"again before its backoff, as the clock jumped over that", func(j *job, e *evidence, p *past) {
			failFirst(j, e, 2.92)
			p.jumps = []jump{{between(2.95, 9), 9 * time.Second}}
		}, ""},
		{"an attempt after a success whose member was harmed", func(_ *job, e *evidence, _ *past) {
			e.calls[0].token, e.calls[0].members = "a", []string{"node1"}
		}, ""},
		{"an attempt after a success, and another member was harmed", func(_ *job, e *evidence, _ *past) {
			e.calls[0].token, e.calls[0].members, e.history[0].Node = "a", []string{"node2"}, "?"
		}, "was the last word"},
		{"an earlier attempt after a success, by a member that stood still since before that", func(_ *job, e *evidence, p *past) {
			p.harms = []harm{{span: between(1, 6), name: "freeze", member: "node1"}}
			e.calls = []call{called(2, 3, 4, "b"), called(1, 6.1, 7, "")}
			e.calls[0].members, e.history[1].Node = []string{"node2"}, "?"
		}, ""},
		{"a call that is not in the history", func(_ *job, e *evidence, _ *past) {
			e.calls = append(e.calls, called(3, 5, 6, ""))
			e.calls[1].token, e.calls[1].behaviour = "b", doomed // no last word
		}, "attempt 3 of t was begun, and 2 are in its history"},
		{"a success that nobody confirms", func(_ *job, e *evidence, _ *past) { e.calls[1].token, e.task.Result = "", nil }, "the handler does not confirm"},
		{"failed, as three workers in a row died", func(_ *job, e *evidence, p *past) { loseAll(e, p, 3) }, ""},
		{"failed, as two workers in a row died", func(_ *job, e *evidence, p *past) { loseAll(e, p, 2) }, "failed after 2 of 5 attempts"},
		{"another result", func(_ *job, e *evidence, _ *past) { e.task.Result = ptr("x") }, `succeeded with "x"`},
		{"run by another member", func(_ *job, e *evidence, _ *past) { e.calls[1].members = []string{"node2"} }, "says its history"},
		{"begun twice, and another member than the first one died when Redis lost writes", func(_ *job, e *evidence, p *past) {
			p.harms, p.lost = []harm{{span: between(3.5, 3.6), name: "kill", member: "node1"}}, []loss{{span: between(2.5, 4.5)}}
			e.calls[1].members = []string{"node2"}
			e.calls = append(e.calls, called(2, 6, 7, "c"))
		}, "although Redis was told again"},
		{"begun twice after a retry that Redis has lost", func(_ *job, e *evidence, p *past) {
			p.lost, e.history[0].Outcome = []loss{{span: between(2.5, 4.5)}}, ptr(wire.OutcomeCancelled)
			e.calls = append(e.calls, called(2, 6, 7, "b"))
		}, ""},
		{"lost for no reason", func(_ *job, _ *evidence, p *past) { p.harms = nil }, "nothing had happened"},
		{"lost when something happened to another member", func(_ *job, _ *evidence, p *past) { p.harms[0].member = "node2" }, "nothing had happened"},
		{"lost long after something happened", func(_ *job, _ *evidence, p *past) { p.harms[0].span = between(-9, -8) }, "nothing had happened"},
		{"lost by a fault that keeps runs", func(_ *job, _ *evidence, p *past) { p.harms[0].member, p.harms[0].keepsRuns = "", true }, "nothing had happened"},
		{"lost when Redis forgot", func(_ *job, _ *evidence, p *past) { p.harms[0].member = "" }, ""},
		{"lost by a worker by HTTP whose time limit the clock jumped over", func(_ *job, e *evidence, p *past) {
			jumpedOver(e, p, 40*time.Second)
		}, ""},
		{"lost by a worker by HTTP in a jump shorter than its time limit", func(_ *job, e *evidence, p *past) {
			jumpedOver(e, p, 30*time.Second)
		}, "nothing had happened"},
		{"lost by a node in a jump of the clock", func(_ *job, e *evidence, p *past) {
			jumpedOver(e, p, 40*time.Second)
			e.history[0].Node = "id1"
		}, "nothing had happened"},
		{"lost by a worker whose node died", func(_ *job, e *evidence, _ *past) { e.history[0].Node = "web" }, ""},
		{"moved", func(_ *job, e *evidence, _ *past) { moveFirst(e, true, true) }, ""},
		{"moved, and not asked for", func(_ *job, e *evidence, _ *past) { moveFirst(e, true, false) }, "nobody asked for"},
		{"moved, by a handler that does not move", func(_ *job, e *evidence, _ *past) {
			moveFirst(e, false, true)
		}, "nobody asked for"},
		{"moved, as its member was drained", func(_ *job, e *evidence, p *past) {
			moveFirst(e, true, false)
			p.harms[0].name = draining
		}, ""},
		{"moved as its handler answered", func(_ *job, e *evidence, p *past) {
			moveFirst(e, true, true)
			e.calls[0].token, p.harms = "a", nil
		}, ""},
		{"cancelled, and not asked for", func(_ *job, e *evidence, _ *past) {
			e.task.State, e.history[1], e.calls[1].token = wire.StateCancelled, attempted(2, wire.OutcomeCancelled, 3, 4), ""
		}, "nobody asked for"},
		{"cancelled, and it succeeded", func(j *job, _ *evidence, _ *past) {
			j.asked, j.cancels = true, []answered{{at: at(3), attempt: 2, state: wire.StateCancelled}}
		}, "although its cancellation was answered with cancelled"},
		{"asked to stop, and it was faster", func(j *job, _ *evidence, _ *past) {
			j.asked, j.cancels = true, []answered{{at: at(3.5), attempt: 2, state: wire.StateRunning}}
		}, ""},
		{"cancelled, and another attempt began", func(j *job, e *evidence, _ *past) {
			e.task.State, e.history[1], e.calls[1].token = wire.StateCancelled, attempted(2, wire.OutcomeCancelled, 3, 4), ""
			j.asked, j.cancels = true, []answered{{at: at(2.5), attempt: 1, state: wire.StateRunning}}
		}, "after it was cancelled in attempt 1"},
		{"changed, and the old version ran", func(j *job, _ *evidence, _ *past) {
			j.changes = []answered{{at: at(2.5), attempt: 1, version: 2}}
		}, "ran version 1"},
		{"remembered as failed", func(j *job, e *evidence, p *past) {
			e.task, j.remembered = nil, wire.StateFailed
			p.harms[0].span = between(-9, -8)
		}, "no handler confirms"},
		{"remembered as failed, and whoever ran its success was harmed", func(j *job, e *evidence, _ *past) {
			rememberedAsFailed(j, e, "node1")
		}, ""},
		{"remembered as failed, and another one than who ran its success was harmed", func(j *job, e *evidence, _ *past) {
			rememberedAsFailed(j, e, "node2")
		}, "no handler confirms"},
		{"remembered as succeeded, and never called", func(j *job, e *evidence, _ *past) {
			e.task, e.calls, j.remembered = nil, nil, wire.StateSucceeded
		}, "no handler confirms"},
		{"failed, and an attempt has succeeded", func(_ *job, e *evidence, _ *past) { e.task.State, e.maxAttempts = wire.StateFailed, 2 }, "and attempt 2 of 2 has succeeded"},
		{"running still", func(_ *job, e *evidence, _ *past) {
			e.task.State, e.task.Attempt, e.history, e.calls = wire.StateRunning, 1, e.history[:1], e.calls[:1]
		}, "is running still"},
	} {
		t.Run(test.name, func(t *testing.T) {
			j, e, p := &job{id: "t", accepted: true}, twoTries(), killed()
			test.change(j, &e, p)
			expect(t, j.judge(e, p, false), test.want)
		})
	}
}

func TestJob_IsNotLostIfItsSubmissionWaitedForTheReplica(t *testing.T) {
	e, p := twoTries(), killed()
	e.task, p.lost = nil, []loss{{span: between(0, 5)}}
	j := &job{id: "t", accepted: true, answers: []span{between(0.5, 6)}}
	expect(t, j.judge(e, p, false), "")
	expect(t, j.judge(e, p, true), "accepted and is not there")
}

func TestEvidence_TheOnlyAttemptOfATaskIsBegunOnceIfItsBeginWaitsForTheReplica(t *testing.T) {
	e, p := twoTries(), killed()
	p.lost = []loss{{span: between(0, 2)}}
	e.maxAttempts, e.calls = 1, []call{called(1, 1, 1.5, ""), called(1, 3, 4, "b")}
	expect(t, e.judgeTouched(p, false), "")
	expect(t, e.judgeTouched(p, true), "the only attempt of t was begun twice")
}

func TestEvidence_WhatLivingMembersKnowIsNotLost(t *testing.T) {
	for name, test := range map[string]struct {
		change func(e *evidence, p *past)
		want   string
	}{
		"as it was":                      {func(*evidence, *past) {}, ""},
		"not there":                      {func(e *evidence, _ *past) { e.task = nil }, "is not there, although Redis was told"},
		"not there, as Redis was full":   {func(e *evidence, p *past) { e.task, p.full = nil, true }, ""},
		"not there, and its runner died": {func(e *evidence, p *past) { e.task, p.harms[1].span = nil, between(4, 4.1) }, ""},
		"failed":                         {func(e *evidence, _ *past) { e.task.State = wire.StateFailed }, "has failed, although Redis was told"},
		"failed, and Redis was killed": {func(e *evidence, p *past) {
			e.task.State = wire.StateFailed
			p.addHarm(harm{span: between(4.1, 4.2), name: "redis-kill", keepsRuns: true, away: true})
		}, ""},
		"too early": {func(e *evidence, _ *past) { e.due = at(2) }, "early"},
	} {
		t.Run(name, func(t *testing.T) {
			e := twoTries()
			e.calls[1].members = []string{"node2"}
			p := &past{lost: []loss{{span: between(3.5, 4.5)}}, harms: []harm{
				{span: between(3.5, 5), name: losing}, {span: between(-9, -8), name: "kill", member: "node2"},
			}}
			test.change(&e, p)
			expect(t, (&job{id: "t", accepted: true}).judge(e, p, false), test.want)
		})
	}
}

func TestTicking_EachTickHasARecordThatSaysWhatBecameOfIt(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(s *ticking, ledger []wire.LedgerEntry, p *past)
		want   string
	}{
		{name: "as it was", change: func(*ticking, []wire.LedgerEntry, *past) {}},
		{"another task", func(_ *ticking, l []wire.LedgerEntry, _ *past) { l[1].Task = l[0].Task }, "the task of the tick"},
		{"fired without a task", func(_ *ticking, l []wire.LedgerEntry, _ *past) { l[1].Task = nil }, "is fired"},
		{"two records", func(s *ticking, l []wire.LedgerEntry, _ *past) { l[0] = l[1]; s.start = at(2) }, "two records"},
		{"a record of no tick", func(s *ticking, _ []wire.LedgerEntry, _ *past) { s.end = at(2) }, "which is no tick"},
		{"no record", func(s *ticking, _ []wire.LedgerEntry, _ *past) { s.end = at(4) }, "has no record"},
		{"missed on time", func(_ *ticking, l []wire.LedgerEntry, _ *past) { miss(&l[1], 2.1) }, "is missed"},
		{"missed by far, when Redis was away", func(_ *ticking, l []wire.LedgerEntry, p *past) {
			miss(&l[1], 18)
			p.harms = []harm{{span: between(1, 17), name: "redis-pause", away: true}}
		}, ""},
		{"missed by far, and a leader lived", func(_ *ticking, l []wire.LedgerEntry, p *past) {
			miss(&l[1], 18)
			p.harms, p.leaders = []harm{{span: between(1, 17), name: "freeze", member: "node1"}}, []string{"node1", "node2"}
		}, "is missed"},
		{"missed by a jump of the clock", func(_ *ticking, l []wire.LedgerEntry, p *past) {
			miss(&l[1], 18)
			p.jumps = []jump{{between(1.5, 5), 16 * time.Second}}
		}, "is missed"},
		{"missed by a jump of the clock that its leader has not seen", func(_ *ticking, l []wire.LedgerEntry, p *past) {
			miss(&l[1], 18) // at 1.7: the clock jumped over the tick at 2
			p.harms, p.leaders = []harm{{span: between(0, 1.6), name: "kill", member: "node1"}}, []string{"node1", "node2"}
			p.jumps = []jump{{between(1.5, 5), 16300 * time.Millisecond}}
		}, ""},
		{"missed in a pause", func(s *ticking, l []wire.LedgerEntry, _ *past) {
			miss(&l[1], 3)
			s.pauses = []span{between(1.5, 2.5)}
		}, ""},
		{"missed after a pause", func(s *ticking, l []wire.LedgerEntry, _ *past) { miss(&l[1], 3); s.pauses = []span{between(0, 1.5)} }, "is missed"},
		{"missed between two pauses that became one", func(s *ticking, l []wire.LedgerEntry, _ *past) {
			miss(&l[1], 3)
			s.pauses = []span{between(0, 1.5), between(2.5, 2.9)}
		}, ""},
		{"missed between two pauses, and decided before the second", func(s *ticking, l []wire.LedgerEntry, _ *past) {
			miss(&l[1], 2.2)
			s.pauses = []span{between(0, 1.5), between(2.5, 2.9)}
		}, "is missed"},
		{"missed in a pause by the clock of Redis", func(s *ticking, l []wire.LedgerEntry, p *past) {
			miss(&l[1], 9)
			s.pauses = []span{between(4, 8)}
			p.jumps = []jump{{between(3, 6), -3 * time.Second}}
		}, ""},
		{"skipped, though ticks may overlap", func(_ *ticking, l []wire.LedgerEntry, _ *past) {
			l[1].Outcome, l[1].Task = wire.TickOutcomeSkippedOverlap, nil
		}, "is skipped_overlap"},
		{"replaced, though ticks may overlap", func(_ *ticking, l []wire.LedgerEntry, _ *past) { l[1].Outcome = wire.TickOutcomeReplaced }, "is replaced"},
		{"waits still", func(s *ticking, l []wire.LedgerEntry, _ *past) {
			l[1].Outcome, l[1].Task, s.overlap = wire.TickOutcomeQueued, nil, wire.OverlapQueue
		}, "is queued"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &ticking{id: "s", every: time.Second, start: at(1), end: at(3), overlap: wire.OverlapAllow}
			var ledger []wire.LedgerEntry
			for _, tick := range s.expected() {
				ledger = append(ledger, wire.LedgerEntry{Tick: wire.At(tick), Outcome: wire.TickOutcomeFired, Task: ptr(s.idOf(tick)), DecidedAt: wire.At(tick)})
			}
			p := &past{}
			test.change(s, ledger, p)
			expect(t, s.judgeLedger(ledger, p), test.want)
		})
	}
}

// miss has a record say that the tick was missed.
func miss(e *wire.LedgerEntry, decided float64) {
	e.Outcome, e.Task, e.DecidedAt = wire.TickOutcomeMissed, nil, wire.At(at(decided))
	e.LateMs = e.DecidedAt.Sub(e.Tick.Time).Milliseconds()
}

func TestTicking_ATickThatFiredWasRun(t *testing.T) {
	s, tick := &ticking{id: "s"}, wire.LedgerEntry{Tick: wire.At(at(0)), Outcome: wire.TickOutcomeFired}
	e := twoTries()
	expect(t, s.judgeTick(tick, e, killed(), false), "")
	e.task = nil
	expect(t, s.judgeTick(tick, e, killed(), false), "is not there")
	full := killed()
	full.full = true
	expect(t, s.judgeTick(tick, e, full, false), "")
	e.calls = nil
	expect(t, s.judgeTick(tick, e, full, false), "was never run")
}

func TestEvidence_TheLifeOfATaskIsNotKnownIfRedisLostItsAttempts(t *testing.T) {
	lost := twoTries()
	lost.task.Attempt, lost.history = 0, nil
	if life, known := lost.life(); known {
		t.Errorf("it is %v", life)
	}
}

func TestTicking_TasksOverlapOnlyIfTheScheduleAllowsIt(t *testing.T) {
	first, second := twoTries(), twoTries()
	first.id, second.id = "first", "second"
	life, known := first.life()
	if !known {
		t.Fatal("the life of a task that succeeded is not known")
	}
	for name, test := range map[string]struct {
		overlap wire.Overlap
		begin   time.Time // of the second one
		past    *past
		want    string
	}{
		"after it":     {wire.OverlapSkip, life.until.Add(time.Millisecond), &past{}, ""},
		"in it":        {wire.OverlapSkip, life.until.Add(-time.Millisecond), &past{}, "second began"},
		"allowed":      {wire.OverlapAllow, life.until.Add(-time.Millisecond), &past{}, ""},
		"lost of that": {wire.OverlapSkip, life.until.Add(-time.Millisecond), &past{lost: []loss{{span: span{life.from, life.from}}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			later := second
			later.calls = []call{{attempt: 1, begin: test.begin}}
			expect(t, (&ticking{id: "s", overlap: test.overlap}).judgeOverlap([]evidence{first, later}, test.past), test.want)
		})
	}
}

func TestTicking_TheAuditTellsWhatRedisLost(t *testing.T) {
	s := &ticking{id: "s", every: time.Second, start: at(1), end: at(3)}
	ran := map[string][]call{s.idOf(at(2)): {called(1, 2, 2.1, "a")}}
	loss := &past{lost: []loss{{span: between(1.5, 2.5)}}, harms: []harm{{span: between(1.5, 3), name: losing}}}
	proved := wire.AuditReport{Expected: 3, Accounted: 3, Proved: true}
	told := wire.AuditReport{Expected: 3, Accounted: 3, LostWrites: []wire.LostWrites{{From: wire.At(at(2)), To: wire.At(at(4))}}}
	expect(t, s.judgeAudit(proved, ran, &past{}), "")
	expect(t, s.judgeAudit(told, ran, loss), "")
	expect(t, s.judgeAudit(proved, ran, loss), "says nothing of what Redis lost")
	expect(t, s.judgeAudit(told, ran, &past{}), "and it did not")
	expect(t, s.judgeAudit(wire.AuditReport{Expected: 3, Accounted: 2, Proved: true}, ran, &past{}), "of 3 ticks")
	ran[s.idOf(at(3))] = []call{called(1, 3, 3.1, "a"), called(1, 3, 3.1, "b")}
	expect(t, s.judgeAudit(proved, ran, &past{}), "these ran twice")
}

func TestPast_NothingBeginsBeforeTheClockJumpedOverItsTime(t *testing.T) {
	p := &past{jumps: []jump{{between(10, 15), 20 * time.Second}, {between(16, 18), -9 * time.Second}}}
	for due, want := range map[float64]float64{5: 5, 12: 10, 29: 10, 33: 13, 36: 36} {
		if got := p.earliest(at(due)); !got.Equal(at(want)) {
			t.Errorf("what is due at %v may begin at %v, want %v", due, got.Sub(at(0)), want)
		}
	}
}

func TestPast_WhatRedisLostOfOtherPartitionsDoesNotConcernATask(t *testing.T) {
	p := &past{}
	p.addLoss(between(1, 2), partitionOf("s"))
	p.addLoss(between(3, 4), partitionOf("s")+1)
	p.addLoss(between(5, 6))
	own := p.of("s@20260102T030000Z")
	for seconds, want := range map[float64]bool{1.5: true, 3.5: false, 5.5: true} {
		if got := own.isLossy(between(seconds, seconds)); got != want {
			t.Errorf("what happened at %v is lost: %t, want %t", seconds, got, want)
		}
	}
}

func TestLocking_ALockIsSharedOnlyWhenItWasLost(t *testing.T) {
	shared := sharing{between(1, 2), 7, 8}
	for name, test := range map[string]struct {
		past *past
		want string
	}{
		"nothing happened":       {&past{}, "given to two at a time"},
		"lost writes":            {&past{lost: []loss{{span: between(0.5, 1.5)}}}, ""},
		"lost writes afterwards": {&past{lost: []loss{{span: between(3, 4)}}}, "given to two at a time"},
		"a jump":                 {&past{jumps: []jump{{between(1.5, 9), 9 * time.Second}}}, ""},
		"a jump back":            {&past{jumps: []jump{{between(0, 1.5), -9 * time.Second}}}, ""},
		"a jump before":          {&past{jumps: []jump{{between(-5, 0), 9 * time.Second}}}, "given to two at a time"},
	} {
		t.Run(name, func(t *testing.T) {
			l := locking{shared: []sharing{shared}}
			expect(t, l.judge(test.past), test.want)
		})
	}
}
