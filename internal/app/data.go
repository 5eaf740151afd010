package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// rejoin notes that this node has found itself missing from the list of nodes; lost says that Redis must have lost data.
func (a *App) rejoin(lost bool) {
	if lost {
		a.lost.Store(true)
	}
	select {
	case a.rejoined <- struct{}{}:
	default: // a check is due already
	}
}

// watchData checks, whenever this node was missing from the list of nodes, whether Redis has lost the data or has other data now, until ctx
// ends. In the second case it has everything that this node sends to Redis fail, and returns an error, which ends the node.
func (a *App) watchData(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.rejoined:
		}
		for {
			err := checkData(ctx, a.store, a.link, a.lost.Swap(false), a.o.Log, a.metrics.DataLost.Inc)
			if errors.Is(err, layout.ErrOther) {
				return err
			}
			if err == nil || clock.Sleep(ctx, connectPause) != nil {
				break
			}
		}
	}
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
	if errors.Is(err, layout.ErrOther) {
		log.Error("stopping, as nothing would be found where it is", "error", err)
		link.Sever(&task.Error{Code: task.CodeUnavailable, Message: "Redis holds other data than this node was started with: " + err.Error(), Err: err})
	}
	return err
}
