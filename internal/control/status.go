package control

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/task"
)

const (
	statusPause    = 10 * time.Second       // between two statuses while nobody reads them
	statusInterval = time.Second            // between two that are read
	statusFresh    = 900 * time.Millisecond // the age up to which a status is shown as it is
	statusLimit    = 15 * time.Second       // the age from which on nobody seems to compute it
	statusLook     = 100 * time.Millisecond // between two looks whether there is a newer one
	statusTimeout  = 2 * time.Second        // of reading or computing one
)

// statuses is the status that this node has read last.
type statuses struct {
	asking singleflight.Group
	mu     sync.Mutex
	last   status.Status
	readAt time.Time // by the clock of this process

	// These are for the statuses that this node computes.
	schedules troubledSchedules
	nodes     seldom[[]cluster.Node]
	queues    seldom[[]string] // their names
	examined  seldom[status.Examination]
	past      seldom[past]
}

// GetStatus says whether the installation needs somebody. One node computes it for all; where none seems to, this one
// does. It is about a second old. While Redis does not answer, it says so. Error: that of ctx.
func (c *Control) GetStatus(ctx context.Context, who Caller) (status.Status, error) {
	if _, err := c.begin(ctx, who, "getStatus"); err != nil {
		return status.Status{}, err
	}
	if known, ok := c.statuses.known(); ok {
		return known, nil
	}
	answer := c.statuses.asking.DoChan("", func() (any, error) {
		found := c.findStatus(context.WithoutCancel(ctx)) // others wait for it, too
		c.statuses.keep(found)
		return found, nil
	})
	select {
	case <-ctx.Done():
		return status.Status{}, ctx.Err()
	case found := <-answer:
		return found.Val.(status.Status), nil
	}
}

// known returns what was read less than a second ago; ok is false if there is no such status.
func (s *statuses) known() (_ status.Status, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, !s.readAt.IsZero() && clock.Since(s.readAt) < statusInterval
}

// newest returns what was read or computed last.
func (s *statuses) newest() status.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

func (s *statuses) keep(found status.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.readAt = found, clock.Now()
}

// findStatus reads the status, waits for a newer one if it is old, and computes one if nobody else does.
func (c *Control) findStatus(ctx context.Context) status.Status {
	reading, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	stored, err := c.readStatus(reading)
	if err == nil && c.ageOf(reading, stored) > statusFresh && c.ageOf(reading, stored) < statusLimit {
		stored = c.newerStatus(reading, stored)
	}
	if err == nil && c.ageOf(reading, stored) < statusLimit {
		return stored
	}
	before := stored
	if own := c.statuses.newest(); own.At.After(before.At) {
		before = own
	}
	return c.judge(ctx, before, look{closely: true, lately: true})
}

// ageOf is how old a status is, by the clock of Redis; it is very old if there is none.
func (c *Control) ageOf(ctx context.Context, s status.Status) time.Duration {
	return c.now(ctx, task.Ref{}).Sub(s.At)
}

// newerStatus asks for a newer status, and returns it as soon as it is there; the old one if none comes.
func (c *Control) newerStatus(ctx context.Context, old status.Status) status.Status {
	if c.store.AskForStatus(ctx) != nil {
		return old
	}
	for clock.Sleep(ctx, statusLook) == nil {
		newer, err := c.readStatus(ctx)
		if err != nil {
			return old
		}
		if newer.At.After(old.At) {
			return newer
		}
	}
	return old
}

// readStatus reads the status that one node has computed; the zero Status if there is none that can be read. Error:
// CodeUnavailable.
func (c *Control) readStatus(ctx context.Context) (s status.Status, _ error) {
	text, err := c.store.ReadStatus(ctx)
	if err != nil || text == "" {
		return status.Status{}, err
	}
	if json.Unmarshal([]byte(text), &s) != nil { // as good as none
		s = status.Status{}
	}
	return s, nil
}

// keepStatus computes the status for all nodes, until ctx ends: each second while somebody reads it, else every ten.
func (c *Control) keepStatus(ctx context.Context, asked <-chan struct{}) {
	last, err := c.readStatus(ctx)
	if err != nil { // what this node knows is better than nothing
		last = c.statuses.newest()
	}
	for read := true; ctx.Err() == nil; {
		began := clock.Now()
		last = c.judge(ctx, last, look{lately: read})
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

// look says how to look at the installation.
type look struct {
	closely bool // no other node computes the status, so this one finds out why
	lately  bool // somebody reads the status
}

// judge computes the status from the one before it.
func (c *Control) judge(ctx context.Context, before status.Status, how look) status.Status {
	f := c.statusFacts(ctx, how)
	f.Before = before
	f.Now = c.now(ctx, task.Ref{})
	return status.Judge(f)
}
