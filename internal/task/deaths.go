package task

import (
	"slices"
	"time"
)

// A task that runs while its worker dies may be the cause. These rules tell it from tasks that only ran beside it.
// ADR 32 has the reasons.
const (
	SuspectDeaths = 2                // early deaths in a row make a task a suspect: its next attempt waits for a turn
	PoisonDeaths  = 3                // so many end it, if its newest attempt had a turn
	EarlyDeath    = 10 * time.Second // a death is early if the attempt began at most so long before it
	TurnLength    = 15 * time.Second // between the begins of two suspects: EarlyDeath, and how inexact times of deaths are
	TurnsAhead    = 20 * time.Minute // turns are given for at most so long ahead
	TurnNotice    = time.Second      // and for at least so long, as one that has begun before it is recorded is no turn
)

// Deaths are the workers of a task that died in a row, each with the attempt that it ran.
type Deaths struct {
	Nodes []string // the newest first
	Early int      // how many of them, from the newest on, died early
	Turn  bool     // the newest attempt had a turn: it was not due as soon as the one before it had ended
}

// CountDeaths counts the deaths of the newest attempts in a row, since a client submitted or retried the task.
// attempts are those of the task, the oldest first, and the newest one has been lost. died reports whether the
// worker of a lost attempt died with it, and until when it lived at most.
func (t Task) CountDeaths(attempts []Attempt, died func(Attempt) (latest time.Time, ok bool)) Deaths {
	var d Deaths
	for _, a := range slices.Backward(attempts) {
		if a.Outcome != OutcomeLost || a.StartedAt.Before(t.firstDue()) {
			break
		}
		latest, ok := died(a)
		if !ok {
			break
		}
		if latest.Sub(a.StartedAt) <= EarlyDeath && d.Early == len(d.Nodes) {
			d.Early++
		}
		d.Nodes = append(d.Nodes, a.Node)
	}
	n := len(attempts)
	d.Turn = n > 1 && t.DueAt.After(attempts[n-2].FinishedAt)
	return d
}

// Repeated reports whether more than one worker died in a row.
func (d Deaths) Repeated() bool { return len(d.Nodes) >= SuspectDeaths }

// Suspect reports whether the next attempt must wait for a turn.
func (d Deaths) Suspect() bool { return d.Early >= SuspectDeaths }

// Poison reports whether the task ends, as it kills its workers. Suspects begin in turns, so it is the only one
// that began within EarlyDeath before the last death.
func (d Deaths) Poison() bool { return d.Early >= PoisonDeaths && d.Turn }

// NextTurn returns when a suspect may begin: the first turn that is TurnNotice away, and after the last one that this
// leader has given. Turns go round among the leaders; this one is number place, from 0. ok is false if the turn is
// more than TurnsAhead away.
func NextTurn(now, last time.Time, place, leaders int) (turn time.Time, ok bool) {
	length := TurnLength.Milliseconds()
	number := max(now.Add(TurnNotice).UnixMilli(), last.UnixMilli())/length + 1
	leader := int(number % int64(leaders))
	number += int64((place - leader + leaders) % leaders)
	turn = time.UnixMilli(number * length).UTC()
	return turn, turn.Sub(now) <= TurnsAhead
}
