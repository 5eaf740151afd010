package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/store/listing"
	"github.com/dts-sched/dts/internal/task"
)

// listIndex is the check whether lists with a filter find all tasks.
const listIndex = "list-index"

const (
	listedPage   = 256             // tasks that are compared with the index in one round trip
	unpackedMany = 1000            // so many noted tasks that lists may lack some of them
	packerRests  = 2 * time.Second // a leader that packs nothing for so long while there are many has stopped
)

// listed compares the index of lists with the tasks of a partition. Each request reads the whole index before it looks
// at tasks.
func (e *examination) listed(p int) collection {
	var c *listing.Comparison
	var now time.Time
	look := func(ctx context.Context, from uint64) (_ []collection, next uint64, err error) {
		if c == nil {
			if now, err = e.o.Layout.Now(ctx, p); err != nil {
				return nil, 0, err
			}
			if c, err = e.o.Listing.Compare(ctx, p, e.rest); err == nil {
				err = e.judgePacker(ctx, p, c)
			}
			if err != nil || c.Missing != "" {
				return nil, 0, e.unlistable(ctx, p, err)
			}
		}
		names, next, err := e.page(ctx, e.o.Layout.DB.HScan, string(e.o.Layout.Keys.Partition(p).Defs()), from, listedPage)
		if err != nil {
			return nil, 0, err
		}
		lacks, err := e.compareTasks(ctx, c, names, now)
		switch {
		case err != nil || c.Missing != "":
			return nil, 0, e.unlistable(ctx, p, err)
		case lacks && e.Repair:
			return nil, 0, e.o.Listing.BeginAnew(ctx, p) // of all other tasks, too
		}
		return nil, next, nil
	}
	return collection{name: "tasks in lists", checks: []string{listIndex}, look: look}
}

// compareTasks looks whether lists find tasks, and reports whether they lack one.
func (e *examination) compareTasks(
	ctx context.Context, c *listing.Comparison, names []string, now time.Time,
) (lacks bool, _ error) {
	var refs []task.Ref
	for _, name := range names {
		if ref, err := task.ParseRef(name); err == nil { // others are of no list
			refs = append(refs, ref)
		}
	}
	lacking, err := c.Lacking(ctx, refs, now)
	if err != nil {
		return false, err
	}
	e.looked(len(refs), listIndex)
	for _, r := range lacking {
		e.found(listIndex, r.Ref.String(), fmt.Sprintf("is %s, and has no row in the index of lists", r.State))
	}
	return len(lacking) > 0, nil
}

// judgePacker looks whether the leader keeps the index in order. It looks twice if much is noted.
func (e *examination) judgePacker(ctx context.Context, p int, c *listing.Comparison) error {
	if c.Scattered {
		e.found(byHand+listIndex, partitionName(p), "has more segments in its index of lists than a leader leaves")
	}
	if c.Noted < unpackedMany {
		return nil
	}
	revision := c.Revision
	err := clock.Sleep(ctx, packerRests)
	e.rested = clock.Now()
	if err == nil {
		err = c.Update(ctx)
	}
	if err == nil && c.Revision == revision && c.Noted >= unpackedMany {
		words := fmt.Sprintf("has %d tasks that its leader does not pack for lists", c.Noted)
		e.found(byHand+listIndex, partitionName(p), words)
	}
	return err
}

// unlistable says why the tasks of a partition cannot be compared with the index of lists. err is nil if the index is
// not whole; else it cannot be read, or is returned.
func (e *examination) unlistable(ctx context.Context, p int, err error) error {
	if errors.Is(err, index.ErrUnreadable) {
		e.found(listIndex, partitionName(p), "has an index of lists that cannot be read: "+err.Error())
		if e.Repair {
			return e.o.Listing.BeginAnew(ctx, p)
		}
		return nil
	}
	if err != nil {
		return err
	}
	missing, err := e.o.Listing.Missing(ctx)
	if r := e.results[listIndex]; err == nil && missing != "" && r.Found == 0 {
		r.Detail, r.Severity = "lists with a filter lack "+missing, worse(r.Severity, Note)
	}
	return err
}
