// Package listing finds tasks: it keeps the index of lists in Redis (see package index), and reads lists with its
// help.
//
// A leader packs rows of the tasks that scripts have noted (Packer). A list with a filter searches the segments, and
// looks itself at what the index does not have: tasks that are noted, that are queued or run, and that are due and no
// leader has looked at. A list without a filter reads the sorted sets of the states.
package listing

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Listing reads lists of one installation.
type Listing struct {
	l     *layout.Layout
	tasks *tasks.Tasks

	mu    sync.Mutex
	known map[int]partIndex // by partition: what was read last
}

// New returns the lists of an installation.
func New(l *layout.Layout, t *tasks.Tasks) *Listing {
	return &Listing{l: l, tasks: t, known: make(map[int]partIndex)}
}

// partIndex is the index of a partition, without its rows.
type partIndex struct {
	revision int // 0: there is none
	built    string
	segments []index.Summary
}

const (
	allSegments = "*" // the field that says how far the index is built
)

// How far an index is built, if not as "<done> <of>", which are numbers of tasks.
const (
	builtAll     = "-"
	builtNothing = "0 0"
	builtLater   = "later" // while nodes of an earlier release live
)

// unbuilt returns how many of how many tasks the index has that is being built; 0 of 0 if it has all.
func (p partIndex) unbuilt() (done, of int) {
	if p.built == builtAll {
		return 0, 0
	}
	if _, err := fmt.Sscanf(p.built, "%d %d", &done, &of); err != nil {
		return 0, 1
	}
	return done, max(of, done, 1)
}

// Most of what a list looks at itself in each partition.
const (
	notedLooked = 1000
	headLooked  = 200
	busyLooked  = 1000
)

// part is what a list knows of a partition before it searches the index.
type part struct {
	partIndex
	number int
	refs   []string // tasks that the index may not have
	more   string   // which tasks the list may lack; "" for none
}

// readParts reads what lists of those partitions need. Error: CodeUnavailable.
func (x *Listing) readParts(ctx context.Context, numbers []int, waiting, busy bool) ([]part, error) {
	type asked struct {
		noted, queued, running *redis.StringSliceCmd
		head                   *redis.ZSliceCmd
	}
	pipe, all := x.l.DB.Pipeline(), make([]asked, len(numbers))
	for i, number := range numbers {
		k, a := x.l.Keys.Partition(number), &all[i]
		a.noted = pipe.LRange(ctx, string(k.ListedNew()), 0, notedLooked)
		if waiting {
			a.head = pipe.ZRangeWithScores(ctx, string(k.Wheel()), 0, headLooked-1)
		}
		if busy {
			a.queued = pipe.ZRevRange(ctx, string(k.Queued()), 0, busyLooked-1)
			a.running = pipe.ZRevRange(ctx, string(k.Running()), 0, busyLooked-1)
		}
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, layout.Unavailable(err)
	}
	parts := make([]part, len(numbers))
	for i, number := range numbers {
		p, a := part{number: number}, all[i]
		if noted := a.noted.Val(); len(noted) > 0 {
			p.revision, _ = strconv.Atoi(noted[0])
			p.refs = append(p.refs, noted[1:]...)
			if len(noted) > notedLooked {
				p.more = "some that were created or have ended lately"
			}
		}
		if waiting {
			p.addHead(a.head.Val(), clock.Now())
		}
		if busy {
			p.refs = append(append(p.refs, a.queued.Val()...), a.running.Val()...)
			if len(a.queued.Val()) == busyLooked || len(a.running.Val()) == busyLooked {
				p.more = "some that are queued or run"
			}
		}
		parts[i] = p
	}
	return parts, x.readSummaries(ctx, parts)
}

// addHead adds tasks that are due soon, or that are due and that no leader has looked at.
func (p *part) addHead(head []redis.Z, now time.Time) {
	for _, z := range head {
		if member, ok := z.Member.(string); ok {
			p.refs = append(p.refs, member)
		}
	}
	if n := len(head); n == headLooked && int64(head[n-1].Score) <= now.UnixMilli() {
		p.more = "some that are due and that no leader has looked at"
	}
}

// readSummaries completes parts of which the index has changed since it was read last. Error: CodeUnavailable.
func (x *Listing) readSummaries(ctx context.Context, parts []part) error {
	var changed []*part
	pipe := x.l.DB.Pipeline()
	var asked []*redis.MapStringStringCmd
	x.mu.Lock()
	for i := range parts {
		p := &parts[i]
		if known := x.known[p.number]; p.revision != 0 && known.revision == p.revision {
			p.partIndex = known
		} else if p.revision != 0 {
			changed = append(changed, p)
			asked = append(asked, pipe.HGetAll(ctx, string(x.l.Keys.Partition(p.number).Listed())))
		}
	}
	x.mu.Unlock()
	if len(changed) == 0 {
		return nil
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return layout.Unavailable(err)
	}
	for i, p := range changed {
		found, err := decodeIndex(asked[i].Val())
		if err != nil {
			return publicError(fmt.Errorf("partition %d: %w", p.number, err))
		}
		found.revision = p.revision
		p.partIndex = found
		x.mu.Lock()
		x.known[p.number] = found
		x.mu.Unlock()
	}
	return nil
}

func decodeIndex(fields map[string]string) (partIndex, error) {
	p := partIndex{built: fields[allSegments]}
	for name, text := range fields {
		if name == allSegments {
			continue
		}
		number, err := strconv.Atoi(name)
		if err != nil {
			return p, fmt.Errorf("%w: segment %q", index.ErrUnreadable, name)
		}
		summary, err := index.DecodeSummary(number, []byte(text))
		if err != nil {
			return p, err
		}
		p.segments = append(p.segments, summary)
	}
	return p, nil
}

// errReplaced says that a segment was replaced while a list was read.
var errReplaced = errors.New("the index has changed")

// field is that of a segment, in the hashes of its partition.
type field struct{ partition, segment int }

// readFields reads fields of the hashes of that key, in one round trip. One that does not exist is nil. Error:
// CodeUnavailable.
func readFields(
	ctx context.Context, l *layout.Layout, fields []field, key func(lua.Partition) string,
) ([][]byte, error) {
	names, places := make(map[int][]string), make(map[int][]int) // by partition
	for i, f := range fields {
		names[f.partition] = append(names[f.partition], strconv.Itoa(f.segment))
		places[f.partition] = append(places[f.partition], i)
	}
	pipe, asked := l.DB.Pipeline(), make(map[int]*redis.SliceCmd)
	for partition, some := range names {
		asked[partition] = pipe.HMGet(ctx, key(l.Keys.Partition(partition)), some...)
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, layout.Unavailable(err)
	}
	texts := make([][]byte, len(fields))
	for partition, cmd := range asked {
		for k, value := range cmd.Val() {
			if text, there := value.(string); there {
				texts[places[partition][k]] = []byte(text)
			}
		}
	}
	return texts, nil
}

// parseRefs returns the names of tasks, each once. It leaves out what is none.
func parseRefs(members []string) []task.Ref {
	refs := make([]task.Ref, 0, len(members))
	seen := make(map[string]bool, len(members))
	for _, member := range members {
		if ref, err := task.ParseRef(member); err == nil && !seen[member] {
			seen[member] = true
			refs = append(refs, ref)
		}
	}
	return refs
}
