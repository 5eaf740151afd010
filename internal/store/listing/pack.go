package listing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// How much a round of packing reads.
const (
	notedPacked = 2048 // tasks that are noted
	builtAtOnce = 1024 // tasks that the build reads
	readAtOnce  = 256  // tasks in one round trip: less than a ms of Redis
)

// Packer keeps the index of a partition that this node leads.
type Packer struct {
	*Listing
	number int
	keys   lua.Partition
	fence  lua.Fence
	token  int // of the fence

	partIndex
	cursor uint64 // where the build goes on
	done   int    // tasks that the build has read
	builds bool   // this packer began the build that is not over
	lost   int64  // until when Redis has lost writes, in ms
	begun  int64  // lost, when this packer began the index anew

	suspected map[int]bool // segments that seem to have many rows that are out of date
	replaced  []replaced   // segments whose rows are still there, the oldest first
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

// Packer returns the packer of a partition, under the fence of its lease.
func (x *Listing) Packer(number int, fence lua.Fence) *Packer {
	return &Packer{
		Listing: x, number: number, keys: x.l.Keys.Partition(number), fence: fence, token: tokenOf(string(fence)),
	}
}

// Enter says that this leader keeps the index, so that the next one goes on with it. Errors: as those of Pack.
func (p *Packer) Enter(ctx context.Context) error {
	noted, err := p.l.DB.LRange(ctx, string(p.keys.ListedNew()), 0, 0).Result()
	if err != nil {
		return layout.Unavailable(err)
	}
	if err := p.reload(ctx, noted); err != nil || p.revision == 0 || p.term == p.token {
		return err
	}
	if err := p.run(ctx, p.call("")); !errors.Is(err, errReplaced) {
		return err
	}
	return nil
}

// Pack does a part of the work on the index of the partition. It packs rows of the tasks that are noted, goes on with
// the build, and writes some segments anew. While nodes live that note no tasks, there is no index; it is built when
// they are gone. more: there is more to do at once. Errors: partition.ErrFenced, or one of Redis.
func (p *Packer) Pack(ctx context.Context) (more bool, _ error) {
	more, err := p.pack(ctx)
	if errors.Is(err, errReplaced) {
		return true, nil
	}
	return more, err
}

func (p *Packer) pack(ctx context.Context) (more bool, _ error) {
	noted, err := p.l.DB.LRange(ctx, string(p.keys.ListedNew()), 0, notedPacked).Result()
	if err != nil {
		return false, layout.Unavailable(err)
	}
	if err := p.reload(ctx, noted); err != nil {
		return false, err
	}
	switch older := p.l.HasOlder(); {
	case older && len(noted) == 0:
		return false, nil
	case older:
		return false, p.beginAnew(ctx, "")
	case p.revision == 0 || p.built != builtAll && !p.builds:
		return true, p.beginAnew(ctx, builtNothing)
	}
	if len(noted) > 1 || p.builds || p.term != p.token { // Enter may have failed
		if err := p.add(ctx, parseRefs(noted[1:]), len(noted)-1); err != nil {
			return false, err
		}
	}
	tidied, err := p.tidyOrSweep(ctx)
	return tidied || p.builds || len(noted) > notedPacked, err
}

func (p *Packer) tidyOrSweep(ctx context.Context) (bool, error) {
	if tidied, err := p.tidy(ctx); tidied || err != nil {
		return tidied, err
	}
	return p.sweep(ctx)
}

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

// findReplaced reads which segments have rows but are not in the index: a leader before may have left them.
func (p *Packer) findReplaced(ctx context.Context) error {
	names, err := p.l.DB.HKeys(ctx, string(p.keys.ListedRows())).Result()
	if err != nil {
		return layout.Unavailable(err)
	}
	seen := make(map[int]bool, len(p.segments))
	for _, s := range p.segments {
		seen[s.Number] = true
	}
	p.replaced = nil
	for _, name := range names {
		text, _, _ := strings.Cut(name, ".")
		if number, err := strconv.Atoi(text); err == nil && !seen[number] {
			seen[number] = true
			p.replaced = append(p.replaced, replaced{number, clock.Now()})
		}
	}
	return nil
}

// add packs the rows of noted tasks, and of some that the build reads. It takes so many names off the list of noted
// ones.
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
	if err := p.write(ctx, rows, written{taken: taken, built: built}); err != nil {
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
	switch {
	case revision == p.revision && p.l.MayHaveLost():
		return p.forgetLost(ctx)
	case revision == p.revision:
		return nil
	case revision == 0:
		p.partIndex, p.replaced = partIndex{}, nil
		return nil
	}
	fields, err := p.l.DB.HGetAll(ctx, string(p.keys.Listed())).Result()
	if err != nil {
		return layout.Unavailable(err)
	}
	p.builds = false
	p.partIndex, err = decodeIndex(fields)
	p.revision = revision
	if err != nil || p.term != p.token && p.term != p.token-1 {
		// Nobody can read it, or a leader came between that kept no index, as one of an earlier release: it begins anew.
		p.partIndex = partIndex{}
	}
	if err := p.forgetLost(ctx); err != nil {
		return err
	}
	return p.findReplaced(ctx)
}

// forgetLost forgets the index if Redis has lost writes since it was begun, so that it begins anew: a leader may have
// read notes that Redis lost, and have packed others. The revision of an index is at least the time of its beginning.
func (p *Packer) forgetLost(ctx context.Context) error {
	losses, err := p.l.Losses(ctx, p.number)
	if err != nil {
		return err
	}
	for _, l := range losses {
		p.lost = max(p.lost, l.Until.UnixMilli())
	}
	if p.lost > max(int64(p.revision), p.begun) {
		p.partIndex, p.builds = partIndex{}, false
	}
	return nil
}

// beginAnew begins to build the index from all tasks. built is how much is built; "" removes the index.
func (p *Packer) beginAnew(ctx context.Context, built string) error {
	p.partIndex, p.cursor, p.done = partIndex{}, 0, 0
	call := p.call(built)
	call.Revision = 0
	if err := p.run(ctx, call); err != nil {
		return err
	}
	p.begun = p.lost
	p.built, p.builds, p.term, p.replaced = built, built != "", p.token, nil
	return nil
}

// scan returns the names of some tasks that the build has not read yet.
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
		found, err := rowsOf(ctx, p.l, p.tasks, some, true)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			if hasRow(r.State) || r.State == task.Unreadable {
				rows = append(rows, r)
			}
		}
	}
	return rows, nil
}

// hasRow reports whether tasks in a state have a row.
func hasRow(s task.State) bool { return s == task.Scheduled || s.Final() }

// written is what is written besides new segments.
type written struct {
	gone    []index.Summary // segments that they replace
	taken   int             // noted tasks that are packed
	built   string          // how far the index is built; "" as before
	checked int64           // when rows of tasks that were due were compared with these; 0: never
}

// write writes rows in new segments. Errors: errReplaced, partition.ErrFenced, or one of Redis.
func (p *Packer) write(ctx context.Context, rows []index.Row, w written) error {
	next := 1
	for _, s := range p.segments {
		next = max(next, s.Number+1)
	}
	for _, r := range p.replaced {
		next = max(next, r.number+1)
	}
	var fresh []index.Summary
	call := p.call(w.built)
	call.Taken = w.taken
	for _, waits := range []bool{true, false} {
		for some := range index.Segments(selectRows(rows, waits)) {
			summary, blocks := index.Pack(some)
			summary.Number, summary.Checked = next, w.checked
			fresh = append(fresh, summary)
			call.Blocks = append(call.Blocks, blocksOf(summary, blocks, some)...)
			next++
		}
	}
	removed := make(map[int]bool, len(w.gone))
	var numbers []string
	var left []replaced
	for _, s := range w.gone {
		removed[s.Number] = true
		numbers = append(numbers, strconv.Itoa(s.Number))
		left = append(left, replaced{s.Number, clock.Now()})
	}
	call.Gone = strings.Join(numbers, " ")
	if err := p.run(ctx, call); err != nil {
		return err
	}
	p.segments = append(slices.DeleteFunc(p.segments, func(s index.Summary) bool { return removed[s.Number] }), fresh...)
	p.replaced = append(p.replaced, left...)
	p.built = cmp.Or(w.built, p.built)
	return nil
}

// blocksOf are the blocks of a segment as the script takes them.
func blocksOf(summary index.Summary, blocks [][]byte, rows []index.Row) []lua.PackRowsBlock {
	all := make([]lua.PackRowsBlock, len(blocks))
	for place, text := range blocks {
		all[place] = lua.PackRowsBlock{
			Segment: strconv.Itoa(summary.Number), Place: strconv.Itoa(place), Rows: string(text), Summary: "", Labels: "",
		}
	}
	all[0].Summary, all[0].Labels = string(summary.Encode()), string(index.EncodeLabels(rows))
	return all
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
		Taken: 0, Gone: "", Swept: strings.Join(p.sweepable(), " "), Blocks: nil,
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
	p.revision, p.term = reply.Revision, p.token
	p.replaced = p.replaced[min(len(strings.Fields(call.Swept)), len(p.replaced)):]
	return nil
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
