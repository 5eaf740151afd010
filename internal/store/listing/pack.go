package listing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// How much a round of packing reads.
const (
	notedPacked = 2048 // tasks that are noted
	builtAtOnce = 1024 // tasks of which the index is built
	readAtOnce  = 256  // tasks in one round trip: less than a ms of Redis
)

// Packer keeps the index of a partition that this node leads.
type Packer struct {
	l      *layout.Layout
	tasks  *tasks.Tasks
	number int
	keys   lua.Partition
	fence  lua.Fence

	partIndex
	cursor uint64 // where the build goes on
	done   int    // tasks that the build has come by
	builds bool   // this packer began the build that is not over
}

// Packer returns the packer of a partition, under the fence of its lease.
func (x *Listing) Packer(number int, fence lua.Fence) *Packer {
	return &Packer{l: x.l, tasks: x.tasks, number: number, keys: x.l.Keys.Partition(number), fence: fence}
}

// Pack makes the index of the partition a little better: it packs rows of the tasks that are noted, goes on with the
// build, and writes some segments anew. older: nodes of a release live that notes no tasks, so there can be no index;
// it is built when they are gone. more: there is more to do at once. Errors: partition.ErrFenced, or one of Redis.
func (p *Packer) Pack(ctx context.Context, older bool) (more bool, _ error) {
	more, err := p.pack(ctx, older)
	if errors.Is(err, errReplaced) {
		return true, nil
	}
	return more, err
}

func (p *Packer) pack(ctx context.Context, older bool) (more bool, _ error) {
	noted, err := p.l.DB.LRange(ctx, string(p.keys.ListedNew()), 0, notedPacked).Result()
	if err != nil {
		return false, layout.Unavailable(err)
	}
	if err := p.reload(ctx, noted); err != nil {
		return false, err
	}
	switch {
	case older && (p.revision == 0 || p.built != builtLater):
		return false, p.beginAnew(ctx, builtLater)
	case older:
		return false, nil
	case p.revision == 0 || p.built != builtAll && !p.builds:
		return true, p.beginAnew(ctx, builtNothing)
	}
	if len(noted) > 1 || p.builds {
		if err := p.add(ctx, parseRefs(noted[1:]), len(noted)-1); err != nil {
			return false, err
		}
	}
	tidied, err := p.tidy(ctx)
	return tidied || p.builds || len(noted) > notedPacked, err
}

// add packs the rows of noted tasks, of which it takes so many off the list, and of some that the build has come by.
func (p *Packer) add(ctx context.Context, refs []task.Ref, taken int) error {
	built := ""
	if p.builds {
		scanned, err := p.scan(ctx)
		if err != nil {
			p.builds = false // another server may answer next, whose cursors are others
			return err
		}
		refs, built = append(refs, scanned...), p.progress(ctx)
	}
	rows, err := p.rows(ctx, refs)
	if err != nil {
		return err
	}
	if err := p.write(ctx, rows, nil, taken, built); err != nil {
		return err
	}
	p.builds = p.builds && built != builtAll
	return nil
}

// reload reads the index if it is not as this packer left it. noted begins with its revision.
func (p *Packer) reload(ctx context.Context, noted []string) error {
	revision := 0
	if len(noted) > 0 {
		revision, _ = strconv.Atoi(noted[0])
	}
	if revision == p.revision {
		return nil
	}
	if revision == 0 {
		p.revision = 0
		return nil
	}
	fields, err := p.l.DB.HGetAll(ctx, string(p.keys.Listed())).Result()
	if err != nil {
		return layout.Unavailable(err)
	}
	p.builds = false
	p.partIndex, err = decodeIndex(fields)
	if err != nil {
		revision = 0 // nobody can read it: it begins anew
	}
	p.revision = revision
	return nil
}

// beginAnew begins to build the index from all tasks, or says that it is built later.
func (p *Packer) beginAnew(ctx context.Context, built string) error {
	p.partIndex, p.cursor, p.done = partIndex{}, 0, 0
	call := p.call(built)
	call.Revision = 0
	if err := p.run(ctx, call); err != nil {
		return err
	}
	p.built, p.builds = built, built != builtLater
	return nil
}

// scan returns the names of some tasks of which the build has not come by.
func (p *Packer) scan(ctx context.Context) (refs []task.Ref, _ error) {
	for len(refs) < builtAtOnce {
		fields, cursor, err := p.l.DB.HScan(ctx, string(p.keys.Defs()), p.cursor, "", readAtOnce).Result()
		if err != nil {
			return nil, layout.Unavailable(err)
		}
		for i := 0; i < len(fields); i += 2 {
			if ref, err := task.ParseRef(fields[i]); err == nil {
				refs = append(refs, ref)
			}
		}
		if p.cursor = cursor; cursor == 0 {
			return refs, nil
		}
	}
	return refs, nil
}

// progress is how far the index is built when the tasks are packed that were scanned.
func (p *Packer) progress(ctx context.Context) string {
	if p.cursor == 0 {
		return builtAll
	}
	p.done += builtAtOnce
	all, err := p.l.DB.HLen(ctx, string(p.keys.Defs())).Result()
	if err != nil {
		all = 0
	}
	return fmt.Sprintf("%d %d", p.done, max(int(all), p.done))
}

// rows returns the rows of those tasks that wait or have ended.
func (p *Packer) rows(ctx context.Context, refs []task.Ref) (rows []index.Row, _ error) {
	for some := range slices.Chunk(refs, readAtOnce) {
		found, err := rowsOf(ctx, p.l, p.tasks, some)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			if r.State == task.Scheduled || r.State.Final() {
				rows = append(rows, r)
			}
		}
	}
	return rows, nil
}

// write writes rows in new segments, in place of others and of so many tasks that are noted.
func (p *Packer) write(ctx context.Context, rows []index.Row, gone []index.Summary, taken int, built string) error {
	next := 1
	for _, s := range p.segments {
		next = max(next, s.Number+1)
	}
	var fresh []index.Summary
	call := p.call(built)
	call.Taken = taken
	for _, waits := range []bool{true, false} {
		for some := range slices.Chunk(selectRows(rows, waits), index.SegmentRows) {
			summary := index.Summarize(some)
			summary.Number = next
			fresh = append(fresh, summary)
			call.Segments = append(call.Segments, lua.PackRowsSegment{
				Number: strconv.Itoa(next), Summary: string(summary.Encode()),
				Rows: string(index.Encode(some)), Labels: string(index.EncodeLabels(some)),
			})
			next++
		}
	}
	removed := make(map[int]bool, len(gone))
	var numbers []string
	for _, s := range gone {
		removed[s.Number] = true
		numbers = append(numbers, strconv.Itoa(s.Number))
	}
	call.Gone = strings.Join(numbers, " ")
	if err := p.run(ctx, call); err != nil {
		return err
	}
	p.segments = append(slices.DeleteFunc(p.segments, func(s index.Summary) bool { return removed[s.Number] }), fresh...)
	p.built = cmp.Or(built, p.built)
	return nil
}

// selectRows returns the rows of tasks that wait, or of those that have ended, sorted as segments are.
func selectRows(rows []index.Row, waits bool) []index.Row {
	var selected []index.Row
	for _, r := range rows {
		if (r.Ended == 0) == waits {
			selected = append(selected, r)
		}
	}
	return index.Order{}.Best(selected, 0)
}

// call is a call of the script that changes nothing but how far the index is built.
func (p *Packer) call(built string) lua.PackRows {
	return lua.PackRows{
		Lease: p.keys.Lease(), Listed: p.keys.Listed(), Fence: p.fence, Revision: p.revision, Built: built,
		Taken: 0, Gone: "", Segments: nil,
	}
}

func (p *Packer) run(ctx context.Context, call lua.PackRows) error {
	reply, err := redisx.Run(ctx, p.l.DB, call)
	switch {
	case redisx.RefusedWith(err, lua.CodeFenced):
		return fmt.Errorf("%w: %w", partition.ErrFenced, err)
	case redisx.RefusedWith(err, lua.CodeChanged): // by a call whose reply was lost
		p.revision = -1 // which none is
		return errReplaced
	case err != nil:
		return err
	}
	p.revision = reply.Revision
	return nil
}

// tidy writes some segments anew if the plan says so, and reports whether it did.
func (p *Packer) tidy(ctx context.Context) (bool, error) {
	live, err := p.live(ctx)
	if err != nil {
		return false, err
	}
	plan, checks := index.Plan(p.segments, live)
	if len(plan) == 0 {
		return false, nil
	}
	wanted := make([]field, len(plan))
	for i, s := range plan {
		wanted[i] = field{p.number, s.Number}
	}
	texts, err := readFields(ctx, p.l, wanted, func(k lua.Partition) string { return string(k.ListedRows()) })
	if err != nil {
		return false, err
	}
	var rows []index.Row
	for _, text := range texts {
		for r, err := range index.Rows(text, index.Filter{}) {
			if err != nil {
				return true, p.beginAnew(ctx, builtNothing) // nobody can read it
			}
			rows = append(rows, r)
		}
	}
	if checks {
		if rows, err = p.living(ctx, rows); err != nil {
			return false, err
		}
	}
	return true, p.write(ctx, rows, plan, 0, "")
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
		members := make([]string, len(some))
		for i, r := range some {
			members[i] = r.Ref.String()
		}
		states, err := p.l.DB.HMGet(ctx, string(p.keys.States()), members...).Result()
		if err != nil {
			return nil, layout.Unavailable(err)
		}
		var waiting []task.Ref
		due := make(map[task.Ref]int64)
		for i, r := range some {
			t := task.Task{State: task.Scheduled}
			err := codec.DecodeState(&t, codec.Text(states[i]))
			switch {
			case err != nil || t.State != r.State: // it is gone, or has another row
			case r.Ended == 0:
				waiting, due[r.Ref] = append(waiting, r.Ref), r.Due
			case t.FinishedAt.UnixMilli() == r.Ended:
				kept = append(kept, r)
			}
		}
		found, err := p.rows(ctx, waiting)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			if r.State == task.Scheduled && r.Due == due[r.Ref] {
				kept = append(kept, r)
			}
		}
	}
	return kept, nil
}
