package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/lua"
)

// listedPage is how many tasks the pages of listsRow have.
const listedPage = 50

// stock is what the rows have that measure lists and pages beside many tasks: one node, and 1,000,000 tasks that wait.
type stock struct {
	punctuality
	index     float64 // bytes of the index of lists, a task
	schedules bool    // there are 10,000 schedules, too
}

// manyTasks is the name of a stock.
const manyTasks = "many tasks"

// fill starts the node and stores the tasks, unless both is done.
func (s *stock) fill(ctx context.Context, b *bench) error {
	if s.node != nil {
		return nil
	}
	b.cleanup(func() error { *s = stock{}; return nil })
	if err := s.start(ctx, b); err != nil {
		return err
	}
	fmt.Fprintf(b.progress, "  storing %s tasks\n", thousands(int64(b.size.listed)))
	err := stow(ctx, s.node.url(), b.size.listed, func(i int) submission {
		s := plain()
		s.Namespace, s.Delay = "waiting", fmt.Sprintf("%ds", 24*3600+rand.IntN(24*3600))
		s.Queue, s.Type = fmt.Sprint("queue-", i%8), fmt.Sprint("type-", i%5)
		if i%1000 == 0 {
			s.Labels = map[string]string{"order": fmt.Sprint(i)}
		}
		return s
	})
	if err != nil {
		return err
	}
	s.index, err = s.awaitIndex(ctx, b, b.size.listed)
	return err
}

// listsRow measures pages of lists with filters beside other work.
func listsRow(m *stock) row {
	return row{
		name: "lists", title: "Pages of 50 beside 1,000,000 waiting tasks and 1,000 tasks/s (in the short form fewer)",
		method: "Tasks that are due in a day were stored over HTTP, of eight queues and five types; of each 1,000, one has " +
			"a label of its own. One client asks for pages over HTTP, one after the other, while 1,000 tasks/s run. Index: " +
			"what MEMORY USAGE says of its keys, for each task. Then a bulk action moves an eighth of the tasks that wait to " +
			"another queue, while 1,000 tasks/s run.",
		goals: []goal{
			atMost("page by queue and type, p99", 20), atMost("page by label, p99", 20),
			atMost("page by queue, sorted by creation, p99", 200), atMost("index, bytes a task", 24),
			atMost("p99 at 1,000/s", 25), atMost("p99 at 1,000/s beside a bulk action", 25),
		},
		stock: manyTasks, prepare: m.fill,
		run: func(ctx context.Context, b *bench) (figures, error) {
			var f figures
			pages := make(map[string][]float64)
			err := m.at(ctx, b, 1000, &f, func(ctx context.Context) error { return m.ask(ctx, b.size.listed, pages) })
			for _, kind := range listKinds(0) {
				f.add(kind.name+", p50", percentile(pages[kind.name], 50), "ms")
				f.add(kind.name+", p99", percentile(pages[kind.name], 99), "ms")
				f.add(kind.name+", pages", float64(len(pages[kind.name])), "")
			}
			if err == nil {
				err = m.besideBulk(ctx, b, &f)
			}
			f.add("index, bytes a task", m.index, "B")
			f.add("waiting", float64(b.size.listed), "tasks")
			return f, err
		},
	}
}

// listKind is a kind of list that is measured.
type listKind struct {
	name   string
	params client.ListTasksParams
	least  int // tasks on a page
}

// listKinds are the kinds, with a label that one of n tasks has.
func listKinds(n int) []listKind {
	namespace, queue, taskType := new("waiting"), new("queue-3"), new("type-2")
	sort, limit := new(wire.TaskSortCreated), new(listedPage)
	order := fmt.Sprintf("order=%d", 1000*rand.IntN(max(n/1000, 1)))
	return []listKind{
		{
			"page by queue and type",
			client.ListTasksParams{Namespace: namespace, Queue: queue, Type: taskType, Limit: limit}, listedPage,
		},
		{"page by label", client.ListTasksParams{Namespace: new("*"), Label: []string{order}, Limit: limit}, 1},
		{
			"page by queue, sorted by creation",
			client.ListTasksParams{Namespace: namespace, Queue: queue, Sort: sort, Limit: limit}, listedPage,
		},
	}
}

// ask asks for pages until ctx ends, and notes how long each took, in ms.
func (m *punctuality) ask(ctx context.Context, n int, pages map[string][]float64) error {
	for ctx.Err() == nil {
		for _, kind := range listKinds(n) {
			began := clock.Now()
			answer, err := m.node.client.ListTasksWithResponse(ctx, &kind.params)
			switch {
			case err != nil && ctx.Err() != nil:
				return nil //nolint:nilerr // the end of ctx cut the request off
			case err != nil:
				return err
			case answer.StatusCode() != http.StatusOK:
				return fmt.Errorf("%s: %s: %.300s", kind.name, answer.Status(), answer.Body)
			case len(answer.JSON200.Tasks) < kind.least || len(answer.JSON200.Warnings) > 0:
				return fmt.Errorf("%s: %d tasks, %q", kind.name, len(answer.JSON200.Tasks), answer.JSON200.Warnings)
			}
			pages[kind.name] = append(pages[kind.name], milliseconds(clock.Since(began)))
		}
		_ = clock.Sleep(ctx, 20*time.Millisecond)
	}
	return nil
}

// awaitIndex waits until lists lack nothing and the index has all of n tasks but some hundred of each partition, and
// returns its bytes a task.
func (m *punctuality) awaitIndex(ctx context.Context, b *bench, n int) (float64, error) {
	const noted = 300 // of a partition: fewer are not packed at once
	keys := lua.NewKeyspace("", 0)
	byLabel := listKinds(n)[1]
	err := poll(ctx, 500*time.Millisecond, 5*time.Minute, "the index of lists", func(ctx context.Context) (bool, error) {
		for p := range partitions {
			length, err := b.redis.db.LLen(ctx, string(keys.Partition(p).ListedNew())).Result()
			if err != nil || length == 0 || length > noted {
				return false, err
			}
			if swept, err := isSwept(ctx, b, keys.Partition(p)); err != nil || !swept {
				return false, err
			}
		}
		answer, err := m.node.client.ListTasksWithResponse(ctx, &byLabel.params)
		return err == nil && answer.JSON200 != nil && len(answer.JSON200.Warnings) == 0, err
	})
	bytes := int64(0)
	for p := range partitions {
		of := keys.Partition(p)
		all := []string{string(of.Listed()), string(of.ListedRows()), string(of.ListedLabels()), string(of.ListedNew())}
		for _, key := range all {
			used, errUsage := b.redis.db.MemoryUsage(ctx, key, 0).Result()
			if errUsage == nil {
				bytes += used
			}
		}
	}
	return float64(bytes) / float64(n), err
}

// isSwept reports whether only segments of the index of a partition have rows: those of replaced ones stay for seconds.
func isSwept(ctx context.Context, b *bench, of lua.Partition) (bool, error) {
	blocks, err := b.redis.db.HKeys(ctx, string(of.ListedRows())).Result()
	if err != nil {
		return false, err
	}
	for _, block := range blocks {
		segment, _, _ := strings.Cut(block, ".")
		if there, err := b.redis.db.HExists(ctx, string(of.Listed()), segment).Result(); err != nil || !there {
			return false, err
		}
	}
	return true, nil
}

// partitions is how many a new installation has.
const partitions = 16
