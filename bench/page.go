package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
)

// The schedules beside which pages are measured. The names of those that have run begin the list of all.
const (
	ranSchedules  = 50 // more than a page lists
	ranSchedule   = "ran-%02d"
	otherSchedule = "schedule-%d"
	ranTicks      = 40
)

// schedule adds the schedules, unless they are there: each ticks once an hour, and some have run.
func (s *stock) schedule(ctx context.Context, b *bench) error {
	if err := s.fill(ctx, b); err != nil || s.schedules {
		return err
	}
	s.schedules = true
	count := b.size.schedules
	fmt.Fprintf(b.progress, "  putting %s schedules\n", thousands(int64(count)))
	first := clock.Now().Add(time.Minute)
	return share(ctx, count, scheduleCallers, func(ctx context.Context, i int) error {
		at := first.Add(time.Duration(i) * time.Hour / time.Duration(count))
		if i >= ranSchedules {
			return putSchedule(ctx, s.node, fmt.Sprintf(otherSchedule, i), "1h", at)
		}
		id := fmt.Sprintf(ranSchedule, i)
		if err := putSchedule(ctx, s.node, id, "1h", at.Add(-(ranTicks+1)*time.Hour)); err != nil {
			return err
		}
		return s.backfill(ctx, id, at)
	})
}

// backfill runs the ticks of a schedule that came before a time.
func (s *stock) backfill(ctx context.Context, id string, until time.Time) error {
	answer, err := s.node.client.BackfillScheduleWithResponse(ctx, id, nil, wire.Backfill{
		From: wire.Time{Time: until.Add(-(ranTicks + 1) * time.Hour)}, To: wire.Time{Time: until.Add(-time.Hour)},
		Pace: new(wire.Duration("10ms")),
	})
	switch {
	case err != nil:
		return err
	case answer.JSON200 == nil || len(answer.JSON200.Entries) < ranTicks:
		return fmt.Errorf("running the past ticks of %s: %s: %.300s", id, answer.Status(), answer.Body)
	}
	return nil
}

// webPage is a page that is measured.
type webPage struct{ name, path string }

// webPages are the pages. task is the address of a task that has ended.
func webPages(task string) []webPage {
	return []webPage{
		{"overview", "/"}, {"schedules", "/schedules"},
		{"one schedule", "/schedules/default/" + fmt.Sprintf(ranSchedule, 0)}, {"tasks", "/tasks"},
		{"tasks of a queue and a type", "/tasks?queue=queue-3&type=type-2"}, {"one task", task}, {"queues", "/queues"},
		{"one queue", "/queues/default"}, {"nodes", "/nodes"},
	}
}

// pageRow measures the pages for people.
func pageRow(m *stock) row {
	var goals []goal
	for _, p := range webPages("") {
		goals = append(goals, atMost(p.name+", p99", 20), atMost(p.name+", size", 80))
	}
	return row{
		name: "page", goals: goals,
		title: "Pages for people beside 10,000 schedules, 1,000,000 tasks and 1,000 tasks/s (in the short form fewer)",
		method: "On the installation of the row `lists`, with schedules that tick once an hour; those that the first page " +
			"lists have run 40 times. One client asks for the pages over HTTP, one after the other, while 1,000 tasks/s run. " +
			"The time is that until the whole page has come.",
		stock: manyTasks, prepare: m.schedule,
		run: func(ctx context.Context, b *bench) (figures, error) {
			var f figures
			ended, err := m.endedTask(ctx)
			if err != nil {
				return nil, err
			}
			took, size := make(map[string][]float64), make(map[string]int)
			err = m.at(ctx, b, 1000, &f, func(ctx context.Context) error { return m.visit(ctx, webPages(ended), took, size) })
			for _, p := range webPages(ended) {
				f.add(p.name+", p50", percentile(took[p.name], 50), "ms")
				f.add(p.name+", p99", percentile(took[p.name], 99), "ms")
				f.add(p.name+", size", float64(size[p.name])/1024, "KiB")
			}
			f.add("pages of each", float64(len(took["overview"])), "")
			return f, err
		},
	}
}

// endedTask is the address of a task that has succeeded.
func (s *stock) endedTask(ctx context.Context) (path string, _ error) {
	params := client.ListTasksParams{State: wire.States{wire.StateSucceeded}, Limit: new(1)}
	err := poll(ctx, 100*time.Millisecond, time.Minute, "a task that has ended", func(ctx context.Context) (bool, error) {
		answer, err := s.node.client.ListTasksWithResponse(ctx, &params)
		if err != nil || answer.JSON200 == nil || len(answer.JSON200.Tasks) == 0 {
			return false, err
		}
		path = "/tasks/default/" + answer.JSON200.Tasks[0].ID
		return true, nil
	})
	return path, err
}

// visit asks for pages until ctx ends, and notes how long each took, in ms, and the largest size, in bytes.
func (s *stock) visit(ctx context.Context, pages []webPage, took map[string][]float64, size map[string]int) error {
	for ctx.Err() == nil {
		for _, p := range pages {
			began := clock.Now()
			bytes, err := s.get(ctx, p.path)
			switch {
			case err != nil && ctx.Err() != nil:
				return nil //nolint:nilerr // the end of ctx cut the request off
			case err != nil:
				return fmt.Errorf("the page %s: %w", p.name, err)
			}
			took[p.name] = append(took[p.name], milliseconds(clock.Since(began)))
			size[p.name] = max(size[p.name], bytes)
		}
	}
	return nil
}

// request sends a GET for a page, or for its stream.
func (s *stock) request(ctx context.Context, path, accept string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.node.url()+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	answer, err := callers.Do(request)
	if err == nil && answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close()
		err = fmt.Errorf("%s answers %s", path, answer.Status)
	}
	return answer, err
}

// get reads a page, and returns its size.
func (s *stock) get(ctx context.Context, path string) (bytes int, _ error) {
	answer, err := s.request(ctx, path, "text/html")
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return len(text), err
}

// viewers is how many watch the overview.
const viewers = 500

// viewersRow measures what those who watch the overview cost Redis.
func viewersRow(m *stock) row {
	const of = "Redis, of 500 viewers to one"
	return row{
		name: "page-viewers", title: "500 viewers of the overview, live, beside one",
		method: "On the installation of the row `page`, where nothing else is done. Each viewer has a stream of the " +
			"overview from the same node. Nobody: the same time without a viewer. The ratios are of what viewers cost beyond " +
			"that.",
		goals: []goal{atMost("commands of "+of, 1.2)},
		stock: manyTasks, prepare: m.schedule,
		run: func(ctx context.Context, b *bench) (figures, error) {
			loads := make(map[int]load)
			for _, n := range []int{0, 1, viewers} {
				var err error
				if loads[n], err = m.watched(ctx, b, n); err != nil {
					return nil, err
				}
			}
			var f figures
			nobody, one, many := loads[0], loads[1], loads[viewers]
			f.add("commands of "+of, (many.commands-nobody.commands)/(one.commands-nobody.commands), "x")
			f.add("CPU of "+of, (many.cpu-nobody.cpu)/(one.cpu-nobody.cpu), "x")
			f.add("nobody: commands", nobody.commands, "commands/s")
			f.add("one: commands", one.commands, "commands/s")
			f.add("500: commands", many.commands, "commands/s")
			f.add("nobody: CPU of Redis", nobody.cpu*100, "%")
			f.add("one: CPU of Redis", one.cpu*100, "%")
			f.add("500: CPU of Redis", many.cpu*100, "%")
			return f, nil
		},
	}
}

// watched measures the load of Redis while n viewers watch the overview.
func (s *stock) watched(ctx context.Context, b *bench, n int) (l load, _ error) {
	watching, leave := context.WithCancel(ctx)
	defer leave()
	var streams errgroup.Group
	sees := make(chan error, n)
	for range n {
		streams.Go(func() error { return s.watch(watching, sees) })
	}
	for range n {
		select {
		case err := <-sees:
			if err != nil {
				return l, err
			}
		case <-ctx.Done():
			return l, context.Cause(ctx)
		}
	}
	if err := clock.Sleep(ctx, settle); err != nil {
		return l, err
	}
	l, err := b.redis.window(ctx, b.size.window)
	if err != nil {
		return l, err
	}
	leave()
	return l, streams.Wait()
}

// settle is the time after which a page that nobody watches any more, or somebody now does, costs what it costs.
const settle = 2 * time.Second

// watch follows the stream of the overview until ctx ends. It tells sees when the first part has come, or why not.
func (s *stock) watch(ctx context.Context, sees chan<- error) error {
	answer, err := s.request(ctx, "/", "text/event-stream")
	if err != nil {
		sees <- err
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	seen := false
	for lines.Scan() {
		if !seen && strings.HasPrefix(lines.Text(), "data: ") {
			seen = true
			sees <- nil
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	err = fmt.Errorf("the stream of the overview has ended: %w", cmp.Or(lines.Err(), io.EOF))
	if !seen {
		sees <- err
	}
	return err
}
