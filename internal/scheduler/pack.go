package scheduler

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/store/listing"
	"github.com/dts-sched/dts/internal/store/partition"
)

// packPause is between two rounds of packing of one node, of which each takes Redis some ms, in pieces.
const packPause = 5 * time.Millisecond

// pack keeps the index of lists, until ctx ends or the lease is over: at once, when it is woken, and at intervals.
func (t *term) pack(ctx context.Context) error {
	packer := t.s.o.Store.Listing.Packer(t.partition, t.held.Fence())
	for ctx.Err() == nil {
		more, err := t.packSome(ctx, packer)
		switch {
		case errors.Is(err, partition.ErrFenced):
			return err
		case err != nil:
			t.failed(ctx, "cannot pack the index of lists", err)
		case !more:
			t.awaitRows(ctx)
		}
	}
	return nil
}

// packSome does a round of packing, when it is the turn of this term.
func (t *term) packSome(ctx context.Context, packer *listing.Packer) (more bool, _ error) {
	select {
	case t.s.packing <- struct{}{}:
	case <-ctx.Done():
		return false, nil
	}
	defer func() { <-t.s.packing }()
	more, err := packer.Pack(ctx, t.s.hasOlder())
	if more {
		_ = clock.Sleep(ctx, packPause)
	}
	return more, err
}

func (t *term) awaitRows(ctx context.Context) {
	timer := time.NewTimer(t.s.pace.pack)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-t.s.rowWakes[t.partition]:
	}
}

// hasOlder reports whether nodes live of a release that notes no tasks for the index of lists.
func (s *Scheduler) hasOlder() bool {
	return slices.ContainsFunc(s.o.Members.View().Nodes, func(n cluster.Node) bool {
		return n.Via == "" && n.State != cluster.StateDead && !n.NotesRows
	})
}
