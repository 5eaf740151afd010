package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/listing"
	"github.com/dts-sched/dts/internal/store/partition"
)

// packPause is between two rounds of packing of one node. A round takes some ms of Redis, in pieces.
const packPause = 5 * time.Millisecond

// pack keeps the index of lists, until ctx ends or the lease is over: at once, when it is woken, and at intervals.
func (t *term) pack(ctx context.Context) error {
	packer := t.s.o.Store.Listing.Packer(t.partition, t.held.Fence())
	more, err := true, packer.Enter(ctx)
	for ; ctx.Err() == nil; more, err = t.packSome(ctx, packer) {
		switch {
		case errors.Is(err, partition.ErrFenced):
			return err
		case err != nil:
			t.failed(ctx, "cannot pack the index of lists", err)
		case !more:
			t.awaitRows(ctx, packer)
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
	more, err := packer.Pack(ctx)
	if more {
		_ = clock.Sleep(ctx, packPause)
	}
	return more, err
}

// awaitRows waits until there may be something to pack. While Redis may have lost writes, that is often: the index may
// have gone back.
func (t *term) awaitRows(ctx context.Context, packer *listing.Packer) {
	timer, lossy := time.NewTimer(packer.Rest(t.s.pace.pack)), time.NewTicker(t.s.pace.lossy)
	defer timer.Stop()
	defer lossy.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-lossy.C:
			if !t.s.o.Store.MayHaveLost() {
				continue
			}
		case <-t.s.rowWakes[t.partition]:
		case segments := <-t.s.staleRows[t.partition]:
			packer.Suspect(segments)
		}
		return
	}
}

// toldStale passes on which segments a list has found to be out of date. While others wait, a later list tells it.
func (s *Scheduler) toldStale(partition int, segments []int) {
	select {
	case s.staleRows[partition] <- segments:
	default:
	}
}
