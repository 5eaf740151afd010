package control

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/store/layout"
)

// readRedis reads how the servers of Redis are: of those with data, what concerns the fullest one, and any trouble with
// a disk. Error: CodeUnavailable.
func (c *Control) readRedis(ctx context.Context, r *status.Redis) error {
	keys := make([]string, c.store.Layout.Partitions())
	for p := range keys {
		keys[p] = string(c.store.Keys.Partition(p).States())
	}
	var mu sync.Mutex
	var silent unread
	err := c.store.DB.EachServer(ctx, keys, func(server redis.Cmdable, _ []int) {
		began := clock.Now()
		fields, err := redisx.Info(ctx, server, "everything")
		took := clock.Since(began)
		var refused redis.Error
		if err != nil && !errors.As(err, &refused) { // one that may not be asked is well
			silent.note("a server of Redis", layout.Unavailable(err))
			return
		}
		mu.Lock()
		defer mu.Unlock()
		r.RoundTrip = max(r.RoundTrip, took)
		if m := redisx.MemoryIn(fields); m.InUse() > share(*r) || r.Memory == 0 {
			r.Memory, r.MaxMemory = m.Used, m.Limit
		}
		for _, name := range []string{"aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"} {
			if said := fields[name]; said != "" && said != "ok" {
				r.Disk = name + " is " + said
			}
		}
	})
	if err != nil {
		return layout.Unavailable(err)
	}
	return silent.silent
}

// share is the share of its maxmemory that a Redis uses.
func share(r status.Redis) float64 {
	if r.MaxMemory <= 0 {
		return 0
	}
	return r.Memory / r.MaxMemory
}
