// Package store keeps tasks and schedules in Redis. It is the only place that knows the form of what is stored: package
// layout knows where things are, codec how they are written, and the rooms tasks, schedules and partition hold what can be
// done to them, each change in one Lua script.
package store

import (
	"context"
	"log/slog"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

// Store is all rooms of one installation's data.
type Store struct {
	*layout.Layout
	Tasks      *tasks.Tasks
	Schedules  *schedules.Schedules
	Partitions *partition.Partitions
}

// Options says where the data is. DB is needed.
type Options struct {
	DB         *redisx.DB
	Prefix     string       // begins every key and channel; "" means "dts"
	Partitions int          // to start with; 0: 16, or as many as there are. It is fixed at the first start
	Types      task.Types   // tells the timeouts of attempts; nil knows no type
	Log        *slog.Logger // told of data that cannot be read and is skipped; nil: nothing is logged
}

// Open finds the installation, or founds it at the first start. Errors: Redis does not answer, or holds another layout or
// another number of partitions than asked for.
func Open(ctx context.Context, o Options) (*Store, error) {
	l, err := layout.Open(ctx, layout.Options{DB: o.DB, Prefix: o.Prefix, Partitions: o.Partitions, Log: o.Log})
	if err != nil {
		return nil, err
	}
	s := &Store{Layout: l, Tasks: tasks.New(l), Schedules: schedules.New(l)}
	s.Partitions = partition.New(partition.Options{Layout: l, Tasks: s.Tasks, Schedules: s.Schedules, Types: o.Types})
	return s, nil
}
