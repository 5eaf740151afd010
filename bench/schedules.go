package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// scheduleCallers is how many callers put schedules.
const scheduleCallers = 16

// putSchedule creates a schedule of the bench's type.
func putSchedule(ctx context.Context, n *node, id, every string, start time.Time) error {
	body, err := json.Marshal(map[string]any{
		"every": every, "start_at": start, "overlap": "allow", "task": map[string]any{"type": benchType, "payload": json.RawMessage(payload())},
	})
	if err != nil {
		return err
	}
	answer, err := n.client.PutScheduleWithBodyWithResponse(ctx, id, nil, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	if answer.StatusCode() >= http.StatusMultipleChoices {
		return fmt.Errorf("putting schedule %s: %s: %.300s", id, answer.Status(), answer.Body)
	}
	return nil
}

// tickLateness collects by how much handlers of ticks started after the tick, in ms.
type tickLateness struct {
	mu   sync.Mutex
	late []float64
}

func (t *tickLateness) handle(a executor.Attempt) {
	began := clock.Now()
	tick, err := time.Parse(time.RFC3339, a.Tick())
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.late = append(t.late, milliseconds(began.Sub(tick)))
}

func (t *tickLateness) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.late = nil
}

func (t *tickLateness) values() []float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]float64(nil), t.late...)
}

func schedulesRow() row {
	const window = 15 * time.Second
	return row{
		name: "schedules", title: "10,000 schedules (in the short form 1,000)",
		method: "Schedules of one minute each, their ticks spread evenly over it, on one full node. The first 15 s of ticks: from the tick to " +
			"the start of the handler, by this machine's clock.",
		run: func(ctx context.Context, b *bench) (figures, error) {
			ticks := &tickLateness{}
			n, err := b.startNode(ctx, nodeOptions{roles: fullNode, handle: ticks.handle})
			if err != nil {
				return nil, err
			}
			count := b.size.schedules
			before, err := b.redis.memory(ctx)
			if err != nil {
				return nil, err
			}
			begin := clock.Now()
			first := begin.Add(time.Duration(count)*time.Millisecond + 2*time.Second)
			err = share(ctx, count, scheduleCallers, func(ctx context.Context, i int) error {
				return putSchedule(ctx, n, fmt.Sprintf("schedule-%d", i), "1m", first.Add(time.Duration(i)*time.Minute/time.Duration(count)))
			})
			if err != nil {
				return nil, err
			}
			put := clock.Since(begin)
			if clock.Now().After(first) {
				return nil, fmt.Errorf("putting %d schedules took %s", count, put)
			}
			memory, err := b.settledMemory(ctx)
			if err != nil {
				return nil, err
			}
			if err := clock.Sleep(ctx, clock.Until(first)); err != nil {
				return nil, err
			}
			busy, err := b.redis.window(ctx, window)
			if err != nil {
				return nil, err
			}
			late := ticks.values()
			due := float64(count) * window.Minutes()
			var f figures
			f.add("puts", float64(count)/put.Seconds(), "schedules/s")
			f.add("memory of a schedule", (memory-before)/float64(count), "B")
			f.add("ticks that started", float64(len(late)), fmt.Sprintf("of about %.0f", due))
			f.add("tick to start p50", percentile(late, 50), "ms")
			f.add("tick to start p99", percentile(late, 99), "ms")
			f.add("commands", busy.commands, "commands/s")
			f.add("CPU of Redis", busy.cpu*100, "%")
			return f, nil
		},
	}
}

// dueEvery is the interval of the schedules of dueRow: in a round, they are due once.
const dueEvery = time.Minute

// dueRow is about schedules that are all due at one instant.
func dueRow() row {
	ticks := &tickLateness{}
	var first time.Time
	return row{
		name: "schedules-due", title: "60,000 schedules due at one instant (in the short form 6,000)",
		method: "Schedules of a minute each, whose ticks are at the same second, on one full node with 64 slots and no-op " +
			"handlers. From one such instant to the start of the handlers, by this machine's clock. Commands, with those " +
			"inside scripts, and CPU: from the instant to the last write about the last task.",
		goals: []goal{atMost("due to last begin", 4000)},
		prepare: func(ctx context.Context, b *bench) error {
			n, err := b.startNode(ctx, nodeOptions{roles: fullNode, handle: ticks.handle})
			if err != nil {
				return err
			}
			fmt.Fprintf(b.progress, "  putting %s schedules\n", thousands(int64(b.size.due)))
			first, err = putDue(ctx, n, b.size.due)
			return err
		},
		run: func(ctx context.Context, b *bench) (figures, error) {
			due := first
			for due.Before(clock.Now().Add(time.Second)) {
				due = due.Add(dueEvery)
			}
			return b.atDue(ctx, ticks, due)
		},
	}
}

// atDue measures the ticks of an instant.
func (b *bench) atDue(ctx context.Context, ticks *tickLateness, due time.Time) (figures, error) {
	if err := clock.Sleep(ctx, clock.Until(due)-50*time.Millisecond); err != nil {
		return nil, err
	}
	count := b.size.due
	ticks.reset()
	before, err := b.processed()
	if err != nil {
		return nil, err
	}
	spent, err := b.startCosts(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.awaitProcessed(ctx, before+count); err != nil {
		return nil, err
	}
	took := clock.Since(due)
	each, err := spent.perTask(ctx, count)
	if err != nil {
		return nil, err
	}
	late := ticks.values()
	if len(late) != count {
		return nil, fmt.Errorf("%d ticks of %d schedules started", len(late), count)
	}
	var f figures
	f.add("due to first begin", percentile(late, 0), "ms")
	f.add("due to half of the begins", percentile(late, 50), "ms")
	f.add("due to last begin", percentile(late, 100), "ms")
	f.add("due to last write", milliseconds(took), "ms")
	f.add("CPU of Redis", each.redis, "µs/tick")
	f.add("CPU of this process", each.self, "µs/tick")
	f.add("commands of Redis", each.commands, "a tick")
	return f, nil
}

// putDue puts schedules whose first tick is at one instant, which it returns. 1,000 schedules are put first to measure
// the rate. The instant is chosen from it.
func putDue(ctx context.Context, n *node, count int) (due time.Time, err error) {
	put := func(count int, due time.Time) error {
		return share(ctx, count, scheduleCallers, func(ctx context.Context, i int) error {
			return putSchedule(ctx, n, fmt.Sprintf("schedule-%d", i), dueEvery.String(), due)
		})
	}
	const tried = 1000
	begin := clock.Now()
	if err := put(tried, begin.Add(time.Hour)); err != nil {
		return due, err
	}
	each := clock.Since(begin) / tried
	due = clock.Now().Add(time.Duration(count) * each * 3 / 2).Add(3 * time.Second).Truncate(time.Second)
	if err := put(count, due); err != nil {
		return due, err
	}
	if !clock.Now().Before(due) {
		return due, fmt.Errorf("putting %d schedules took %s", count, clock.Since(begin))
	}
	return due, nil
}

func ledgerRow() row {
	const schedules = 10
	return row{
		name: "ledger", title: "Ledger of an on-time tick",
		method: "10 schedules of 100 ms each on one full node, for 20 s, so that each ledger has about 200 ticks. MEMORY USAGE of " +
			"all keys with `ledger` in their name, divided by the ticks that started.",
		goals: []goal{atMost("ledger of a tick", 20)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			ticks := &tickLateness{}
			n, err := b.startNode(ctx, nodeOptions{roles: fullNode, handle: ticks.handle})
			if err != nil {
				return nil, err
			}
			start := clock.Now().Add(time.Second)
			for i := range schedules {
				if err := putSchedule(ctx, n, fmt.Sprintf("schedule-%d", i), "100ms", start); err != nil {
					return nil, err
				}
			}
			want := schedules * int(b.size.ledgerTicks/(100*time.Millisecond))
			err = poll(ctx, 50*time.Millisecond, 2*b.size.ledgerTicks, fmt.Sprintf("%d ticks", want), func(context.Context) (bool, error) {
				return len(ticks.values()) >= want, nil
			})
			if err != nil {
				return nil, err
			}
			bytes, keys, err := b.memoryOf(ctx, "*ledger*")
			if err != nil {
				return nil, err
			}
			late := ticks.values()
			var f figures
			f.add("ledger of a tick", bytes/float64(len(late)), "B")
			f.add("keys", float64(keys), "")
			f.add("ticks", float64(len(late)), "")
			f.add("tick to start p50", percentile(late, 50), "ms")
			f.add("tick to start p99", percentile(late, 99), "ms")
			return f, nil
		},
	}
}

// memoryOf is the memory of all keys that match, and their number.
func (b *bench) memoryOf(ctx context.Context, match string) (bytes float64, keys int, err error) {
	found := b.redis.db.Scan(ctx, 0, match, 1000).Iterator()
	for found.Next(ctx) {
		used, err := b.redis.db.MemoryUsage(ctx, found.Val(), 0).Result()
		if err != nil {
			return 0, 0, err
		}
		bytes += float64(used)
		keys++
	}
	if err := found.Err(); err != nil {
		return 0, 0, err
	}
	if keys == 0 {
		return 0, 0, fmt.Errorf("no key matches %s", match)
	}
	return bytes, keys, nil
}
