package listing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/redisx"
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
