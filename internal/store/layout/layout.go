// Package layout knows where DTS keeps its data in Redis: the partitions and their keys, the version of the data, and how
// to read sorted sets in pages.
package layout

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/dts-sched/dts/internal/calls"
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
	data          atomic.Value       // string: drawn anew when Redis has lost the data; "" while it is not known
	retries       atomic.Int64       // see RetriesSince, in ms; unsettled until Open knows it
	wipes         atomic.Int64       // how often Redis has lost all data, as far as this process has noticed
	Log           *slog.Logger       // gets an error for each stored entry that is unreadable and skipped; never nil
	memory        sync.Map           // by server: *memory
	writes        singleflight.Group // by server: see Ready
	losses        losses
	PageTime      time.Duration // how long a list reads for one page: that of the package, unless a test sets it
	mayHaveLost   func() bool
	awaitsReports func() bool
	hasOlder      func() bool
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
	// HasOlder, if set, reports whether nodes live of the release before, which notes no tasks for the index of lists and knows no attempt
	// that was interrupted.
	HasOlder func() bool

	serves []string // see Serves; nil: as this release does
}

// Open reads the number of partitions, and fixes it at the first start. It converts data of a layout that is too old to be served first, or
// waits while another node does (see package migration). If dts:meta is gone and the data is there, it finds the number of partitions in that.
// Errors: Redis does not answer, holds another layout or another number of partitions than Options expects, or one that nobody can
// tell; or the data cannot be converted now.
func Open(ctx context.Context, o Options) (*Layout, error) {
	l := &Layout{DB: o.DB, Vital: cmp.Or(o.Vital, o.DB), Keys: lua.NewKeyspace(o.Prefix, o.DB.Number()), Log: o.Log, losses: newLosses(o.Lost), PageTime: PageTime, mayHaveLost: o.MayHaveLost, awaitsReports: o.AwaitsReports, hasOlder: o.HasOlder}
	if l.Log == nil {
		l.Log = slog.New(slog.DiscardHandler)
	}
	if l.serves = o.serves; l.serves == nil {
		l.serves = strings.Split(served, ",")
	}
	l.present.Store(l.serves[0]) // nodes that are not on the list yet may serve no newer one
	l.retries.Store(unsettled)
	l.data.Store("")
	found, err := l.openMeta(ctx, o.Partitions)
	if err != nil {
		return nil, err
	}
	layout, err := l.adopt(found, o.Partitions)
	if err != nil {
		return nil, err
	}
	l.data.Store(found.Data)
	if !slices.Contains(l.serves, layout) {
		layout, err = migration.Present, migration.Run(ctx, migration.Options{DB: l.DB, Keys: l.Keys, Partitions: l.partitions, Log: l.Log})
	}
	l.present.Store(layout)
	if err == nil {
		err = l.settleLater(ctx, found)
	}
	return l, err
}

// Partitions is the number of partitions.
func (l *Layout) Partitions() int { return l.partitions }

// PartitionOf is the number, from 0, of the partition of a task or schedule. Names whose ids are equal up to the first "@"
// are in the same partition: a schedule and its ticks.
func (l *Layout) PartitionOf(r task.Ref) int { return l.PartitionWith(HashName(r.Namespace, r.Root())) }

// PartitionWith is the partition of the names with that hash.
func (l *Layout) PartitionWith(h NameHash) int { return partitionOf(h, l.partitions) }

func partitionOf(h NameHash, partitions int) int { return int(uint32(h) % uint32(partitions)) }

// NameHash is the hash of a name, or of its beginning: FNV-1a with 32 bits, without an allocation, unlike package hash/fnv.
type NameHash uint32

// hashStart is the hash of "".
const hashStart NameHash = 2166136261

// HomeOf is the partition in which slots of a limit are counted.
func (l *Layout) HomeOf(limit string) int { return l.PartitionWith(hashStart.Add(limit)) }

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

// WithNow calls read and, unless *now is set, reads the partition's clock at the same time. Errors: that of read;
// CodeUnavailable.
func (l *Layout) WithNow(ctx context.Context, partition int, now *time.Time, read func() error) error {
	if !now.IsZero() {
		return read()
	}
	return calls.Try(read, func() (err error) { *now, err = l.Now(ctx, partition); return err })
}

// Unavailable is the error, with CodeUnavailable, of an operation that Redis did not answer or answered with err; with CodeUnreadable, if
// that says that what Redis has is damaged. Only context.Canceled is returned as it is.
func Unavailable(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, ErrOther) {
		return err
	}
	code := task.CodeUnavailable
	if redisx.IsDamage(err) {
		code = task.CodeUnreadable
	}
	return &task.Error{Code: code, Message: redisx.WhyNot(err), Err: err}
}
