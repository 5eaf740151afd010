// Package store keeps tasks, schedules and locks in Redis. Nothing outside of it knows the stored form: package layout knows the
// keys, package codec the content, and the packages tasks, schedules, locks, minutes and partition have the operations. Every change of a
// task, a schedule or a lock is
// one run of a Lua script.
package store

import (
	"context"
	"log/slog"
	"time"

	"github.com/dts-sched/dts/internal/config"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/bulks"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/listing"
	"github.com/dts-sched/dts/internal/store/locks"
	"github.com/dts-sched/dts/internal/store/minutes"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/rules"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/store/workflows"
	"github.com/dts-sched/dts/internal/task"
)

// Store is the data of one installation.
type Store struct {
	*layout.Layout
	Tasks      *tasks.Tasks
	Schedules  *schedules.Schedules
	Workflows  *workflows.Workflows
	Locks      *locks.Locks
	Minutes    *minutes.Minutes
	Listing    *listing.Listing
	Bulks      *bulks.Bulks
	Rules      *rules.Rules
	Partitions *partition.Partitions
}

// Options says where the data is. DB is required.
type Options struct {
	DB         *redisx.DB
	Vital      *redisx.DB    // for leases and heartbeats, so that they wait behind nothing else; nil: DB
	Prefix     string        // begins every key and channel; "" means "dts"
	Partitions int           // expected number, fixed at the first start; 0 accepts any and creates 16
	RunLease   time.Duration // how long a worker's word holds that it runs an attempt; 0 means tasks.DefaultRunLease
	Types      task.Types    // knows the timeouts of attempts; nil knows no type
	Log        *slog.Logger  // gets an error for each stored entry that is unreadable and skipped; nil discards them
	// Durability is what a submission waits for, and the begin of an attempt that must be the only one.
	Durability    config.Durability
	Lost          func(partition int, l schedule.Loss, evidence string) // see layout.Options
	MayHaveLost   func() bool                                           // see layout.Options
	AwaitsReports func() bool                                           // see layout.Options
	HasOlder      func() bool                                           // see layout.Options
	Counters      []tasks.Counter                                       // count what this process records
}

// Open opens the installation, and creates it at the first start or converts it from an older layout. Errors: Redis does not
// answer, holds another layout or another number of partitions than Options expects, or cannot be converted now.
func Open(ctx context.Context, o Options) (*Store, error) {
	l, err := layout.Open(ctx, layout.Options{DB: o.DB, Vital: o.Vital, Prefix: o.Prefix, Partitions: o.Partitions, Log: o.Log, Lost: o.Lost, MayHaveLost: o.MayHaveLost, AwaitsReports: o.AwaitsReports, HasOlder: o.HasOlder})
	if err != nil {
		return nil, err
	}
	s := &Store{
		Layout: l, Tasks: tasks.New(l, o.RunLease, o.Durability), Schedules: schedules.New(l), Locks: locks.New(l),
		Minutes: minutes.New(l), Workflows: workflows.New(l),
	}
	for _, c := range o.Counters {
		s.Tasks.CountWith(c)
	}
	s.Listing, s.Bulks, s.Rules = listing.New(l, s.Tasks), bulks.New(l), rules.New(l)
	s.Partitions = partition.New(partition.Options{
		Layout: l, Tasks: s.Tasks, Schedules: s.Schedules, Types: o.Types,
	})
	return s, nil
}
