package listing

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const (
	comparedSegments = 8           // whose rows a comparison reads at once, of about 90 kB each
	leaderComes      = time.Minute // after a task is due, its leader has looked at it
)

// Comparison compares the index of a partition with its tasks, for doctor. It reads the rows of all segments once, and
// keeps a hash of each.
type Comparison struct {
	x      *Listing
	number int
	keys   lua.Partition
	pause  func(context.Context) error
	seed   maphash.Seed
	rows   map[uint64]bool
	read   map[string]bool // the summaries of the segments that were read

	Missing   string // which tasks lists may lack, as the index is not whole; "" if it is
	Revision  int
	Noted     int  // tasks that no leader has packed
	Scattered bool // there are more segments than a leader leaves
}

// Compare begins a comparison. pause is called between two reads. Errors: CodeUnavailable; index.ErrUnreadable.
func (x *Listing) Compare(ctx context.Context, number int, pause func(context.Context) error) (*Comparison, error) {
	c := &Comparison{
		x: x, number: number, keys: x.l.Keys.Partition(number), pause: pause, seed: maphash.MakeSeed(),
		rows: make(map[uint64]bool), read: make(map[string]bool),
	}
	return c, c.Update(ctx)
}

// Update reads the state of the index, and the rows that are new. Without a whole index, it reads no rows. Errors:
// CodeUnavailable; index.ErrUnreadable.
func (c *Comparison) Update(ctx context.Context) error {
	for range searchTries {
		err := c.update(ctx)
		if !errors.Is(err, errReplaced) {
			return err
		}
	}
	return fmt.Errorf("%w: rows of a segment are missing", index.ErrUnreadable)
}

func (c *Comparison) update(ctx context.Context) error {
	pipe := c.x.l.DB.ReadTogether()
	first, noted := pipe.LIndex(ctx, string(c.keys.ListedNew()), 0), pipe.LLen(ctx, string(c.keys.ListedNew()))
	fields, lease := pipe.HGetAll(ctx, string(c.keys.Listed())), pipe.Get(ctx, string(c.keys.Lease()))
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return layout.Unavailable(err)
	}
	p := part{number: c.number, leader: tokenOf(lease.Val())}
	if noted.Val() > 0 {
		var err error
		if p.partIndex, err = decodeIndex(fields.Val()); err != nil {
			return err
		}
		p.revision, _ = first.Int()
	}
	c.Missing, _ = missing([]part{p}, c.x.l.HasOlder())
	c.Revision, c.Noted, c.Scattered = p.revision, max(int(noted.Val())-1, 0), index.Scattered(p.segments)
	if c.Missing != "" {
		return nil
	}
	fresh := slices.DeleteFunc(p.segments, func(s index.Summary) bool { return c.read[string(s.Encode())] })
	for some := range slices.Chunk(fresh, comparedSegments) {
		if err := c.readRows(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// readRows reads the rows of segments. Errors: errReplaced, CodeUnavailable; index.ErrUnreadable.
func (c *Comparison) readRows(ctx context.Context, segments []index.Summary) error {
	rows, err := rowsIn(ctx, c.x.l, c.number, segments)
	if err != nil {
		return err
	}
	for _, r := range rows {
		c.rows[c.hash(r)] = true
	}
	for _, s := range segments {
		c.read[string(s.Encode())] = true
	}
	return c.pause(ctx)
}

// hash is that of what must be right in a row, so that lists show the task.
func (c *Comparison) hash(r index.Row) uint64 {
	at := r.Ended
	if at == 0 {
		at = r.Due
	}
	return maphash.Comparable(c.seed, struct {
		ref   task.Ref
		state task.State
		at    int64
	}{r.Ref, r.State, at})
}

// Lacking returns those of the tasks that lists with a filter do not find at the time now of Redis: they wait or have
// ended, have no row, and are not noted. Errors: CodeUnavailable; index.ErrUnreadable.
func (c *Comparison) Lacking(ctx context.Context, refs []task.Ref, now time.Time) ([]index.Row, error) {
	before, err := c.without(ctx, refs, now)
	if err != nil || len(before) == 0 {
		return nil, err
	}
	// A task that is not noted now has its row in a segment by now, or has changed when it is read again.
	members, err := c.x.l.DB.LRange(ctx, string(c.keys.ListedNew()), 0, -1).Result()
	if err != nil {
		return nil, layout.Unavailable(err)
	}
	noted := make(map[string]bool, len(members))
	for _, member := range members {
		noted[member] = true
	}
	suspects, same := make([]task.Ref, len(before)), make(map[uint64]bool, len(before))
	for i, r := range before {
		suspects[i], same[c.hash(r)] = r.Ref, true
	}
	if err := c.Update(ctx); err != nil || c.Missing != "" {
		return nil, err
	}
	after, err := c.without(ctx, suspects, now)
	return slices.DeleteFunc(after, func(r index.Row) bool { return !same[c.hash(r)] || noted[r.Ref.String()] }), err
}

// without returns the rows of those tasks that wait or have ended and have none in the index. Those whose definition
// cannot be read are not among them: they have no times to compare. Error: CodeUnavailable.
func (c *Comparison) without(ctx context.Context, refs []task.Ref, now time.Time) ([]index.Row, error) {
	rows, err := rowsOf(ctx, c.x.l, c.x.tasks, refs, true)
	return slices.DeleteFunc(rows, func(r index.Row) bool {
		return !hasRow(r.State) || r.Damaged() || c.rows[c.hash(r)] || awaitsLeader(r, now)
	}), err
}

// awaitsLeader reports whether a row is of a task that was due when it was created, and that its leader has yet to look
// at. Such a task is not noted, and lists find it on the wheel.
func awaitsLeader(r index.Row, now time.Time) bool {
	return r.State == task.Scheduled && r.Due <= r.Created && now.Before(time.UnixMilli(r.Due).Add(leaderComes))
}

// BeginAnew has the leader of a partition build its index anew. Error: CodeUnavailable.
func (x *Listing) BeginAnew(ctx context.Context, number int) error {
	pipe := x.l.DB.Pipeline()
	pipe.Del(ctx, string(x.l.Keys.Partition(number).ListedNew()))
	pipe.Publish(ctx, string(x.l.Keys.Wake(number)), "rows")
	if _, err := pipe.Exec(ctx); err != nil {
		return layout.Unavailable(err)
	}
	return nil
}

// Missing says which tasks lists with a filter may lack, as the index is not whole; "" for none. Errors:
// CodeUnavailable, CodeUnreadable for the index.
func (x *Listing) Missing(ctx context.Context) (string, error) {
	parts, err := x.readKept(ctx, x.partitionsOf(tasks.Filter{}), false, false, true)
	if err != nil {
		return "", err
	}
	which, _ := missing(parts, x.l.HasOlder())
	return which, nil
}
