// Package listing finds tasks: it keeps the index of lists in Redis (see package index), and reads lists with its
// help.
//
// A leader packs rows of the tasks that scripts have noted (Packer). A list with a filter searches the segments. It
// also reads the tasks that the index does not have: those that are noted, those that are queued or run, and those that
// are due and not claimed yet. A list without a filter reads the sorted sets of the states.
package listing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/calls"
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

	mu       sync.Mutex
	known    map[int]partIndex // by partition: what was read last
	restless map[int]bool      // partitions whose index had changed when it was looked at last
	inVain   time.Time         // when a list waited for new leaders in vain
	told     time.Time         // the time that Redis told last
	toldAt   time.Time         // when that was, by the clock of this process
}

// New returns the lists of an installation.
func New(l *layout.Layout, t *tasks.Tasks) *Listing {
	return &Listing{l: l, tasks: t, known: make(map[int]partIndex), restless: make(map[int]bool)}
}

// partIndex is the index of a partition, without its rows.
type partIndex struct {
	revision int // 0: there is none
	built    string
	term     int // the token of the lease under which it was kept last
	segments []index.Summary
}

// Fields that are no segments.
const (
	builtField = "*" // how far the index is built
	termField  = "@" // the token of the lease under which it was kept last
)

// How far an index is built, if not as "<done> <of>", which are numbers of tasks.
const (
	builtAll     = "-"
	builtNothing = "0 0"
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
	headLooked  = 1000
	busyLooked  = 1000
)

// part is what a list knows of a partition before it searches the index.
type part struct {
	partIndex
	number int
	leader int      // the token of the lease under which a leader leads the partition, or did last
	refs   []string // tasks that the index may not have
	more   string   // which tasks the list may lack; "" for none
}

// readParts reads what lists of those partitions need. A task comes from the wheel into the queue, runs, and is noted
// at its end, or when it waits again. It is read in this order, so that a task that goes on meanwhile is found.
//
// Of the wheel, tasks are read that are due and that no leader has looked at: they may not be noted. The time of Redis
// is read meanwhile. If it is later than was thought, all is read again. Error: CodeUnavailable.
func (x *Listing) readParts(ctx context.Context, numbers []int, waiting, busy, noted bool) (parts []part, _ error) {
	r := reading{numbers: numbers, waiting: waiting, busy: busy, noted: noted, now: x.guessNow()}
	var now time.Time
	read := func() (err error) { parts, err = x.readDue(ctx, r); return err }
	var err error
	switch {
	case !waiting:
		err = read()
	case r.now.IsZero():
		now, err = x.readNow(ctx)
	default:
		err = calls.Try(read, func() (err error) { now, err = x.readNow(ctx); return err })
	}
	if err == nil && now.After(r.now) {
		r.now = now
		err = read()
	}
	return parts, err
}

// reading says what lists need of partitions.
type reading struct {
	numbers              []int
	waiting, busy, noted bool
	now                  time.Time // up to which tasks of the wheel are due
}

// readDue is readParts for a time of Redis. Error: CodeUnavailable.
func (x *Listing) readDue(ctx context.Context, r reading) ([]part, error) {
	pipe, all := x.l.DB.Pipeline(), make([]asked, len(r.numbers))
	for i, number := range r.numbers {
		all[i] = x.ask(ctx, pipe, number, r)
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, layout.Unavailable(err)
	}
	parts := make([]part, len(r.numbers))
	for i, number := range r.numbers {
		parts[i] = all[i].part(number)
	}
	return parts, x.readSummaries(ctx, parts, all)
}

// asked is what is asked of a partition. nil is not asked.
type asked struct {
	lease                         *redis.StringCmd
	wheel, queued, running, noted *redis.StringSliceCmd
	summaries                     *redis.MapStringStringCmd
}

// ask asks for what a reading needs of a partition.
func (x *Listing) ask(ctx context.Context, pipe redis.Pipeliner, number int, r reading) (a asked) {
	k := x.l.Keys.Partition(number)
	a.lease = pipe.Get(ctx, string(k.Lease()))
	if r.waiting {
		due := r.now
		if x.l.DB.Sharded() { // the clocks of other servers may be a second ahead
			due = due.Add(time.Second)
		}
		a.wheel = pipe.ZRangeByScore(ctx, string(k.Wheel()), &redis.ZRangeBy{
			Min: "-inf", Max: strconv.FormatInt(due.UnixMilli(), 10), Count: headLooked,
		})
	}
	if r.busy {
		a.queued = pipe.ZRevRange(ctx, string(k.Queued()), 0, busyLooked-1)
		a.running = pipe.ZRevRange(ctx, string(k.Running()), 0, busyLooked-1)
	}
	last := int64(0) // the first that is noted says which revision there is
	if r.noted {
		last = notedLooked
	}
	a.noted = pipe.LRange(ctx, string(k.ListedNew()), 0, last)
	if x.isRestless(number) {
		a.summaries = pipe.HGetAll(ctx, string(k.Listed()))
	}
	return a
}

// part is what the answers tell.
func (a asked) part(number int) part {
	p := part{number: number, leader: tokenOf(a.lease.Val())}
	p.add(a.wheel, headLooked, "some that are due and not claimed yet")
	p.add(a.queued, busyLooked, "some that are queued or run")
	p.add(a.running, busyLooked, "some that are queued or run")
	if noted := a.noted.Val(); len(noted) > 0 {
		p.revision, _ = strconv.Atoi(noted[0])
		p.refs = append(p.refs, noted[1:]...)
		if len(noted) > notedLooked {
			p.more = "some that were created or have ended lately"
		}
	}
	return p
}

// tokenOf is the token of a lease or a fence; 0 for none.
func tokenOf(fence string) int {
	text, _, _ := strings.Cut(fence, ":")
	token, _ := strconv.Atoi(text)
	return token
}

// isBehind reports whether the newest leader of the partition does not keep its index. A new leader needs a moment to
// take it over. One of an older release never does, so the index lacks what has changed since.
func (p part) isBehind() bool { return p.revision != 0 && p.term < p.leader }

const (
	enterPause = 10 * time.Millisecond // before the first look at what new leaders keep; then twice as long, ...
	enterAgain = time.Second           // how long lists do not wait for leaders after one has waited in vain
)

// readKept is readParts. While a new leader does not keep the index yet, it waits, but no longer than PageTime.
func (x *Listing) readKept(ctx context.Context, numbers []int, waiting, busy, noted bool) ([]part, error) {
	parts, err := x.readParts(ctx, numbers, waiting, busy, noted)
	behind := slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return !p.isBehind() })
	if err != nil || len(behind) == 0 || x.l.HasOlder() || !x.mayWait() {
		return parts, err
	}
	until := clock.Now().Add(x.l.PageTime)
	for pause := enterPause; clock.Until(until) > pause; pause *= 2 {
		if err := clock.Sleep(ctx, pause); err != nil {
			return nil, err
		}
		kept, err := x.areKept(ctx, behind)
		if kept || err != nil {
			x.waited(time.Time{})
			return x.readParts(ctx, numbers, waiting, busy, noted)
		}
	}
	x.waited(clock.Now())
	return parts, nil
}

// areKept reports whether the newest leaders of some partitions keep their indexes. Error: that of Redis.
func (x *Listing) areKept(ctx context.Context, parts []part) (bool, error) {
	pipe := x.l.DB.Pipeline()
	leases, terms := make([]*redis.StringCmd, len(parts)), make([]*redis.StringCmd, len(parts))
	for i, p := range parts {
		k := x.l.Keys.Partition(p.number)
		leases[i], terms[i] = pipe.Get(ctx, string(k.Lease())), pipe.HGet(ctx, string(k.Listed()), termField)
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return false, err
	}
	for i := range parts {
		if term, _ := terms[i].Int(); term < tokenOf(leases[i].Val()) {
			return false, nil
		}
	}
	return true, nil
}

// mayWait reports whether a list may wait for new leaders: none has waited in vain a moment ago.
func (x *Listing) mayWait() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return clock.Since(x.inVain) >= enterAgain
}

// waited notes when a list has waited in vain; the zero time: it has not.
func (x *Listing) waited(inVain time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.inVain = inVain
}

// clockMargin is by how much Redis's clock may be ahead of what is thought.
const clockMargin = 50 * time.Millisecond

// guessNow is a time that Redis's clock has not reached yet, as far as this process knows; zero if it knows nothing.
func (x *Listing) guessNow() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.told.IsZero() {
		return time.Time{}
	}
	return x.told.Add(clock.Since(x.toldAt) + clockMargin)
}

// readNow reads the time of Redis. Error: CodeUnavailable.
func (x *Listing) readNow(ctx context.Context) (time.Time, error) {
	now, err := x.l.Now(ctx, 0)
	if err == nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.told, x.toldAt = now, clock.Now()
	}
	return now, err
}

// add adds tasks that were asked for, of which at most limit were read. more says which there may be besides.
func (p *part) add(asked *redis.StringSliceCmd, limit int, more string) {
	if asked == nil {
		return
	}
	p.refs = append(p.refs, asked.Val()...)
	if len(asked.Val()) >= limit {
		p.more = more
	}
}

// readSummaries completes the parts whose index has changed since it was read last. Where it changes all the time, it
// has been asked for already. Error: CodeUnavailable.
func (x *Listing) readSummaries(ctx context.Context, parts []part, all []asked) error {
	var changed []int
	pipe := x.l.DB.Pipeline()
	for i := range parts {
		p := &parts[i]
		if p.revision == 0 || x.recall(p) {
			continue
		}
		changed = append(changed, i)
		if all[i].summaries == nil {
			all[i].summaries = pipe.HGetAll(ctx, string(x.l.Keys.Partition(p.number).Listed()))
		}
	}
	if pipe.Len() > 0 {
		if err := redisx.ExecReads(ctx, pipe); err != nil {
			return layout.Unavailable(err)
		}
	}
	for _, i := range changed {
		p := &parts[i]
		found, err := decodeIndex(all[i].summaries.Val())
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

// recall completes a part if its index is as it was read last.
func (x *Listing) recall(p *part) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	known := x.known[p.number]
	x.restless[p.number] = known.revision != p.revision
	if known.revision == p.revision {
		p.partIndex = known
	}
	return known.revision == p.revision
}

// isRestless reports whether the index of a partition changes all the time.
func (x *Listing) isRestless(number int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.restless[number]
}

func decodeIndex(fields map[string]string) (partIndex, error) {
	p := partIndex{built: fields[builtField]}
	p.term, _ = strconv.Atoi(fields[termField])
	for name, text := range fields {
		if name == builtField || name == termField {
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

// field is one of a hash of a partition.
type field struct {
	partition int
	name      string
}

// blockName is the field of a block of a segment.
func blockName(segment, place int) string { return fmt.Sprintf("%d.%d", segment, place) }

// readFields reads fields of the hashes of that key, in one round trip. One that does not exist is nil. Error:
// CodeUnavailable.
func readFields(
	ctx context.Context, l *layout.Layout, fields []field, key func(lua.Partition) string,
) ([][]byte, error) {
	names, places := make(map[int][]string), make(map[int][]int) // by partition
	for i, f := range fields {
		names[f.partition] = append(names[f.partition], f.name)
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
