package listing

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

func (p *Packer) tidyOrSweep(ctx context.Context) (bool, error) {
	if tidied, err := p.tidy(ctx); tidied || err != nil {
		return tidied, err
	}
	return p.sweep(ctx)
}

// tidy writes some segments anew if the plan says so, and reports whether it did.
func (p *Packer) tidy(ctx context.Context) (bool, error) {
	live, err := p.live(ctx)
	if err != nil {
		return false, err
	}
	now, err := p.l.Now(ctx, p.number)
	if err != nil {
		return false, err
	}
	plan := index.Plan(p.segments, live, now.UnixMilli())
	if some := p.suspects(); len(some) > 0 {
		plan = index.Rewrite{Segments: some, Before: math.MaxInt64}
	}
	if len(plan.Segments) == 0 {
		return false, nil
	}
	rows, err := rowsIn(ctx, p.l, p.number, plan.Segments)
	if errors.Is(err, index.ErrUnreadable) || errors.Is(err, errReplaced) { // their rows are lost
		return true, p.beginAnew(ctx, builtNothing)
	}
	if err != nil {
		return false, err
	}
	w := written{gone: plan.Segments, checked: now.UnixMilli()}
	if plan.Before > 0 {
		if rows, err = p.check(ctx, rows, plan.Before); err != nil {
			return false, err
		}
	} else {
		for _, s := range plan.Segments {
			w.checked = min(w.checked, s.Checked)
		}
	}
	return true, p.write(ctx, rows, w)
}

// Suspect has Pack look at all rows of segments of those numbers.
func (p *Packer) Suspect(segments []int) {
	if p.suspected == nil {
		p.suspected = make(map[int]bool)
	}
	for _, number := range segments {
		p.suspected[number] = true
	}
}

// suspects returns some of the segments that are suspected, which then are no longer.
func (p *Packer) suspects() (some []index.Summary) {
	for _, s := range p.segments {
		if p.suspected[s.Number] && len(some) < index.RewrittenTogether {
			some = append(some, s)
			delete(p.suspected, s.Number)
		}
	}
	if len(some) == 0 {
		clear(p.suspected) // they are gone
	}
	return some
}

// check leaves out the rows that do not agree with their tasks, of those that have ended or are due before a time.
func (p *Packer) check(ctx context.Context, rows []index.Row, before int64) ([]index.Row, error) {
	var kept, asked []index.Row
	for _, r := range rows {
		if r.Ended == 0 && r.Due >= before {
			kept = append(kept, r)
		} else {
			asked = append(asked, r)
		}
	}
	living, err := p.living(ctx, asked)
	return append(kept, living...), err
}

// live counts the tasks that wait, and those that have ended, if there are enough rows that it matters.
func (p *Packer) live(ctx context.Context) (index.Live, error) {
	rows := 0
	for _, s := range p.segments {
		rows += s.Rows
	}
	if rows <= index.SegmentRows {
		return index.Live{Waiting: rows, Ended: rows}, nil
	}
	pipe := p.l.DB.Pipeline()
	wheel, ended := pipe.ZCard(ctx, string(p.keys.Wheel())), pipe.ZCard(ctx, string(p.keys.Expiry()))
	if _, err := pipe.Exec(ctx); err != nil {
		return index.Live{}, layout.Unavailable(err)
	}
	ready, err := p.l.BacklogOf(ctx, []int{p.number})
	if err != nil {
		return index.Live{}, err
	}
	return index.Live{Waiting: int(wheel.Val()) + ready[p.number], Ended: int(ended.Val())}, nil
}

// living returns the rows that agree with their tasks.
func (p *Packer) living(ctx context.Context, rows []index.Row) (kept []index.Row, _ error) {
	for some := range slices.Chunk(rows, readAtOnce) {
		states, err := p.l.DB.HMGet(ctx, string(p.keys.States()), namesOf(some)...).Result()
		if err != nil {
			return nil, layout.Unavailable(err)
		}
		var waiting []task.Ref
		before := make(map[task.Ref]index.Row)
		for i, r := range some {
			t := task.Task{State: task.Scheduled}
			err := codec.DecodeState(&t, codec.Text(states[i]))
			switch {
			case err != nil: // it is damaged, which lists show
				kept = append(kept, r)
			case t.State != r.State: // it is gone, or has another row
			case r.Ended == 0:
				waiting, before[r.Ref] = append(waiting, r.Ref), r
			case t.FinishedAt.UnixMilli() == r.Ended:
				kept = append(kept, r)
			}
		}
		found, err := p.rows(ctx, waiting)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			old := before[r.Ref]
			switch {
			case r.State != task.Scheduled:
			case r.Damaged(): // the old row knows more than the task tells
				kept = append(kept, old)
			case r.Due == old.Due:
				kept = append(kept, r)
			}
		}
	}
	return kept, nil
}

// replaced is a segment that the index no longer has. Lists that began before may read its rows.
type replaced struct {
	number int
	since  time.Time
}

// replacedPages is how long the rows of a replaced segment stay, in times that a list may read for one page.
const replacedPages = 8

// sweptAtOnce is of how many segments one call deletes the rows.
const sweptAtOnce = 32

// sweep deletes rows of replaced segments, and reports whether it did. Each other write does so, too.
func (p *Packer) sweep(ctx context.Context) (bool, error) {
	if len(p.sweepable()) == 0 {
		return false, nil
	}
	return true, p.run(ctx, p.call(""))
}

// Rest is for how long there is nothing to pack if nobody says so, at most that long: until rows can be swept.
func (p *Packer) Rest(most time.Duration) time.Duration {
	if len(p.replaced) == 0 {
		return most
	}
	return max(min(most, replacedPages*p.l.PageTime-clock.Since(p.replaced[0].since)), 0)
}

// sweepable are some of the replaced segments that no list reads any more.
func (p *Packer) sweepable() (numbers []string) {
	for _, r := range p.replaced[:min(len(p.replaced), sweptAtOnce)] {
		if clock.Since(r.since) < replacedPages*p.l.PageTime {
			break
		}
		numbers = append(numbers, strconv.Itoa(r.number))
	}
	return numbers
}
