package layout

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/store/migration"
)

// A layout is the version of the keys and their content. A node that serves two of them reads what was written in either, whichever is the
// present one, which says in what form it writes. So a move from one to the other is a word in dts:meta. It needs no node to stop, but
// each of them to serve both.

// served are the layouts that this release serves, the oldest first, with commas between them. No setting of the product sets it: tests link a
// node of a later release, with
// -ldflags "-X github.com/dts-sched/dts/internal/store/layout.served=3,4". See Serves.
var served = migration.Present + "," + withOutbox + "," + withRuns + "," + withLimits + "," + withRoutes

const (
	// withOutbox is the layout in which partitions have an outbox, and which has fair keys, priorities, limit keys and
	// keys of tasks.
	withOutbox = "4"
	// withRuns is the layout in which tasks are runs of workflows, and steps of these. Leaders of the releases before it
	// drop the ends of steps. It has nothing else that is new.
	withRuns = "5"
	// withLimits is the layout in which tasks have limits. Nodes of the releases before it do not know of them, and cannot
	// read the state of a task that holds a slot.
	withLimits = "6"
	// withRoutes is the layout in which tasks say where they run, and running ones can be asked to move. Nodes of the
	// releases before it neither read the names of their lanes, nor take from the queue of a node, nor read the state of a
	// task that was asked to move.
	withRoutes = "7"
)

// unstated is the layout that nodes serve which do not say it: those of releases before they did.
const unstated = "3"

// movingField is the field of dts:meta that says that somebody is about to move the layout, as far as no node joins.
const movingField = "moving"

// Serves returns the layouts that this node reads and writes, the oldest first. Nodes say it on their list.
func (l *Layout) Serves() []string { return l.serves }

// Present is the layout in which this node writes.
func (l *Layout) Present() string { return l.present.Load().(string) }

// HasOutbox reports whether all nodes know the outbox, which follow-ups and start_by need.
func (l *Layout) HasOutbox() bool { return l.has(withOutbox) }

// HasRuns reports whether all nodes know runs of workflows.
func (l *Layout) HasRuns() bool { return l.has(withRuns) }

// HasLimits reports whether all nodes know limits.
func (l *Layout) HasLimits() bool { return l.has(withLimits) }

// HasRoutes reports whether all nodes know where a task runs, and tasks that move.
func (l *Layout) HasRoutes() bool { return l.has(withRoutes) }

func (l *Layout) has(layout string) bool {
	return slices.Index(l.serves, l.Present()) >= slices.Index(l.serves, layout)
}

// Joined is to be called by a node that has come onto the list of nodes, and before Check: whoever is about to move the layout may have read
// the list before. So either the move comes to nothing, or Check finds it. Error: one of Redis.
func (l *Layout) Joined(ctx context.Context) error {
	return l.DB.HDel(ctx, string(l.Keys.Meta()), movingField).Err()
}

// Advance moves the data to the newest layout that all nodes serve, or finds that another node has done so. It does nothing if this node
// serves no newer one than the present one. nodes reads the list, which this node is on; those that are dead do not count. It is to be
// called whenever the list has changed. Errors: as reread, or that of nodes.
func (l *Layout) Advance(ctx context.Context, nodes func(context.Context) ([]cluster.Node, error)) error {
	for l.Present() != l.serves[len(l.serves)-1] {
		from, move, err := l.prepare(ctx)
		if err != nil {
			return err
		}
		if from == l.serves[len(l.serves)-1] {
			return nil // another node has moved it
		}
		list, err := nodes(ctx)
		if err != nil {
			return err
		}
		to, without := l.newestOf(list)
		if to == from {
			l.Log.InfoContext(ctx, "the data stays in its layout: living nodes serve no newer one", "layout", from, "nodes", without)
			return nil
		}
		moved, err := l.move(ctx, move, from, to)
		if err != nil {
			return err
		}
		if err := l.reread(ctx); err != nil {
			return err
		}
		if moved {
			l.Log.InfoContext(ctx, "moved the data to a newer layout, which all nodes serve", "from", from, "to", to)
		}
	}
	return nil
}

// prepare returns the present layout and the name of a move, which is the same for all that want one until a node joins. Error: as reread.
func (l *Layout) prepare(ctx context.Context) (from, move string, _ error) {
	meta := string(l.Keys.Meta())
	if err := l.DB.HSetNX(ctx, meta, movingField, rand.Text()).Err(); err != nil {
		return "", "", err
	}
	move, err := l.DB.HGet(ctx, meta, movingField).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", "", err
	}
	err = l.reread(ctx)
	return l.Present(), move, err
}

// newestOf returns the newest layout that this node and all of those nodes serve that are alive, at least the present one; and those of
// them that do not serve the newest one of this node.
func (l *Layout) newestOf(nodes []cluster.Node) (newest string, without []string) {
	newest = l.Present()
	for _, layout := range l.serves[slices.Index(l.serves, newest)+1:] {
		without = nil
		for _, n := range nodes {
			if n.State != cluster.StateDead && n.Via == "" && !slices.Contains(layoutsOf(n), layout) {
				without = append(without, n.ID)
			}
		}
		if len(without) == 0 {
			newest = layout
		}
	}
	slices.Sort(without)
	return newest, slices.Compact(without) // the list may name a node twice
}

// layoutsOf returns the layouts that a node serves.
func layoutsOf(n cluster.Node) []string {
	if len(n.Layouts) == 0 {
		return []string{unstated}
	}
	return n.Layouts
}

// move writes the new layout if the move with that name is still prepared. moved is false if a node has joined, or another one was faster.
// Error: one of Redis.
func (l *Layout) move(ctx context.Context, move, from, to string) (moved bool, _ error) {
	meta := string(l.Keys.Meta())
	err := l.DB.Watch(ctx, func(tx *redis.Tx) error {
		found, err := tx.HMGet(ctx, meta, "layout", movingField).Result()
		if err != nil || found[0] != from || found[1] != move {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.HDel(ctx, meta, movingField)
			pipe.HSet(ctx, meta, "layout", to)
			return nil
		})
		moved = err == nil
		return err
	}, meta)
	if errors.Is(err, redis.TxFailedErr) {
		return false, nil
	}
	return moved, err
}
