package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/clock"
)

// greet prints the addresses of the node and a first command. addr has its base path. redis is where other processes
// reach the embedded Redis; "" is nowhere.
func greet(out io.Writer, addr, redis string) {
	fmt.Fprintf(out, `DTS runs on an embedded Redis, which keeps its data in memory only. Stop it with Ctrl-C.

  Page      http://%[1]s/
  API       http://%[1]s/v1/tasks     (described at http://%[1]s/docs)
  asynqmon  http://%[1]s/monitor
  Metrics   http://%[1]s/metrics
%[2]s
Try, in another terminal:
  go run ./cmd/dtsctl --server http://%[1]s task shell --wait -- echo hello

`, addr, redisLine(redis))
}

func redisLine(redis string) string {
	if redis == "" {
		return ""
	}
	return fmt.Sprintf("  Redis     redis://%s/0\n", redis)
}

// demo is what the demo shows on a node.
type demo struct {
	addr   string // of the node, with its base path
	shell  bool   // whether the node runs shell tasks
	health bool   // whether tasks may call the API of the node
}

// tasks returns the tasks that the demo submits.
func (d demo) tasks() []wire.Submission {
	all := []wire.Submission{
		d.task("hello", "0s", `echo "hello from $DTS_TASK_ID"`, `{}`),
		d.task("report", "0s",
			`for p in 10 30 50 70 90; do echo "::progress $p"; sleep 1.5; done; echo "42 rows"`, `{"sleep": "8s"}`),
		d.task("too-long", "0s", `echo "this takes an hour"; sleep 3600`, `{"sleep": "1h"}`),
		d.task("never", "1h", `echo "this will be cancelled before it starts"`, `{}`),
	}
	if d.shell {
		attempts := 3
		flaky := d.task("flaky", "500ms",
			`[ "$DTS_ATTEMPT" -lt 3 ] && { echo "attempt $DTS_ATTEMPT fails" >&2; exit 1; }; `+
				`echo "attempt $DTS_ATTEMPT succeeds"`, "")
		flaky.Retry = &wire.Retry{MaxAttempts: &attempts, Delays: []wire.Duration{"1s", "2s"}}
		all = append(all, flaky)
	}
	if d.health {
		payload := fmt.Appendf(nil, `{"method":"GET","url":"http://%s/healthz"}`, d.addr)
		all = append(all, wire.Submission{ID: ptr("health-check"), Type: "http", Payload: payload, Delay: ptr("2s")})
	}
	return all
}

// limited returns three tasks under the limit of the demo, which run one after the other, and one with a route.
func (d demo) limited() []wire.Submission {
	routed := d.task("routed", "0s", `echo "ran where the fewest tasks ran"`, `{}`)
	routed.Route = &wire.Route{By: ptr(wire.RouteLeastRunning)}
	all := []wire.Submission{routed}
	for _, id := range []string{"import-1", "import-2", "import-3"} {
		s := d.task(id, "0s", `sleep 8; echo "imported"`, `{"sleep": "8s"}`)
		s.LimitKey = ptr("tenant-7")
		all = append(all, s)
	}
	return all
}

// task returns a task that runs a script or, on a node that runs no shell tasks, pretends to.
func (d demo) task(id, delay, script, pretended string) wire.Submission {
	kind, payload := d.work(script, pretended)
	return wire.Submission{ID: &id, Type: kind, Payload: payload, Delay: &delay}
}

// work returns the type and the payload of a task.
func (d demo) work(script, pretended string) (kind string, payload json.RawMessage) {
	if !d.shell {
		return "noop", json.RawMessage(pretended)
	}
	payload, err := json.Marshal(map[string]any{"command": []string{"sh", "-c", script}})
	if err != nil {
		panic(err) // strings can be encoded
	}
	return "shell", payload
}

// definition is a schedule or a workflow, in JSON.
type definition struct{ id, text string }

// schedules are one that ticks, and whose tasks run most of the time, and one that fails until it pauses itself.
func (d demo) schedules() []definition {
	kind, pulse := d.work(`echo "tick $DTS_TICK"; echo "::progress 50 half of it"; sleep 3`, `{"sleep": "3s"}`)
	_, feed := d.work(`echo "feed: the disk is full" >&2; exit 1`, `{"fail": "feed: the disk is full"}`)
	return []definition{
		{"pulse", fmt.Sprintf(`{"every": "5s", "description": "runs for 3 seconds",
			"task": {"type": %q, "payload": %s}}`, kind, pulse)},
		{"feed", fmt.Sprintf(`{"every": "5s", "pause_on_failure": 3, "description": "fails, and then pauses itself",
			"task": {"type": %q, "payload": %s, "retry": {"max_attempts": 1}}}`, kind, feed)},
		{"etl", `{"every": "15s", "description": "runs the workflow etl",
			"task": {"type": "workflow", "payload": {"workflow": "etl"}}}`},
	}
}

// workflow is one whose steps read what others have found, and that decides by it.
func (d demo) workflow() definition {
	step := func(script, pretended string) string {
		kind, payload := d.work(script, pretended)
		return fmt.Sprintf(`{"type": %q, "payload": %s}`, kind, payload)
	}
	const text = `{"description": "counts rows, and loads them by one of two ways", "steps": [
		{"id": "extract", "task": %s},
		{"id": "clean", "needs": ["extract"], "task": %s},
		{"id": "count", "needs": ["extract"], "task": %s},
		{"id": "size", "needs": ["count"], "decide": [
			{"when": "steps.extract.attempt > 1", "then": ["load_parts"]}, {"then": ["load_all"]}]},
		{"id": "load_parts", "needs": ["size", "clean"], "task": %s},
		{"id": "load_all", "needs": ["size", "clean"], "task": %s}],
		"finally": [{"id": "tidy", "task": %s}]}`
	load := step(`sleep 2; echo "loaded"`, `{"sleep": "2s"}`)
	return definition{"etl", fmt.Sprintf(text,
		step(`sleep 1; echo "{\"rows\": 42}"`, `{"sleep": "1s"}`), step(`sleep 3; echo "clean"`, `{"sleep": "3s"}`),
		step(`sleep 1; echo "counted"`, `{"sleep": "1s"}`), load, load, step(`echo "tidy"`, `{}`))}
}

// demoCancels are the ids of the tasks that the demo cancels: one before it starts and one while it runs.
var demoCancels = []string{"never", "too-long"}

// demoCancelAfter is the time between the submissions and the cancellations.
const demoCancelAfter = 4 * time.Second

// show submits the tasks of the demo and prints the events of all tasks until ctx ends.
func (d demo) show(ctx context.Context, out io.Writer) error {
	c, err := client.NewClientWithResponses("http://" + d.addr)
	if err != nil {
		return err
	}
	answer, err := c.FollowEvents(ctx, nil)
	if err != nil {
		return fmt.Errorf("following events: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	fmt.Fprint(out, d.introduction())
	var g errgroup.Group
	g.Go(func() error { return d.submit(ctx, c) })
	g.Go(func() error { return printEvents(ctx, out, c, answer.Body) })
	return g.Wait()
}

// introduction says what will happen.
func (d demo) introduction() string {
	n := len(d.tasks()) + len(d.limited())
	if d.shell {
		return fmt.Sprintf("The demo submits %d tasks and three schedules. One ticks every 5 seconds, one runs a workflow, "+
			"and one\n"+
			"fails three times and pauses itself: the page says why. One task fails twice before it succeeds, two are\n"+
			"cancelled, and three wait for a limit of one at a time.\n\n", n)
	}
	return fmt.Sprintf("The demo submits %d tasks and three schedules. One runs a workflow, and one fails and pauses "+
		"itself. They only\n"+
		"pretend to work, as this node runs no shell tasks: that needs --enable-shell where others reach it. Two tasks are\n"+
		"cancelled, and three wait for a limit of one at a time.\n\n", n)
}

// submit submits the tasks and the schedules of the demo, and then cancels demoCancels.
func (d demo) submit(ctx context.Context, c *client.ClientWithResponses) error {
	if err := submitAll(ctx, c, d.tasks()); err != nil {
		return err
	}
	w := d.workflow()
	kept, err := c.PutWorkflowWithBodyWithResponse(ctx, w.id, nil, "application/json", strings.NewReader(w.text))
	if err != nil {
		return stopped(ctx, fmt.Errorf("putting %s: %w", w.id, err))
	}
	if kept.StatusCode() >= http.StatusBadRequest {
		return fmt.Errorf("putting %s: %s: %s", w.id, kept.Status(), kept.Body)
	}
	for _, s := range d.schedules() {
		put, err := c.PutScheduleWithBodyWithResponse(ctx, s.id, nil, "application/json", strings.NewReader(s.text))
		if err != nil {
			return stopped(ctx, fmt.Errorf("putting %s: %w", s.id, err))
		}
		if put.StatusCode() >= http.StatusBadRequest {
			return fmt.Errorf("putting %s: %s: %s", s.id, put.Status(), put.Body)
		}
	}
	if err := limit(ctx, c); err != nil {
		return err
	}
	if err := submitAll(ctx, c, d.limited()); err != nil {
		return err
	}
	if err := clock.Sleep(ctx, demoCancelAfter); err != nil {
		return stopped(ctx, err)
	}
	for _, id := range demoCancels {
		answer, err := c.CancelTaskWithResponse(ctx, id, nil)
		if err != nil {
			return stopped(ctx, fmt.Errorf("cancelling %s: %w", id, err))
		}
		if answer.StatusCode() >= http.StatusBadRequest {
			return fmt.Errorf("cancelling %s: %s: %s", id, answer.Status(), answer.Body)
		}
	}
	return nil
}

// submitAll submits tasks. If ctx has ended, it returns nil.
func submitAll(ctx context.Context, c *client.ClientWithResponses, all []wire.Submission) error {
	for _, s := range all {
		answer, err := c.SubmitTaskWithResponse(ctx, nil, s)
		if err != nil {
			return stopped(ctx, fmt.Errorf("submitting %s: %w", *s.ID, err))
		}
		if answer.StatusCode() != http.StatusCreated {
			return fmt.Errorf("submitting %s: %s: %s", *s.ID, answer.Status(), answer.Body)
		}
	}
	return nil
}

// demoLimitWithin is how long the node may refuse a limit: until it knows that no node of an earlier release lives.
const demoLimitWithin = 20 * time.Second

// limit lets one task of each limit key run at once.
func limit(ctx context.Context, c *client.ClientWithResponses) error {
	for began := clock.Now(); ; {
		set, err := c.SetLimitWithResponse(ctx, "key:*", nil, wire.LimitRule{Slots: ptr(1)})
		switch {
		case err != nil:
			return stopped(ctx, fmt.Errorf("setting a limit: %w", err))
		case set.StatusCode() < http.StatusBadRequest:
			return nil
		case clock.Since(began) > demoLimitWithin:
			return fmt.Errorf("setting a limit: %s: %s", set.Status(), set.Body)
		}
		if err := clock.Sleep(ctx, 200*time.Millisecond); err != nil {
			return stopped(ctx, err)
		}
	}
}

// printEvents prints the events in body until it ends.
func printEvents(ctx context.Context, out io.Writer, c *client.ClientWithResponses, body io.Reader) error {
	stream := client.NewStream(body)
	for {
		m, err := stream.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return stopped(ctx, err)
		}
		var e wire.Event
		if json.Unmarshal(m.Data, &e) == nil && m.Name != "dropped" {
			printEvent(ctx, out, c, m.Name, e)
		}
	}
}

// printEvent prints one event as a line.
func printEvent(ctx context.Context, out io.Writer, c *client.ClientWithResponses, name string, e wire.Event) {
	line := fmt.Sprintf("%s  %-16s %-26s attempt %d", e.At.Local().Format("15:04:05.000"), name, e.Task, e.Attempt)
	if e.Progress != nil {
		line += fmt.Sprintf("  %d %%", *e.Progress)
	}
	if e.Error != nil {
		line += "  " + *e.Error
	}
	if e.State == "succeeded" {
		line += result(ctx, c, e.Task)
	}
	fmt.Fprintln(out, printer.Flat(printer.Harmless(line)))
}

// result returns "  -> " and the result of a task, or "" if it has none or cannot be read.
func result(ctx context.Context, c *client.ClientWithResponses, id string) string {
	answer, err := c.GetTaskWithResponse(ctx, id, nil)
	if err != nil || answer.JSON200 == nil || answer.JSON200.Result == nil {
		return ""
	}
	return "  -> " + *answer.JSON200.Result
}

// stopped returns nil if ctx has ended, because err is then a consequence of the end, else err.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

func ptr[T any](v T) *T { return &v }
