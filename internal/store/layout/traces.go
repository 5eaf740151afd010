package layout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redisx"
)

const (
	tracedNames  = 10               // tasks, schedules, ids and locks, each, that are read of a partition
	metaPatience = 30 * time.Second // for a living node to write dts:meta again, which checks it more often
	metaPoll     = 250 * time.Millisecond
)

// traces are what tells the number of partitions of an installation whose dts:meta is gone.
type traces struct {
	led     int                // one more than the number of the last partition that was led or marked; 0: none was
	names   map[int][]NameHash // of some tasks, schedules, ids that are remembered, and locks, by partition
	unknown bool               // there is data of layout 1 or 2
}

// findTraces looks for data in all partitions that there can be. It asks much, once in the life of an installation.
// Error: one of Redis.
func (l *Layout) findTraces(ctx context.Context) (traces, error) {
	found := traces{names: make(map[int][]NameHash)}
	if keys, err := l.DB.DBSize(ctx).Result(); err != nil || keys == 0 {
		return found, err
	}
	pipe := l.DB.Pipeline()
	var led, older [config.PartitionsLimit]*redis.IntCmd
	var names [config.PartitionsLimit][]*redis.StringSliceCmd
	for p := range config.PartitionsLimit {
		k := l.Keys.Partition(p)
		led[p], older[p] = pipe.Exists(ctx, string(k.Lease())), pipe.Exists(ctx, string(k.OldEpoch()))
		names[p] = []*redis.StringSliceCmd{
			pipe.HRandField(ctx, string(k.Defs()), tracedNames), pipe.HRandField(ctx, string(k.Remembered()), tracedNames),
			pipe.ZRandMember(ctx, string(k.Schedules()), tracedNames), pipe.ZRandMember(ctx, string(k.Locks()), tracedNames),
		}
	}
	marks, silent := l.marks(ctx, below(config.PartitionsLimit))
	if err := cmp.Or(redisx.ExecPastDamage(ctx, pipe), silent); err != nil {
		return found, fmt.Errorf("looking for data without %s: %w", l.Keys.Meta(), err)
	}
	for p := range config.PartitionsLimit {
		found.unknown = found.unknown || older[p].Val() > 0
		if led[p].Val() > 0 || marks[p] != "" {
			found.led = p + 1
		}
		for _, some := range names[p] {
			for _, name := range some.Val() {
				root, _, _ := strings.Cut(name, "@")
				found.names[p] = append(found.names[p], hashStart.Add(root))
			}
		}
	}
	return found, nil
}

// fits reports whether all that was found is where it is with so many partitions.
func (t traces) fits(partitions int) bool {
	for p, names := range t.names {
		if slices.ContainsFunc(names, func(h NameHash) bool { return partitionOf(h, partitions) != p }) {
			return false
		}
	}
	return t.led <= partitions
}

// count returns the number of partitions of the data; 0 if there is no data. expected is that of the settings, 0 if
// they do not say it. Error: the settings say another one, or nobody can tell it.
func (t traces) count(expected int) (int, error) {
	const gone = "partitions: dts:meta is gone, and the data is there"
	var fitting []int
	for n := 1; n <= config.PartitionsLimit; n++ {
		if t.fits(n) {
			fitting = append(fitting, n)
		}
	}
	switch {
	case t.unknown:
		return 0, fmt.Errorf("%s, of an older layout: restore dts:meta, or all data, from a copy", gone)
	case t.led == 0 && len(t.names) == 0:
		return 0, nil
	case t.led > 0 && slices.Contains(fitting, t.led):
		fitting = []int{t.led} // leaders have led all of them
	}
	switch {
	case slices.Contains(fitting, expected):
		return expected, nil
	case expected == 0 && len(fitting) == 1:
		return fitting[0], nil
	case len(fitting) == 1:
		return 0, fmt.Errorf("%s, in %d partitions, which cannot be changed to %d: set partitions to %[2]d, or leave it out",
			gone, fitting[0], expected)
	case expected != 0:
		return 0, fmt.Errorf("%s, which does not fit %d partitions: set partitions to the number of the first start, "+
			"%d unless it was set, or restore dts:meta from a copy", gone, expected, DefaultPartitions)
	}
	return 0, fmt.Errorf("%s, and too little of it to tell its number of partitions: "+
		"set partitions to the number of the first start, %d unless it was set", gone, DefaultPartitions)
}

// awaitMeta waits until a living node has written dts:meta again, as it knows all of it. It returns what is there
// then: nothing if no node lives, or none has written it. Error: one of Redis.
func (l *Layout) awaitMeta(ctx context.Context) (meta, error) {
	nodes := cluster.New(cluster.Options{DB: l.DB, Key: l.Keys.Nodes(), Log: l.Log})
	lives := func(n cluster.Node) bool { return n.State != cluster.StateDead && n.Via == "" }
	for began := clock.Now(); ; {
		found, err := l.readMeta(ctx)
		if err != nil || len(found.missing()) == 0 || clock.Since(began) > metaPatience {
			return found, err
		}
		list, err := nodes.Nodes(ctx)
		if err != nil || !slices.ContainsFunc(list, lives) {
			return found, err
		}
		if err := clock.Sleep(ctx, metaPoll); err != nil {
			return found, err
		}
	}
}
