// Package migration converts the data of older layouts to the present one, at the first start of a node of this version.
//
// Layouts 1 and 2 have one hash for each task, and in layout 1 the hash of a schedule repeats parts of its definition. One
// node converts while the others wait. Each task is converted by itself, and what is converted stays so; so a conversion
// that was interrupted is continued by the next node that starts. Until it has ended, the version of the layout is
// Unfinished, which no version of dtsd accepts but this one: a node of the older version would take converted tasks for
// deleted ones.
package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// Versions of the layout.
const (
	Present    = "3"
	Unfinished = Present + "-unfinished" // a conversion to Present has begun
)

// older are the versions that can be converted.
var older = []string{"1", "2"}

// layoutField is the field of dts:meta with the version of the layout.
const layoutField = "layout"

const (
	defaultWaitLimit = 10 * time.Minute
	pollInterval     = 250 * time.Millisecond
)

// Options says what to convert. DB, Partitions and Log are required.
type Options struct {
	DB         *redisx.DB
	Keys       lua.Keyspace
	Partitions int
	WaitLimit  time.Duration // how long to wait for another node that converts; 0 means 10 minutes
	Log        *slog.Logger  // gets the progress, and an error for each task that cannot be read
}

// Needed reports whether data of that version of the layout can be converted, and must be.
func Needed(version string) bool { return version == Unfinished || slices.Contains(older, version) }

// Run converts the data, or waits while another node does it. Afterwards the data has the layout Present. Errors: nodes of the
// older version are alive, another node has not finished within WaitLimit, or an error of Redis. After an error, Run can be
// called again: it goes on where it was.
func Run(ctx context.Context, o Options) error {
	m := &migration{Options: o, id: cluster.NewNodeID(cluster.Host())}
	limit := cmp.Or(o.WaitLimit, defaultWaitLimit)
	for began := clock.Now(); ; {
		holder, err := m.try(ctx)
		if err == nil && holder == "" {
			return nil
		}
		if err != nil && !errors.Is(err, errTakenOver) {
			return fmt.Errorf("converting the data to layout %s: %w", Present, err)
		}
		if clock.Since(began) > limit {
			return fmt.Errorf("converting the data to layout %s: node %s has not finished it within %s: start this node again later", Present, holder, limit)
		}
		if err := clock.Sleep(ctx, pollInterval); err != nil {
			return err
		}
	}
}

// migration is one node's part in a conversion.
type migration struct {
	Options
	id      string // of this node, in the lock
	waiting bool   // another node was found at work
}

// try converts the data unless another node does. holder is that node; "" if the data has the present layout now.
func (m *migration) try(ctx context.Context) (holder string, err error) {
	if done, err := m.finished(ctx); done || err != nil {
		return "", err
	}
	lock, holder, err := m.acquire(ctx)
	if err != nil {
		return "", err
	}
	if holder != "" {
		if !m.waiting {
			m.Log.InfoContext(ctx, "waiting for another node, which converts the data", "converter", holder)
		}
		m.waiting = true
		return holder, nil
	}
	defer lock.release(ctx)
	return "", m.convert(ctx, lock)
}

// finished reports whether the data has the present layout.
func (m *migration) finished(ctx context.Context) (bool, error) {
	version, err := m.version(ctx)
	return version == Present, err
}

func (m *migration) version(ctx context.Context) (string, error) {
	return m.DB.HGet(ctx, string(m.Keys.Meta()), layoutField).Result()
}

func (m *migration) setVersion(ctx context.Context, version string) error {
	return m.DB.HSet(ctx, string(m.Keys.Meta()), layoutField, version).Err()
}

// convert converts the data while this node has the lock.
func (m *migration) convert(ctx context.Context, lock *lock) error {
	version, err := m.version(ctx) // another node may have finished before this one got the lock
	if err != nil || version == Present {
		return err
	}
	if err := m.begin(ctx, version); err != nil {
		return err
	}
	began, total := clock.Now(), counts{}
	m.Log.InfoContext(ctx, "converting the data", "from_layout", version, "to_layout", Present, "partitions", m.Partitions)
	for number := range m.Partitions {
		p := &partition{migration: m, keys: m.Keys.Partition(number), number: number, lock: lock}
		if err := p.convert(ctx); err != nil {
			return fmt.Errorf("partition %d: %w", number, err)
		}
		total.add(p.counts)
	}
	if err := m.end(ctx); err != nil {
		return err
	}
	m.Log.InfoContext(ctx, "converted the data", "tasks", total.tasks, "unreadable", total.unreadable, "schedules", total.schedules,
		"took", clock.Since(began).Round(time.Millisecond))
	return nil
}

// begin makes sure that no node of an older version works on the data, or starts to from now on. Only a node that has read
// the version before and sends its first heartbeat after the second look escapes it.
func (m *migration) begin(ctx context.Context, version string) error {
	if err := m.refuseLiving(ctx); err != nil {
		return err
	}
	if err := m.setVersion(ctx, Unfinished); err != nil {
		return err
	}
	err := m.refuseLiving(ctx)
	if err != nil && version != Unfinished {
		err = errors.Join(err, m.setVersion(ctx, version)) // nothing is converted yet
	}
	return err
}

// end forgets surplus namespaces and sets the version, unless another node did so because this one had lost the lock.
func (m *migration) end(ctx context.Context) error {
	if done, err := m.finished(ctx); done || err != nil {
		return err
	}
	if err := m.refuseLiving(ctx); err != nil {
		return err
	}
	if err := m.trimNamespaces(ctx); err != nil {
		return err
	}
	return m.setVersion(ctx, Present)
}

// refuseLiving returns an error if nodes are alive: nodes of this version are not on the list before the conversion has ended.
func (m *migration) refuseLiving(ctx context.Context) error {
	nodes, err := cluster.New(cluster.Options{DB: m.DB, Key: m.Keys.Nodes(), Log: m.Log}).Nodes(ctx)
	if err != nil {
		return err
	}
	var living []string
	for _, n := range nodes {
		if n.State != cluster.StateDead {
			living = append(living, n.ID)
		}
	}
	if len(living) > 0 {
		return fmt.Errorf("nodes of the older version are alive: %s: stop all of them first; one that was killed counts as alive until it has missed three heartbeats",
			strings.Join(living, ", "))
	}
	return nil
}
