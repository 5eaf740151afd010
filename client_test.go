package dts_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestClient_RunsATaskAndTellsWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		ctx := t.Context()
		submitted, err := c.Submit(ctx, dts.Submission{ID: "a", Type: "noop", Payload: map[string]string{"sleep": "1ms"}, Owner: "ada", Labels: map[string]string{"k": "v"}})
		testkit.Must(t, err)
		if submitted.ID != "a" || submitted.State != dts.StateScheduled || submitted.CreatedAt.IsZero() {
			t.Errorf("submitted: %+v", submitted)
		}
		ended, err := c.Wait(ctx, "a")
		testkit.Must(t, err)
		if ended.State != dts.StateSucceeded || ended.Attempt != 1 || ended.Owner != "ada" || ended.Labels["k"] != "v" || ended.FinishedAt.IsZero() {
			t.Errorf("ended: %+v", ended)
		}
		if got := string(ended.Payload); got != `{"sleep":"1ms"}` {
			t.Errorf("the payload is %s", got)
		}
		again, err := c.Submit(ctx, dts.Submission{ID: "a", Type: "noop", Payload: json.RawMessage(`{"sleep":"1ms"}`), Owner: "ada", Labels: map[string]string{"k": "v"}})
		testkit.Must(t, err)
		if diff := cmp.Diff(ended, again); diff != "" {
			t.Errorf("the same submission again returns (-ended +again):\n%s", diff)
		}
		attempts, err := c.Attempts(ctx, "a")
		testkit.Must(t, err)
		if len(attempts) != 1 || attempts[0].Outcome != dts.OutcomeSucceeded || attempts[0].Node != ended.Node {
			t.Errorf("attempts: %+v", attempts)
		}
	})
}

func TestClient_ReturnsCodesAndFields(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		ctx := t.Context()
		_, err := c.Submit(ctx, dts.Submission{ID: "x", Type: "noop", Delay: time.Hour})
		testkit.Must(t, err)
		get := func(id string) error { _, err := c.Get(ctx, id); return err }
		submit := func(s dts.Submission) error { _, err := c.Submit(ctx, s); return err }
		for name, row := range map[string]struct {
			err   error
			code  dts.Code
			field string
		}{
			"no such task":         {get("nobody"), dts.CodeTaskNotFound, ""},
			"other content":        {submit(dts.Submission{ID: "x", Type: "noop"}), dts.CodeTaskConflict, ""},
			"no type":              {submit(dts.Submission{}), dts.CodeInvalid, "type"},
			"bad payload":          {submit(dts.Submission{Type: "noop", Payload: map[string]int{"sleep": 1}}), dts.CodeInvalid, "payload.sleep"},
			"bad grpc payload":     {submit(dts.Submission{Type: "grpc", Payload: map[string]string{"target": "orders"}}), dts.CodeInvalid, "payload.target"},
			"payload not JSON":     {submit(dts.Submission{Type: "noop", Payload: func() {}}), dts.CodeInvalid, "payload"},
			"part of a ms":         {submit(dts.Submission{Type: "noop", Delay: time.Microsecond}), dts.CodeInvalid, "delay"},
			"bad backoff":          {submit(dts.Submission{Type: "noop", Retry: dts.Retry{Backoff: dts.Backoff{Factor: 0.5}}}), dts.CodeInvalid, "retry.backoff.factor"},
			"an id with a blank":   {submit(dts.Submission{Type: "noop", ID: "a b"}), dts.CodeInvalid, "id"},
			"retry of one at work": {func() error { _, err := c.Retry(ctx, "x"); return err }(), dts.CodeTaskNotFinished, ""},
			"no such schedule":     {func() error { _, err := c.GetSchedule(ctx, "nobody"); return err }(), dts.CodeScheduleNotFound, ""},
			"no such queue":        {c.PauseQueue(ctx, "nobody"), dts.CodeQueueNotFound, ""},
		} {
			var e *dts.Error
			if !errors.As(row.err, &e) || e.Code != row.code || e.Field != row.field || e.Message == "" {
				t.Errorf("%s: got %#v, want %s for %q", name, row.err, row.code, row.field)
			}
		}
	})
}

func TestClient_SubmitsManyAndListsThem(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		const n = 2345
		many := make([]dts.Submission, n)
		for i := range many {
			many[i] = dts.Submission{ID: fmt.Sprintf("m-%04d", i), Type: "noop", Delay: time.Hour, Queue: "low"}
		}
		many[7].Type, many[1500].Payload = "", func() {}
		results, err := c.SubmitMany(t.Context(), many)
		testkit.Must(t, err)
		for i, r := range results {
			if refused := i == 7 || i == 1500; refused != (r.Err != nil) || refused != (r.Task == nil) || r.Existed {
				t.Fatalf("%d: %+v", i, r)
			}
		}
		if code := dts.CodeOf(results[7].Err); code != dts.CodeInvalid {
			t.Errorf("7 was refused with %q: %v", code, results[7].Err)
		}
		seen := make(map[string]bool)
		for task, err := range c.List(t.Context(), dts.TaskFilter{Queue: "low", States: []dts.State{dts.StateScheduled}}) {
			testkit.Must(t, err)
			seen[task.ID] = true
		}
		if len(seen) != n-2 {
			t.Errorf("the list has %d tasks, want %d", len(seen), n-2)
		}
		for _, err := range c.List(t.Context(), dts.TaskFilter{}) { // an iteration that is broken off ends quietly
			testkit.Must(t, err)
			break
		}
		results, err = c.SubmitMany(t.Context(), many[:3])
		testkit.Must(t, err)
		if !results[0].Existed || results[0].Task.ID != "m-0000" {
			t.Errorf("again: %+v", results[0])
		}
	})
}

func TestClient_ChangesCancelsAndRetries(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		ctx := t.Context()
		_, err := c.Submit(ctx, dts.Submission{ID: "a", Type: "noop", Delay: time.Hour})
		testkit.Must(t, err)
		changed, err := c.Change(ctx, "a", dts.TaskChange{Queue: new("low"), Delay: new(2 * time.Hour), Payload: map[string]string{"sleep": "2ms"}})
		testkit.Must(t, err)
		if changed.Queue != "low" || string(changed.Payload) != `{"sleep":"2ms"}` || !changed.RunAt.After(changed.CreatedAt.Add(time.Hour)) {
			t.Errorf("changed: %+v", changed)
		}
		cancelled, err := c.Cancel(ctx, "a")
		testkit.Must(t, err)
		if cancelled.State != dts.StateCancelled {
			t.Errorf("cancelled: %+v", cancelled)
		}
		_, err = c.Retry(ctx, "a")
		testkit.Must(t, err)
		ended, err := c.Wait(ctx, "a")
		testkit.Must(t, err)
		if ended.State != dts.StateSucceeded {
			t.Errorf("after the retry: %+v", ended)
		}
		if _, err := c.Cancel(ctx, "a"); dts.CodeOf(err) != dts.CodeTaskFinished {
			t.Errorf("cancelling an ended task: %v", err)
		}
	})
}

func TestClient_FollowsEvents(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		var types []string
		for e, err := range c.Events(t.Context(), dts.TaskFilter{}) {
			testkit.Must(t, err)
			types = append(types, e.Type)
			if e.Type == dts.EventConnected {
				_, err := c.Submit(t.Context(), dts.Submission{ID: "a", Type: "noop"})
				testkit.Must(t, err)
			}
			if e.State.Final() {
				break
			}
		}
		want := []string{dts.EventConnected, "task.scheduled", "task.queued", "task.running", "task.succeeded"}
		if diff := cmp.Diff(want, types); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestClient_FollowsTheEventsOfAllNamespaces(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		for e, err := range c.In("*").Events(t.Context(), dts.TaskFilter{}) {
			testkit.Must(t, err)
			if e.Type == dts.EventConnected {
				_, err := c.In("other").Submit(t.Context(), dts.Submission{Type: "noop", Delay: time.Hour})
				testkit.Must(t, err)
				continue
			}
			if e.Namespace != "other" {
				t.Errorf("got %+v", e)
			}
			break
		}
	})
}

func TestClient_StopsFollowingWithItsContext(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		for e, err := range c.Events(ctx, dts.TaskFilter{}) {
			testkit.Must(t, err)
			if e.Type == dts.EventConnected {
				cancel()
			}
		}
		_, err := c.Submit(t.Context(), dts.Submission{ID: "a", Type: "noop", Delay: time.Hour})
		testkit.Must(t, err)
		ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := c.Wait(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait returned %v", err)
		}
		for _, err := range c.FollowLogs(t.Context(), "nobody") {
			if dts.CodeOf(err) != dts.CodeTaskNotFound {
				t.Errorf("the log of no task: %v", err)
			}
		}
	})
}

// It yields all lines that can be read, and then says that there are others.
func TestFollowLogs_EndsWithWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	c, err := dts.Dial(f.address)
	testkit.Must(t, err)
	defer func() { testkit.Must(t, c.Close()) }()
	_, err = c.Submit(t.Context(), dts.Submission{ID: "a", Type: "noop"})
	testkit.Must(t, err)
	_, err = c.Wait(t.Context(), "a")
	testkit.Must(t, err)
	options, err := redis.ParseURL(f.redis)
	testkit.Must(t, err)
	db := redis.NewClient(options)
	defer func() { testkit.Must(t, db.Close()) }()
	for p := range 16 { // the partitions: the task is in one of them
		line := &redis.XAddArgs{Stream: fmt.Sprintf("dts:{%d}:log:default:a", p), ID: "9-9", Values: []string{"text", "x"}}
		testkit.Must(t, db.XAdd(t.Context(), line).Err())
	}
	var failures []error
	for line, err := range c.FollowLogs(t.Context(), "a") {
		if err == nil {
			t.Errorf("got the line %+v", line)
		}
		failures = append(failures, err)
	}
	if len(failures) != 1 || dts.CodeOf(failures[0]) != dts.CodeDataUnreadable {
		t.Errorf("it ends with %v", failures)
	}
}

func TestClient_KeepsSchedules(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		ctx := t.Context()
		definition := dts.ScheduleDefinition{
			Cron: "30 2 * * MON-FRI", Timezone: "Europe/Berlin", Exclude: []string{"2099-12-25"}, Jitter: time.Minute, MaxRuns: 9,
			Misfire: dts.Misfire{Policy: dts.MisfireAll, Window: 2 * time.Hour, Max: 3}, Overlap: dts.OverlapQueue, PauseOnFailure: 5,
			StartAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), EndAt: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC),
			Owner: "ada", Description: "tidies up", Labels: map[string]string{"team": "ops"},
			Task: dts.TaskTemplate{
				Type: "noop", Queue: "low", Payload: json.RawMessage(`{"sleep":"1ms"}`), Timeout: time.Minute, Retention: time.Hour,
				Owner: "bob", Labels: map[string]string{"k": "v"},
				Retry: dts.Retry{MaxAttempts: 3, MaxElapsed: time.Hour, Backoff: dts.Backoff{Initial: time.Second, Factor: 3, Max: time.Minute, Jitter: new(0.5)}},
			},
		}
		put, err := c.PutSchedule(ctx, "nightly", definition)
		testkit.Must(t, err)
		if diff := cmp.Diff(definition, put.Definition); diff != "" {
			t.Errorf("the definition (-put +answered):\n%s", diff)
		}
		if _, err := c.PutSchedule(ctx, "nightly", definition, dts.IfAbsent()); dts.CodeOf(err) != dts.CodeScheduleChanged {
			t.Errorf("IfAbsent: %v", err)
		}
		definition.Owner = "eve"
		dry, err := c.PutSchedule(ctx, "nightly", definition, dts.DryRun(), dts.IfRevision(1))
		testkit.Must(t, err)
		if _, err := c.PutSchedule(ctx, "nightly", definition, dts.IfRevision(2)); dts.CodeOf(err) != dts.CodeScheduleChanged {
			t.Errorf("IfRevision: %v", err)
		}
		got, err := c.GetSchedule(ctx, "nightly")
		testkit.Must(t, err)
		if dry.Revision != 2 || got.Revision != 1 || got.Definition.Owner != "ada" {
			t.Errorf("after a dry run: revision %d, dry %d, owner %s", got.Revision, dry.Revision, got.Definition.Owner)
		}
		_, err = c.PutSchedule(ctx, "nightly", definition, dts.Paused(true))
		testkit.Must(t, err)
		paused := collect(t, c.ListSchedules(ctx, dts.ScheduleFilter{Paused: new(true), Owner: "eve", Labels: map[string]string{"team": "ops"}}))
		if len(paused) != 1 || paused[0].ID != "nightly" || paused[0].PausedAt.IsZero() {
			t.Errorf("paused: %+v", paused)
		}
		rolled, err := c.RollbackSchedule(ctx, "nightly", 1)
		testkit.Must(t, err)
		revisions, err := c.ScheduleRevisions(ctx, "nightly")
		testkit.Must(t, err)
		if rolled.Definition.Owner != "ada" || len(revisions) != 3 || revisions[1].Definition.Owner != "eve" || revisions[2].Until.IsZero() {
			t.Errorf("rolled back to %s with %d revisions", rolled.Definition.Owner, len(revisions))
		}
		ticks, err := c.UpcomingTicks(ctx, "nightly", 3)
		testkit.Must(t, err)
		if len(ticks) != 3 || !strings.Contains(ticks[0].Local, "T02:30:00") {
			t.Errorf("next ticks: %+v", ticks)
		}
		deleted, err := c.DeleteSchedule(ctx, "nightly", "")
		testkit.Must(t, err)
		if deleted != (dts.Deletion{}) {
			t.Errorf("deleted: %+v", deleted)
		}
	})
}

func TestClient_ProvesWhatAScheduleDid(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		ctx := t.Context()
		_, err := c.PutSchedule(ctx, "often", dts.ScheduleDefinition{Every: 100 * time.Millisecond, MaxRuns: 3, Task: dts.TaskTemplate{Type: "noop"}, Overlap: dts.OverlapAllow})
		testkit.Must(t, err)
		testkit.Eventually(t, "the schedule ends and its tasks with it", func() bool {
			s, err := c.GetSchedule(ctx, "often")
			testkit.Must(t, err)
			return !s.EndedAt.IsZero() && s.Live == 0
		})
		entries := collect(t, c.ScheduleLedger(ctx, "often", dts.LedgerFilter{}))
		if len(entries) != 3 || entries[0].Outcome != dts.TickFired || entries[0].Task == "" {
			t.Errorf("ledger: %+v", entries)
		}
		audit, err := c.AuditSchedule(ctx, "often", time.Time{}, time.Time{})
		testkit.Must(t, err)
		want := dts.AuditReport{Expected: 3, Accounted: 3, Outcomes: map[dts.TickOutcome]int{dts.TickFired: 3}, Proved: true}
		if diff := cmp.Diff(want, audit, cmpopts.IgnoreFields(dts.AuditReport{}, "From", "To"), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("audit (-want +got):\n%s", diff)
		}
		run, err := c.TriggerSchedule(ctx, "often")
		testkit.Must(t, err)
		if run.Outcome != dts.TickTriggered || run.Task == "" {
			t.Errorf("triggered: %+v", run)
		}
		_, left, err := c.BackfillSchedule(ctx, "often", dts.Backfill{From: entries[2].Tick, To: entries[0].Tick, Pace: new(time.Duration)})
		testkit.Must(t, err)
		if left != 3 {
			t.Errorf("backfill left %d ticks alone, want 3", left)
		}
	})
}

func TestClient_KnowsTheFleet(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		nodes, err := c.Nodes(t.Context())
		testkit.Must(t, err)
		if len(nodes) != 1 || nodes[0].State != "alive" || nodes[0].Capacity == 0 || nodes[0].Queues["default"] == 0 || len(nodes[0].Types) == 0 {
			t.Errorf("nodes: %+v", nodes)
		}
		queues, err := c.Queues(t.Context())
		testkit.Must(t, err)
		if len(queues) != 3 {
			t.Errorf("queues: %+v", queues)
		}
		testkit.Must(t, c.PauseQueueWithNote(t.Context(), "low", "the mail server moves"))
		queues, err = c.Queues(t.Context())
		testkit.Must(t, err)
		low := queues[slices.IndexFunc(queues, func(q dts.Queue) bool { return q.Name == "low" })]
		if !low.Paused || low.PausedAt.IsZero() || low.PauseNote != "the mail server moves" {
			t.Errorf("the paused queue: %+v", low)
		}
		err = c.PauseQueueWithNote(t.Context(), "low", strings.Repeat("x", 1000))
		if dts.CodeOf(err) != dts.CodeInvalid {
			t.Errorf("a long note: %v", err)
		}
		testkit.Must(t, c.ResumeQueue(t.Context(), "low"))
		task, err := c.Submit(t.Context(), dts.Submission{Type: "nobody", Delay: time.Hour})
		testkit.Must(t, err)
		if len(task.Warnings) != 1 || !strings.Contains(task.Warnings[0], `"nobody"`) {
			t.Errorf("warnings of a type that nobody runs: %q", task.Warnings)
		}
		namespaces, err := c.Namespaces(t.Context())
		testkit.Must(t, err)
		if !slices.ContainsFunc(namespaces, func(n dts.Namespace) bool { return n.Name == task.Namespace && !n.LastSubmittedAt.IsZero() }) {
			t.Errorf("namespaces: %+v", namespaces)
		}
	})
}

func TestClient_SetsTheCapacityOfAQueue(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		queue := rand.Text() // that nobody serves
		testkit.Must(t, c.SetQueueCapacity(t.Context(), queue, 1))
		submit := func() error {
			_, err := c.Submit(t.Context(), dts.Submission{Type: "noop", Queue: queue})
			return err
		}
		testkit.Must(t, submit())
		testkit.Eventually(t, "it waits, after the leader has found that nobody serves the queue", func() bool {
			queues, err := c.Queues(t.Context())
			testkit.Must(t, err)
			return slices.ContainsFunc(queues, func(q dts.Queue) bool { return q.Name == queue && q.Waiting == 1 })
		})
		if err := submit(); dts.CodeOf(err) != dts.CodeQueueFull {
			t.Errorf("beyond the capacity: %v", err)
		}
		queues, err := c.Queues(t.Context())
		testkit.Must(t, err)
		if !slices.ContainsFunc(queues, func(q dts.Queue) bool {
			return q.Name == queue && q.Capacity == 1 && q.Limit == 1
		}) {
			t.Errorf("queues: %+v", queues)
		}
		testkit.Must(t, c.LimitQueue(t.Context(), queue, 0)) // the old name
		if err := submit(); err != nil {
			t.Errorf("without a capacity: %v", err)
		}
	})
}

func TestDial_RefusesWhatIsNoAddress(t *testing.T) {
	t.Parallel()
	if _, err := dts.Dial("ftp://x"); dts.CodeOf(err) != dts.CodeInvalid {
		t.Errorf("got %v", err)
	}
	c, err := dts.Dial("http://127.0.0.1:1")
	testkit.Must(t, err)
	if _, err := c.Get(t.Context(), "a"); dts.CodeOf(err) != dts.CodeUnavailable {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestOpen_RefusesWhatIsNoRedis(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	for url, code := range map[string]dts.Code{"http://x": dts.CodeInvalid, "redis://127.0.0.1:1": dts.CodeUnavailable} {
		if _, err := dts.Open(url); dts.CodeOf(err) != code {
			t.Errorf("%s: got %v, want %s", url, err, code)
		}
	}
}

func TestClient_CloseEndsWhatWaits(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for name, connect := range map[string]func() (*dts.Client, error){
		"dial": func() (*dts.Client, error) { return dts.Dial(f.address) },
		"open": func() (*dts.Client, error) { return dts.Open(f.redis) },
	} {
		c, err := connect()
		testkit.Must(t, err)
		_, err = c.In(name).Submit(t.Context(), dts.Submission{ID: "a", Type: "noop", Delay: time.Hour})
		testkit.Must(t, err)
		ends := make(chan error, 3)
		connected := make(chan struct{})
		go func() { _, err := c.In(name).Wait(t.Context(), "a"); ends <- err }()
		go func() {
			for _, err := range c.In(name).FollowLogs(t.Context(), "a") {
				ends <- err
			}
		}()
		go func() {
			for e, err := range c.Events(t.Context(), dts.TaskFilter{}) {
				if e.Type == dts.EventConnected {
					close(connected)
					continue
				}
				ends <- err
			}
		}()
		testkit.Receive(t, connected, "the feed")
		testkit.Must(t, c.Close())
		for range 3 {
			if err := testkit.Receive(t, ends, name); !errors.Is(err, dts.ErrClosed) {
				t.Errorf("%s: it ended with %v", name, err)
			}
		}
		for call, err := range map[string]error{
			"Get":    func() error { _, err := c.Get(t.Context(), "a"); return err }(),
			"Submit": func() error { _, err := c.Submit(t.Context(), dts.Submission{Type: "noop"}); return err }(),
			"Close":  errors.Join(dts.ErrClosed, c.Close()),
		} {
			if !errors.Is(err, dts.ErrClosed) {
				t.Errorf("%s: %s after Close: %v", name, call, err)
			}
		}
	}
}

func TestClient_ReturnsTheErrorOfTheContext(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		ctx, cancel := context.WithCancelCause(t.Context())
		own := errors.New("a reason of its own")
		cancel(own)
		_, get := c.Get(ctx, "a")
		_, submit := c.Submit(ctx, dts.Submission{ID: "a", Type: "noop"})
		_, lock := c.Lock(ctx, "a", time.Minute)
		_, wait := c.Wait(ctx, "a")
		results, many := c.SubmitMany(ctx, []dts.Submission{{ID: "a", Type: "noop"}, {ID: "b", Type: "noop"}})
		for call, err := range map[string]error{"Get": get, "Submit": submit, "Lock": lock, "Wait": wait, "SubmitMany": many, "its second": results[1].Err} {
			if err := mustBe(err, context.Canceled, own); err != nil {
				t.Errorf("%s: %v", call, err)
			}
		}
		if _, err := c.Get(t.Context(), "a"); dts.CodeOf(err) != dts.CodeTaskNotFound {
			t.Errorf("it was submitted: %v", err)
		}
	})
}

func TestClient_RefusesPayloadsAloneAndAlike(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		results, err := c.SubmitMany(t.Context(), []dts.Submission{
			{ID: "a", Type: "noop"},
			{ID: "b", Type: "noop", Payload: strings.Repeat("x", 10<<20)},
			{ID: "c", Type: "noop", Payload: json.RawMessage(`{"a":1,"a":2}`)},
			{ID: "d", Type: "noop", Payload: json.RawMessage(`{bad`)},
			{ID: "e", Type: "noop", Payload: json.RawMessage(`"\ud800"`)},
			{ID: "f", Type: "noop"},
		})
		testkit.Must(t, err)
		for i, r := range results {
			var e *dts.Error
			refused := errors.As(r.Err, &e) && e.Code == dts.CodeInvalid && e.Field == "payload"
			if wanted := i > 0 && i < 5; refused != wanted || wanted == (r.Task != nil) {
				t.Errorf("%d: %v, %+v", i, r.Err, r.Task)
			}
		}
	})
}
