package control

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/store/layout"
)

// redisReader reads how the servers of Redis are.
type redisReader struct {
	c     *Control
	probe bool // asks each server whether it takes writes, even if nothing says that it may refuse them

	mu     sync.Mutex
	r      *status.Redis
	unread unread
}

// readRedis reads how the servers of Redis are: of those with data, what concerns the fullest one, any trouble with a
// disk, and who refuses writes. Error: CodeUnavailable; the servers that answered are read then.
func (c *Control) readRedis(ctx context.Context, how situation, r *status.Redis) error {
	d := &redisReader{c: c, probe: how.alone, r: r}
	err := c.store.DB.EachServer(ctx, c.stateKeys(), func(server redis.Cmdable, partitions []int) {
		d.read(ctx, server, partitions)
	})
	if err != nil {
		return layout.Unavailable(err)
	}
	return d.unread.silent
}

// stateKeys has a key of each partition, by its number.
func (c *Control) stateKeys() []string {
	keys := make([]string, c.store.Layout.Partitions())
	for p := range keys {
		keys[p] = string(c.store.Keys.Partition(p).States())
	}
	return keys
}

// read reads how the server is that has some partitions.
func (d *redisReader) read(ctx context.Context, server redis.Cmdable, partitions []int) {
	if !d.c.answersAgain(ctx, partitions[0]) {
		return // awayServers tells of it
	}
	began := clock.Now()
	fields, err := redisx.Info(ctx, server, "everything")
	took := clock.Since(began)
	var refused redis.Error
	if err != nil && !errors.As(err, &refused) { // a server that refuses INFO may be well
		d.unread.note("a server of Redis", layout.Unavailable(err))
		return
	}
	disk, refuses := diskTrouble(fields), ""
	if d.probe || disk != "" || mayRefuse(fields) {
		refuses = d.c.store.RefusesWrites(ctx, partitions[0])
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.r.RoundTrip, d.r.Version = max(d.r.RoundTrip, took), cmp.Or(fields["redis_version"], d.r.Version)
	if m := redisx.MemoryIn(fields); m.InUse() > share(*d.r) || d.r.Memory == 0 {
		d.r.Memory, d.r.MaxMemory = m.Used, m.Limit
	}
	if disk != "" {
		d.r.Disk = disk
	}
	if refuses != "" {
		address, _ := d.c.serverOf(ctx, partitions[0])
		d.r.Refusing = append(d.r.Refusing, status.Server{Address: address, Partitions: partitions, Said: refuses})
	}
}

// diskTrouble returns what a server could not write to its disk; "" for nothing.
func diskTrouble(fields map[string]string) (found string) {
	for _, name := range []string{"aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"} {
		if said := fields[name]; said != "" && said != "ok" {
			found = name + " is " + said
		}
	}
	return found
}

// mayRefuse reports whether a server may refuse writes though its disk is well: it is a replica, or needs replicas.
func mayRefuse(fields map[string]string) bool {
	_, needsReplicas := fields["min_slaves_good_slaves"]
	return needsReplicas || fields["role"] == "slave"
}

// serverOf returns the address of the server that has a partition; "" if Redis is one server. Error: one of Redis.
func (c *Control) serverOf(ctx context.Context, partition int) (string, error) {
	_, address, err := c.store.DB.ServerOf(ctx, string(c.store.Keys.Partition(partition).States()))
	return address, err
}

// answersAgain reports whether the server of a partition is in no outage, or answers now. It waits for a moment only.
func (c *Control) answersAgain(ctx context.Context, partition int) bool {
	address, err := c.serverOf(ctx, partition)
	away := func(a redisx.Away) bool { return a.Address == address }
	if err != nil || !slices.ContainsFunc(c.store.DB.Link().Away(), away) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, redisx.Patience)
	defer cancel()
	return c.store.DB.Exists(ctx, string(c.store.Keys.Partition(partition).States())).Err() == nil
}

// awayServers returns the servers of a cluster that do nothing for this node, while others work.
func (c *Control) awayServers(ctx context.Context) []status.Server {
	var servers []status.Server
	for _, a := range c.store.DB.Link().Away() {
		s := status.Server{Address: a.Address, Said: a.Said, Since: a.Since.UTC()}
		for p := range c.store.Layout.Partitions() {
			if address, err := c.serverOf(ctx, p); err == nil && address == a.Address {
				s.Partitions = append(s.Partitions, p)
			}
		}
		servers = append(servers, s)
	}
	return servers
}

// share is the share of its maxmemory that a Redis uses.
func share(r status.Redis) float64 {
	if r.MaxMemory <= 0 {
		return 0
	}
	return r.Memory / r.MaxMemory
}
