package queue

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// serverPrefix begins the ids of DTS's consumers, which tells them from asynq's own servers.
const serverPrefix = "dts-"

// IsConsumer reports whether a server in asynq's list of servers, by its id, is a consumer of DTS, of any installation.
func IsConsumer(server string) bool { return strings.HasPrefix(server, serverPrefix) }

// serverRecord describes a consumer as asynq describes its servers.
type serverRecord struct {
	host        string
	process     int
	id          string
	concurrency int
	queues      map[string]int // weights by asynq's names
	started     time.Time
}

func newServerRecord(concurrency int, queues map[string]int) serverRecord {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host" // as asynq has it
	}
	return serverRecord{host: host, process: os.Getpid(), id: serverPrefix + rand.Text(), concurrency: concurrency, queues: queues, started: clock.Now()}
}

// keys returns the keys of the server and of the deliveries it works on.
func (r serverRecord) keys() (lua.ServerKey, lua.ServerWorkersKey) {
	name := fmt.Sprintf("%s:%d:%s", r.host, r.process, r.id)
	return lua.AsynqServer(name), lua.AsynqServerWorkers(name)
}

// encode returns asynq's ServerInfo, as in internal/proto/asynq.proto of asynq 0.26.
func (r serverRecord) encode(status string, working int) []byte {
	b := r.appendProcess(nil)
	b = appendNumber(b, 4, int64(r.concurrency))
	for _, name := range slices.Sorted(maps.Keys(r.queues)) {
		entry := appendText(nil, 1, name)
		entry = protowire.AppendTag(entry, 2, protowire.VarintType)
		entry = protowire.AppendVarint(entry, uint64(r.queues[name]))
		b = appendText(b, 5, string(entry))
	}
	b = appendText(b, 7, status)
	b = appendTime(b, 8, r.started)
	return appendNumber(b, 9, int64(working))
}

// foreignServer is what a server of asynq says of itself.
type foreignServer struct {
	status      string
	concurrency int
	queues      []string // by asynq's names
}

// decodeServer reads asynq's ServerInfo.
func decodeServer(b []byte) (s foreignServer, _ error) {
	err := eachField(b, func(field protowire.Number, value []byte, number uint64, _ []byte) {
		switch field {
		case 4:
			s.concurrency = int(number)
		case 5:
			_ = eachField(value, func(field protowire.Number, name []byte, _ uint64, _ []byte) {
				if field == 1 {
					s.queues = append(s.queues, string(name))
				}
			})
		case 7:
			s.status = string(value)
		}
	})
	return s, err
}

// appendProcess appends the fields that name the server, which ServerInfo and WorkerInfo share.
func (r serverRecord) appendProcess(b []byte) []byte {
	b = appendText(b, 1, r.host)
	b = appendNumber(b, 2, int64(r.process))
	return appendText(b, 3, r.id)
}

// encodeWorker returns asynq's WorkerInfo of a delivery that the server works on.
func (r serverRecord) encodeWorker(t *Taken) []byte {
	b := r.appendProcess(nil)
	b = appendText(b, 4, t.id)
	b = appendText(b, 5, t.message.taskType)
	b = appendText(b, 6, string(t.message.payload))
	b = appendText(b, 7, t.queue)
	b = appendTime(b, 8, t.at)
	return appendTime(b, 9, t.at.Add(t.message.timeout))
}

// appendTime appends a google.protobuf.Timestamp.
func appendTime(b []byte, field protowire.Number, t time.Time) []byte {
	stamp := appendNumber(nil, 1, t.Unix())
	stamp = appendNumber(stamp, 2, int64(t.Nanosecond()))
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendBytes(b, stamp)
}

// beats extends the leases of the deliveries that are held, and shows the consumer to asynq's tools, at intervals until ctx
// ends. If it is Unhurried, it sleeps while none is held.
func (c *Consumer) beats(ctx context.Context) {
	ticker := time.NewTicker(c.beatInterval())
	defer ticker.Stop()
	for failures := 0; c.awaitHeld(ctx) == nil; {
		err := c.beat(ctx)
		if err == nil {
			failures = 0
		} else {
			failures++
		}
		c.note(ctx, err, failures, "cannot extend leases of deliveries; trying again")
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// beatInterval is the time between two beats.
func (c *Consumer) beatInterval() time.Duration {
	if c.o.Unhurried {
		return time.Hour
	}
	return asynqBeat
}

// awaitHeld blocks until a delivery is held, if the consumer is Unhurried. It returns an error only if ctx ends.
func (c *Consumer) awaitHeld(ctx context.Context) error {
	for c.o.Unhurried && len(c.holding()) == 0 {
		select {
		case <-c.hasTaken:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// beat extends the leases of what is held now and shows it.
func (c *Consumer) beat(ctx context.Context) error {
	c.beating.Lock()
	defer c.beating.Unlock()
	held := c.holding()
	if err := c.extend(ctx, held); err != nil {
		return err
	}
	return c.writeRecord(ctx, held)
}

// holding returns the deliveries that the consumer has.
func (c *Consumer) holding() []*Taken {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.held))
}

// extend extends the leases of deliveries.
func (c *Consumer) extend(ctx context.Context, held []*Taken) error {
	ids := map[string][]string{}
	for _, t := range held {
		ids[t.queue] = append(ids[t.queue], t.id)
	}
	var calls []lua.Extend
	for queue, all := range ids {
		for some := range slices.Chunk(all, batchLimit) {
			calls = append(calls, lua.Extend{Deadline: lua.AsynqQueue(queue).Deadline(), Lease: c.beatInterval() * (asynqLease / asynqBeat), Ids: some})
		}
	}
	for _, r := range redisx.RunEach[lua.ExtendReply](ctx, c.o.DB, calls) {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// writeRecord writes what asynq's tools show: the server and what it works on. It expires after two beats.
func (c *Consumer) writeRecord(ctx context.Context, held []*Taken) error {
	lifetime := 2 * c.beatInterval()
	server, workers := c.record.keys()
	expires := float64(clock.Now().Add(lifetime).Unix())
	status := "active"
	if c.stopped.Load() {
		status = "stopped"
	}
	fields := make([]any, 0, 2*len(held))
	for _, t := range held {
		fields = append(fields, t.id, c.record.encodeWorker(t))
	}
	record := c.o.DB.Pipeline()
	listed := record.ZAdd(ctx, string(lua.AsynqServers), redis.Z{Score: expires, Member: string(server)})
	record.ZAdd(ctx, string(lua.AsynqWorkers), redis.Z{Score: expires, Member: string(workers)})
	record.Set(ctx, string(server), c.record.encode(status, len(held)), lifetime)
	if _, err := record.Exec(ctx); err != nil {
		return fmt.Errorf("writing the record of this server: %w", err)
	}
	if listed.Val() > 0 && !c.o.Guest { // the server was not on its list, so the queues may not be on theirs
		if err := publish(ctx, c.o.DB, shared(c.sources.names())); err != nil {
			return err
		}
	}
	if len(fields) == 0 && !c.showed {
		return nil
	}
	c.showed = true
	list := c.o.DB.TxPipeline()
	list.Del(ctx, string(workers))
	if len(fields) > 0 {
		list.HSet(ctx, string(workers), fields...)
		list.Expire(ctx, string(workers), lifetime)
	}
	if _, err := list.Exec(ctx); err != nil {
		return fmt.Errorf("writing what this server works on: %w", err)
	}
	c.showed = len(fields) > 0
	return nil
}

// removeRecord removes the consumer from asynq's list of servers.
func (c *Consumer) removeRecord(ctx context.Context) error {
	server, workers := c.record.keys()
	pipe := c.o.DB.Pipeline()
	pipe.ZRem(ctx, string(lua.AsynqServers), string(server))
	pipe.ZRem(ctx, string(lua.AsynqWorkers), string(workers))
	pipe.Del(ctx, string(server))
	pipe.Del(ctx, string(workers))
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("removing the record of this server: %w", err)
	}
	return nil
}
