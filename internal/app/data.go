package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// rejoin notes that this node has found itself missing from the list of nodes; lost says that Redis must have lost data.
func (a *App) rejoin(lost bool) {
	if lost {
		a.dataLost.Store(true)
	}
	select {
	case a.rejoined <- struct{}{}:
	default: // a check is due already
	}
}

// watchData checks, whenever this node has joined the list of nodes, whether Redis has lost the data or has other data now, and has the layout
// of the data move when the nodes on the list change, until ctx ends. If Redis has other data, it has everything that this node sends to Redis
// fail, and returns an error, which ends the node. It closes checked after the first check.
func (a *App) watchData(ctx context.Context) error {
	changed, stop := a.registry.Watch()
	defer stop()
	select {
	case <-ctx.Done():
		return nil
	case <-a.registry.Ready():
	}
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
		select {
		case <-ctx.Done():
			return nil
		case <-a.rejoined:
			joined = true
		case <-changed:
			joined = false
		}
	}
}

// lookAtData checks the data if this node has joined the list, and then does its part in moving the layout. Errors: layout.ErrOther, after
// which the link is severed, or one of Redis.
func (a *App) lookAtData(ctx context.Context, joined bool) error {
	if joined {
		if err := a.store.Joined(ctx); err != nil {
			return err
		}
		if err := checkData(ctx, a.store, a.link, a.dataLost.Swap(false), a.o.Log, a.metrics.DataLost.Inc); err != nil {
			return err
		}
	}
	err := a.store.Advance(ctx, a.members)
	refuseOther(a.link, a.o.Log, err)
	return err
}

// members are the nodes on the list, and those that this node spares though they look dead, as after an outage of Redis.
func (a *App) members(ctx context.Context) ([]cluster.Node, error) {
	list, err := a.registry.Nodes(ctx)
	return append(list, a.registry.View().Nodes...), err
}

// checkData compares what is in Redis with what was opened, and says loudly if Redis has lost the data, as the caller may know already.
// Errors: layout.ErrOther, after which the link is severed, or one of Redis.
func checkData(ctx context.Context, s *store.Store, link *redisx.Link, lost bool, log *slog.Logger, count func()) error {
	gone, err := s.Check(ctx)
	if lost || gone {
		log.Error("Redis has lost its data: tasks, schedules and locks are gone (FLUSHALL, a restart without persistence, or another Redis)")
		s.NoteWipe()
		count()
	}
	if gone {
		log.Warn("wrote " + string(s.Keys.Meta()) + " again, as it was")
	}
	refuseOther(link, log, err)
	return err
}

// refuseOther severs the link if the error says that Redis holds other data.
func refuseOther(link *redisx.Link, log *slog.Logger, err error) {
	if errors.Is(err, layout.ErrOther) {
		log.Error("stopping: Redis does not hold the data of this installation any more", "error", err)
		link.Sever(&task.Error{Code: task.CodeUnavailable, Message: "Redis holds data of another installation, layout or number of partitions now", Err: err})
	}
}
