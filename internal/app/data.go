package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// dataPause is App.dataPause, but in tests and where Redis is inside the process.
const dataPause = 20 * time.Second

// beatPoll is the time between two looks whether a heartbeat has been answered.
const beatPoll = 5 * time.Millisecond

// rejoin notes that this node has found itself missing from the list of nodes; see cluster.Options.
func (a *App) rejoin(forgotten, lately bool) {
	if forgotten {
		a.forgotten.Store(true)
		a.delisted.Store(lately)
	}
	select {
	case a.rejoined <- struct{}{}:
	default: // a check is due already
	}
}

// wentBack records that Redis has lost writes of this node. If only its entry on the list of nodes is missing, somebody
// may have deleted the list, unless Redis has restarted or failed over lately. The check of the data, which follows,
// tells.
func (a *App) wentBack(ctx context.Context, since, now time.Time, forgotten bool) {
	if !forgotten || a.store.MayHaveLost() {
		a.store.RecordLossBeside(ctx, string(a.store.Keys.Nodes()), since, now, "a heartbeat of this node")
	}
	a.rejoin(false, false) // the layout may have gone back as well
}

// watchData checks whether Redis has lost the data, or a part of what nodes share, or has other data now: whenever
// this node has joined the list of nodes, and regularly. It has the layout of the data move when the nodes on the
// list change, until ctx ends. If Redis has other data, it has everything that this node sends to Redis fail, and
// returns an error, which ends the node. It closes checked after the first check.
func (a *App) watchData(ctx context.Context) error {
	changed, stop := a.registry.Watch()
	defer stop()
	select {
	case <-ctx.Done():
		return nil
	case <-a.registry.Ready():
	}
	regularly := time.NewTicker(a.dataPause)
	defer regularly.Stop()
	joined, checked := true, a.checked
	for {
		err := a.lookAtData(ctx, joined)
		for err != nil && !errors.Is(err, layout.ErrOther) && clock.Sleep(ctx, connectPause) == nil {
			err = a.lookAtData(ctx, joined)
		}
		if errors.Is(err, layout.ErrOther) {
			return err
		}
		if checked != nil && err == nil {
			close(checked)
			checked = nil
		}
		a.markData(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-a.rejoined:
			joined = true
		case <-changed:
			joined = false
		case <-regularly.C:
			joined = false
		}
	}
}

// lookAtData checks the data, and then does its part in moving the layout. joined says that this node has joined the
// list of nodes. Errors: layout.ErrOther, after which the link is severed, or one of Redis.
func (a *App) lookAtData(ctx context.Context, joined bool) error {
	if joined {
		if err := a.store.Joined(ctx); err != nil {
			return err
		}
	}
	if err := a.checkData(ctx); err != nil {
		return err
	}
	err := a.store.Advance(ctx, a.members)
	refuseOther(a.link, a.o.Log, err)
	return err
}

// markData marks the partitions. Nothing waits for that, and nothing ends because it fails, as while a server of
// a cluster is away: the next look tries again.
func (a *App) markData(ctx context.Context) {
	if err := a.store.Mark(ctx); ctx.Err() == nil {
		a.findings.tellUnmarked(err)
	}
}

// checkData compares what is in Redis with what was opened, and says what is gone. Errors: as lookAtData.
func (a *App) checkData(ctx context.Context) error {
	forgotten, delisted := a.forgotten.Swap(false), a.delisted.Swap(false)
	found, err := a.store.Check(ctx, func(ctx context.Context) (bool, error) {
		forgotten = forgotten || a.isForgotten(ctx)
		return forgotten, ctx.Err()
	})
	if err != nil && !errors.Is(err, layout.ErrOther) {
		a.findings.tellGone(found, err)
		if forgotten {
			a.forgotten.Store(true) // for the next try
			a.delisted.Store(delisted)
		}
		return err
	}
	found.Lost = found.Lost || delisted && err != nil
	switch told := a.findings.tell(found); {
	case found.Lost:
		a.metrics.DataLost.Inc()
	case delisted && !told:
		a.o.Log.Warn("this node was missing from the list of nodes, " + string(a.store.Keys.Nodes()) +
			", and the data is there: it has registered again; somebody has deleted the list or the entry, " +
			"or Redis has evicted it")
	}
	refuseOther(a.link, a.o.Log, err)
	return err
}

// isForgotten reports whether Redis does not know this node any more, as its next heartbeat shows.
func (a *App) isForgotten(ctx context.Context) bool {
	before := a.registry.View().At
	a.registry.BeatNow()
	for a.registry.View().At.Equal(before) && clock.Sleep(ctx, beatPoll) == nil {
		continue
	}
	a.delisted.Store(false) // if it is set, so is the other, which says more
	return a.forgotten.Swap(false)
}

// members are the nodes on the list, and those that this node spares though they look dead, as after an outage of
// Redis.
func (a *App) members(ctx context.Context) ([]cluster.Node, error) {
	list, err := a.registry.Nodes(ctx)
	return append(list, a.registry.View().Nodes...), err
}

// findings says in the log what checks of the data have found. One goroutine uses it.
type findings struct {
	store    *store.Store
	log      *slog.Logger
	gone     bool // it has said that dts:meta is gone and cannot be written
	unmarked bool // it has said that partitions cannot be marked
}

// tell says loudly what is gone, and returns whether anything is.
func (f *findings) tell(found layout.Finding) bool {
	wasGone := f.gone
	f.gone = false
	switch {
	case found.Lost:
		f.log.Error("Redis has lost its data: tasks, schedules and locks are gone " +
			"(FLUSHALL, a restart without persistence, or another Redis)")
		f.store.NoteWipe()
	case len(found.Missing) > 0:
		f.log.Error(string(f.store.Keys.Meta())+" was gone, and the data is there: "+layout.WhatIsRight+
			"; this node wrote it again, as it was",
			"causes", layout.WhyGone, "fields", found.Missing, "partitions", f.store.Layout.Partitions())
	case wasGone:
		f.log.Warn(string(f.store.Keys.Meta()) + " is there again")
		return false
	default:
		return false
	}
	return true
}

// tellGone says once that dts:meta is gone, which the next check that does not fail ends. err is why this node cannot
// write it; nothing is said if nothing is missing.
func (f *findings) tellGone(found layout.Finding, err error) {
	if len(found.Missing) == 0 || f.gone {
		return
	}
	f.gone = true
	f.log.Error(string(f.store.Keys.Meta())+" is gone, and cannot be written: this node tries again",
		"causes", layout.WhyGone, "fields", found.Missing, "error", err)
}

// tellUnmarked says once that partitions cannot be marked because of err. nil says that they are.
func (f *findings) tellUnmarked(err error) {
	if err != nil && !f.unmarked {
		f.log.Warn("cannot mark all partitions, which tells lost data from a lost "+string(f.store.Keys.Meta())+
			": this node tries again", "error", err)
	}
	f.unmarked = err != nil
}

// refuseOther severs the link if the error says that Redis holds other data.
func refuseOther(link *redisx.Link, log *slog.Logger, err error) {
	if errors.Is(err, layout.ErrOther) {
		log.Error("stopping: Redis does not hold the data of this installation any more", "error", err)
		link.Sever(&task.Error{
			Code: task.CodeUnavailable, Err: err,
			Message: "Redis holds data of another installation, layout or number of partitions now",
		})
	}
}
