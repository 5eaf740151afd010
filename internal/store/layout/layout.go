// Package layout knows where DTS keeps its data in Redis: the partitions and their keys, the version of the data, and how
// to read sorted sets in pages.
package layout

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/migration"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// DefaultPartitions is the number of partitions of a new installation.
const DefaultPartitions = 16

// Layout is the layout of one installation in one Redis.
type Layout struct {
	DB            *redisx.DB
	Vital         *redisx.DB // for what says that somebody lives: it must not wait for connections behind anything else
	Keys          lua.Keyspace
	partitions    int
	serves        []string           // see Serves
	present       atomic.Value       // string: see Present
	secret        atomic.Value       // string: of the installation, see Sign
	retries       atomic.Int64       // see RetriesSince, in ms; unsettled until Open knows it
	wipes         atomic.Int64       // how often Redis has lost all data, as far as this process has noticed
	Log           *slog.Logger       // gets an error for each stored entry that is unreadable and skipped; never nil
	memory        sync.Map           // by server: *memory
	writes        singleflight.Group // by server: see Ready
	losses        losses
	PageTime      time.Duration // how long a list reads for one page: that of the package, unless a test sets it
	mayHaveLost   func() bool
	awaitsReports func() bool
}

// Options says where the data is. DB is required.
type Options struct {
	DB         *redisx.DB
	Prefix     string       // begins every key and channel; "" means "dts"
	Vital      *redisx.DB   // for leases and heartbeats; nil: DB
	Partitions int          // expected number, fixed at the first start; 0 accepts any and creates DefaultPartitions
	Log        *slog.Logger // gets an error for each stored entry that is unreadable and skipped; nil discards them
	// Lost, if set, is called when this node has noticed that Redis has lost writes of a partition, in a span of time that does not overlap
	// the one that was noticed before. evidence says which write shows that.
	Lost func(partition int, l schedule.Loss, evidence string)
	// MayHaveLost, if set, reports whether Redis may have lost writes lately, and AwaitsReports, whether so lately that it may yet hear from
	// other nodes what it has lost.
	MayHaveLost, AwaitsReports func() bool

	serves []string // see Serves; nil: as this release does
}

// Open reads the number of partitions, and fixes it at the first start. It converts data of a layout that is too old to be served first, or
// waits while another node does (see package migration). Errors: Redis does not answer, holds another layout or another number of
// partitions than Options expects, or the data cannot be converted now.
func Open(ctx context.Context, o Options) (*Layout, error) {
	l := &Layout{DB: o.DB, Vital: cmp.Or(o.Vital, o.DB), Keys: lua.NewKeyspace(o.Prefix, o.DB.Number()), Log: o.Log, losses: newLosses(o.Lost), PageTime: PageTime, mayHaveLost: o.MayHaveLost, awaitsReports: o.AwaitsReports}
	if l.Log == nil {
		l.Log = slog.New(slog.DiscardHandler)
	}
	if l.serves = o.serves; l.serves == nil {
		l.serves = strings.Split(served, ",")
	}
	l.present.Store(l.serves[0]) // nodes that are not on the list yet may serve no newer one
	l.retries.Store(unsettled)
	_, found, err := l.settle(ctx, cmp.Or(o.Partitions, DefaultPartitions), rand.Text())
	if err != nil {
		return nil, err
	}
	layout, err := l.adopt(found, o.Partitions)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(l.serves, layout) {
		layout, err = migration.Present, migration.Run(ctx, migration.Options{DB: l.DB, Keys: l.Keys, Partitions: l.partitions, Log: l.Log})
	}
	l.present.Store(layout)
	if err == nil {
		err = l.settleRetries(ctx, found)
	}
	return l, err
}

// settle writes the fields of dts:meta that are missing, and returns whether all were and what they are now: of several nodes, the first one
// settles them. It only reads if none is missing, which a Redis that refuses writes allows. Error: one of Redis.
func (l *Layout) settle(ctx context.Context, partitions int, secret string) (gone bool, found []any, _ error) {
	meta := string(l.Keys.Meta())
	found, err := l.DB.HMGet(ctx, meta, metaFields...).Result()
	if err == nil && slices.Contains(found[:3], nil) {
		if found[0] == nil { // a new installation
			l.retries.CompareAndSwap(unsettled, 0)
		}
		pipe := l.DB.Pipeline()
		first := pipe.HSetNX(ctx, meta, "partitions", partitions)
		pipe.HSetNX(ctx, meta, "layout", l.Present())
		pipe.HSetNX(ctx, meta, "secret", secret)
		if since := l.retries.Load(); since != unsettled {
			pipe.HSetNX(ctx, meta, "retries", since)
		}
		all := pipe.HMGet(ctx, meta, metaFields...)
		_, err = pipe.Exec(ctx)
		gone, found = first.Val(), all.Val()
	}
	if err != nil {
		return false, nil, fmt.Errorf("reading %s: %w", meta, err)
	}
	return gone, found, nil
}

// metaFields are the fields of dts:meta that Open and Check settle.
var metaFields = []string{"partitions", "layout", "secret", "retries"}

// unsettled stands for a time that is not known yet.
const unsettled = -1

// settleRetries settles since when the present defaults of retries hold in an installation of an earlier release, whose data this node serves:
// from now on, or as another node has settled it. found is dts:meta. While Redis is full, the time cannot be stored, and each node uses its own.
// Error: CodeUnavailable.
func (l *Layout) settleRetries(ctx context.Context, found []any) error {
	if found[3] != nil {
		return nil
	}
	if l.retries.Load() == unsettled {
		now, err := l.Now(ctx, 0)
		if err != nil {
			return err
		}
		l.retries.Store(now.UnixMilli())
	}
	pipe := l.DB.Pipeline()
	pipe.HSetNX(ctx, string(l.Keys.Meta()), "retries", l.retries.Load())
	settled := pipe.HGet(ctx, string(l.Keys.Meta()), "retries")
	_, _ = pipe.Exec(ctx) // each reply has its error
	switch since, err := settled.Int64(); {
	case errors.Is(err, redis.Nil): // Redis takes no writes
	case err != nil:
		return Unavailable(err)
	default:
		l.retries.Store(since)
	}
	return nil
}

// RetriesSince is since when the present defaults of retries hold in this installation: tasks that were created before keep
// the earlier ones (ADR 31).
func (l *Layout) RetriesSince() time.Time { return time.UnixMilli(l.retries.Load()) }

// ErrOther is the error of Check if Redis holds the data of another installation than the one that was opened.
var ErrOther = errors.New("redis holds other data now")

// Check compares dts:meta with what Open found, and writes it again if it is gone: then Redis has lost the data. If another node has
// written it first, Check takes over its secret; if one has moved the data to another layout, that one. Errors: ErrOther if the number of
// partitions differs, or this node does not serve the layout, so that nothing would be found where it is; or one of Redis.
func (l *Layout) Check(ctx context.Context) (gone bool, _ error) {
	gone, found, err := l.settle(ctx, l.partitions, l.secret.Load().(string))
	if err != nil {
		return false, err
	}
	layout, err := l.adopt(found, l.partitions)
	if err == nil && !slices.Contains(l.serves, layout) {
		err = fmt.Errorf("%s: the data has layout %q, this dtsd serves only layout %s", l.Keys.Meta(), layout, strings.Join(l.serves, " and "))
	}
	if err != nil {
		return gone, fmt.Errorf("%w: %w", ErrOther, err)
	}
	l.present.Store(layout)
	return gone, l.settleRetries(ctx, found)
}

// NoteWipe records that Redis has lost all data: what this process remembers of it is wrong.
func (l *Layout) NoteWipe() { l.wipes.Add(1) }

// Wipes is how often NoteWipe was called.
func (l *Layout) Wipes() int64 { return l.wipes.Load() }

// adopt checks the fields of dts:meta partitions and layout, and takes over the number of partitions and the secret. expected is 0
// if any number will do. It returns the layout, which this node serves or can convert.
func (l *Layout) adopt(meta []any, expected int) (string, error) {
	count, _ := meta[0].(string)
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 {
		return "", fmt.Errorf("%s: partitions is %q, must be an integer of at least 1", l.Keys.Meta(), count)
	}
	found, _ := meta[1].(string)
	if !slices.Contains(l.serves, found) && !migration.Needed(found) {
		return "", fmt.Errorf("%s: the data has layout %q, this dtsd serves only layout %s: run a dtsd that serves it, or give this one an empty Redis or another --prefix",
			l.Keys.Meta(), found, strings.Join(l.serves, " and "))
	}
	if expected != 0 && expected != n {
		return "", fmt.Errorf("partitions: this Redis was started with %d, which cannot be changed to %d", n, expected)
	}
	secret, _ := meta[2].(string)
	if l.partitions != n {
		l.partitions = n
	}
	l.secret.Store(secret)
	if since, ok := meta[3].(string); ok {
		ms, err := strconv.ParseInt(since, 10, 64)
		if err != nil {
			return "", fmt.Errorf("%s: retries is %q, must be a time in ms since 1970", l.Keys.Meta(), since)
		}
		l.retries.Store(ms)
	}
	return found, nil
}

// Partitions is the number of partitions.
func (l *Layout) Partitions() int { return l.partitions }

// PartitionOf is the number, from 0, of the partition of a task or schedule. Names whose ids are equal up to the first "@"
// are in the same partition: a schedule and its ticks.
func (l *Layout) PartitionOf(r task.Ref) int { return l.PartitionWith(HashName(r.Namespace, r.Root())) }

// PartitionWith is the partition of the names with that hash.
func (l *Layout) PartitionWith(h NameHash) int { return int(uint32(h) % uint32(l.partitions)) }

// NameHash is the hash of a name, or of its beginning: FNV-1a with 32 bits, without an allocation, unlike package hash/fnv.
type NameHash uint32

// hashStart is the hash of "".
const hashStart NameHash = 2166136261

// HashName is the hash of the id in the namespace. The id may be a part of one, to which Add adds the rest.
func HashName(namespace, id string) NameHash { return hashStart.Add(namespace).Add(":").Add(id) }

// Add is the hash of the name with text behind it.
func (h NameHash) Add(text string) NameHash {
	for i := range len(text) {
		h = (h ^ NameHash(text[i])) * 16777619
	}
	return h
}

// KeysOf makes the keys of the partition of a task or schedule.
func (l *Layout) KeysOf(r task.Ref) lua.Partition { return l.Keys.Partition(l.PartitionOf(r)) }

// WakeOf returns the channel of the leader of the partition of a task or a schedule.
func (l *Layout) WakeOf(r task.Ref) lua.WakeChannel { return l.Keys.Wake(l.PartitionOf(r)) }

// Now is the time of Redis: that of the server which holds a partition, as the servers of a cluster have each a clock of their own.
// Error: CodeUnavailable.
func (l *Layout) Now(ctx context.Context, partition int) (time.Time, error) {
	server, _, err := l.DB.ServerOf(ctx, string(l.Keys.Partition(partition).States()))
	if err != nil {
		return time.Time{}, Unavailable(err)
	}
	now, err := server.Time(ctx).Result()
	if err != nil {
		return time.Time{}, Unavailable(err)
	}
	return now.UTC(), nil
}

// ErrUnreadable is what an error is about stored text that has not its form, other than that of a task or a schedule.
var ErrUnreadable = errors.New("cannot be read in Redis")

// Unavailable is the error, with CodeUnavailable, of an operation that Redis did not answer or answered with err; with CodeUnreadable, if
// that says that what Redis has is damaged. Only context.Canceled is returned as it is.
func Unavailable(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, ErrOther) {
		return err
	}
	if redisx.IsDamage(err) {
		return &task.Error{Code: task.CodeUnreadable, Message: "Redis has something else where this should be: dtsctl doctor names it", Err: err}
	}
	return &task.Error{Code: task.CodeUnavailable, Message: redisx.WhyNot(err), Err: err}
}
