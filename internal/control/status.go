package control

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/fresh"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/task"
)

const (
	statusPause    = 10 * time.Second       // between two statuses while nobody reads them
	statusInterval = time.Second            // between two that are read
	statusFresh    = 900 * time.Millisecond // the age up to which a status is shown as it is
	statusStale    = 2 * time.Second        // the age from which on readers wait for a newer one
	statusLimit    = 15 * time.Second       // the age from which on nobody seems to compute it
	statusLook     = 20 * time.Millisecond  // before the first look whether there is a newer one; then twice as long, ...
	statusLookMost = 160 * time.Millisecond // up to that
	statusLooks    = 5                      // after how many of them it is asked whether there can be one
	statusTimeout  = 2 * time.Second        // of reading or computing one
)

// statuses is what this node knows of the status.
type statuses struct {
	shown fresh.Value[status.Status] // to those who ask this node
	read  atomic.Bool                // somebody reads the statuses that this node computes for all

	// These are for the statuses that this node computes.
	nodes    fresh.Value[[]cluster.Node]
	queues   fresh.Value[[]string] // their names
	examined fresh.Value[status.Examination]
	past     fresh.Value[past]
	troubled fresh.Value[troubled]
	changed  changedSchedules
}

// shownRules bound how often this node reads the status for all of its viewers.
var shownRules = fresh.Rules{Lifetime: statusInterval, Limit: 4 * statusTimeout}

// GetStatus says whether the installation needs somebody. One node computes it for all; where none seems to, this one
// does. It is up to three seconds old: the one in Redis is up to two, and this node shows it for one more. While Redis
// does not answer, it says so. Error: that of ctx.
func (c *Control) GetStatus(ctx context.Context, who Caller) (status.Status, error) {
	if _, err := c.begin(ctx, who, "getStatus"); err != nil {
		return status.Status{}, err
	}
	found, _ := c.statuses.shown.Get(ctx, shownRules, func(ctx context.Context) (status.Status, error) {
		return c.findStatus(ctx), nil
	})
	return found, ctx.Err()
}

// findStatus reads the status, asks for a newer one if it is old, and computes one if no leader does, or can keep it.
// It waits only if the stored status is older than 2 s.
// If Redis does nothing for this node, or refuses it a right, this node computes one for its own viewers: others may
// fare better, and no leader be left to tell.
func (c *Control) findStatus(ctx context.Context) status.Status {
	reading, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	stored, text, err := c.readStatus(reading)
	limit := statusLimit
	if stored.StandIn { // no leader would hear who asks for another one
		limit = statusFresh
	}
	refused := c.store.DB.Link().Outage() != nil
	kept := err == nil && !refused && c.ageOf(reading, stored) < limit
	switch age := c.ageOf(reading, stored); {
	case kept && age > statusStale:
		stored, kept = c.newerStatus(reading, stored)
	case kept && age > statusFresh:
		_ = c.store.AskForStatus(reading) // the next reading tells if that fails
	}
	if kept {
		return stored
	}
	before := stored
	if own, _ := c.statuses.shown.Last(); own.At.After(before.At) {
		before = own
	}
	return c.standIn(ctx, before, text, err == nil && !refused)
}

// standIn computes the status as no leader does, and keeps it for the viewers of all nodes. It takes the place of the
// text that was read, and never that of a newer status: a leader may have come meanwhile.
func (c *Control) standIn(ctx context.Context, before status.Status, read string, readable bool) status.Status {
	found := c.judge(ctx, before, situation{alone: true, watched: true})
	found.StandIn = true
	text, err := json.Marshal(found)
	if err == nil && readable && c.nodes != nil && c.queues != nil { // who has neither knows too little
		writing, cancel := context.WithTimeout(ctx, statusTimeout)
		defer cancel()
		_ = c.store.ReplaceStatus(writing, read, string(text)) // if that fails, each node computes one for its viewers
	}
	return found
}

// ageOf is how old a status is, by the clock of Redis; it is very old if there is none.
func (c *Control) ageOf(ctx context.Context, s status.Status) time.Duration {
	return c.now(ctx, task.Ref{}).Sub(s.At)
}

// newerStatus asks for a newer status, and returns it as soon as it is there; the old one if none comes. kept is false
// if nobody can keep one, as Redis refuses writes.
func (c *Control) newerStatus(ctx context.Context, old status.Status) (_ status.Status, kept bool) {
	if c.store.AskForStatus(ctx) != nil {
		return old, true
	}
	pause := statusLook
	for looks := 1; clock.Sleep(ctx, pause) == nil; looks++ {
		pause = min(2*pause, statusLookMost)
		newer, _, err := c.readStatus(ctx)
		switch {
		case err != nil:
			return old, true
		case newer.At.After(old.At):
			return newer, true
		case looks == statusLooks && c.store.RefusesWrites(ctx, 0) != "":
			return old, false
		}
	}
	return old, true
}

// readStatus reads the status that one node has computed, and its text; the zero Status if there is none that can be
// read. Error: CodeUnavailable.
func (c *Control) readStatus(ctx context.Context) (s status.Status, text string, _ error) {
	text, err := c.store.ReadStatus(ctx)
	if err != nil || text == "" {
		return status.Status{}, "", err
	}
	if json.Unmarshal([]byte(text), &s) != nil { // as good as none
		s = status.Status{}
	}
	return s, text, nil
}

// keepStatus computes the status for all nodes, until ctx ends: each second while somebody reads it, else every ten.
func (c *Control) keepStatus(ctx context.Context, asked <-chan struct{}) {
	last, _, err := c.readStatus(ctx)
	if err != nil { // what this node knows is better than nothing
		last, _ = c.statuses.shown.Last()
	}
	for read := true; ctx.Err() == nil; {
		began := clock.Now()
		c.statuses.read.Store(read)
		last = c.judge(ctx, last, situation{watched: read})
		if text, err := json.Marshal(last); err == nil && ctx.Err() == nil {
			_ = c.store.WriteStatus(ctx, string(text)) // if that fails, each node finds out why by itself
		}
		pause := time.NewTimer(statusPause)
		select {
		case <-ctx.Done():
		case <-pause.C:
			read = false
		case <-asked:
			read = true
			_ = clock.Sleep(ctx, statusInterval-clock.Since(began))
		}
		pause.Stop()
	}
}

// situation is that in which this node computes a status.
type situation struct {
	alone   bool // no other node computes the status, so this one finds out why
	watched bool // somebody reads the status
}

// seldomAfter is the time between two readings of what does not change often while nobody reads the status.
const seldomAfter = time.Minute

// seldom are the rules for what is read for each status while somebody reads it, else once a minute.
func (s situation) seldom() fresh.Rules {
	if s.watched {
		return fresh.Rules{Limit: statusTimeout}
	}
	return fresh.Rules{Lifetime: seldomAfter, Retry: statusInterval, Limit: statusTimeout}
}

// judge computes the status from the one before it.
func (c *Control) judge(ctx context.Context, before status.Status, how situation) status.Status {
	f := c.statusFacts(ctx, how)
	f.Before = before
	f.Now = c.now(ctx, task.Ref{})
	return status.Judge(f)
}
