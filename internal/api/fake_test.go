package api

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
)

// start is when the fake's time begins; each task is created a second after the one before.
var start = time.Date(2026, 1, 2, 15, 4, 5, 120_000_000, time.UTC)

// fakeStore is a small store in memory that obeys the rules of the real one.
type fakeStore struct {
	mu       sync.Mutex
	tasks    map[task.Ref]*task.Task
	asked    map[task.Ref]task.Definition // what the task was submitted as
	order    []task.Ref
	attempts map[task.Ref][]task.Attempt
	logs     map[task.Ref][]task.LogLine

	fault error                 // if set, every call fails with it
	hold  func(context.Context) // if set, called first by Get
}

func newFakeStore() *fakeStore {
	return &fakeStore{
		tasks: map[task.Ref]*task.Task{}, asked: map[task.Ref]task.Definition{},
		attempts: map[task.Ref][]task.Attempt{}, logs: map[task.Ref][]task.LogLine{},
	}
}

func (f *fakeStore) Create(_ context.Context, defs []task.Definition) []store.Created {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]store.Created, len(defs))
	for i, d := range defs {
		out[i] = f.create(d)
	}
	return out
}

func (f *fakeStore) create(d task.Definition) store.Created {
	if f.fault != nil {
		return store.Created{Err: f.fault}
	}
	d = d.Normalize()
	if d.ID == "" {
		d.ID = fmt.Sprintf("made-%d", len(f.order))
	}
	created := start.Add(time.Duration(len(f.order)) * time.Second)
	if err := d.Validate(created); err != nil {
		return store.Created{Err: err}
	}
	if old, ok := f.tasks[d.Ref]; ok {
		if !reflect.DeepEqual(f.asked[d.Ref], d) {
			return store.Created{Err: task.Errorf(task.CodeTaskConflict, "the id %q is taken", d.ID)}
		}
		return store.Created{Task: *old, Existed: true}
	}
	t := &task.Task{Definition: d, State: task.Scheduled, Allowed: d.Retry.Attempts(), CreatedAt: created, DueAt: d.FirstDue(created)}
	f.tasks[d.Ref], f.asked[d.Ref] = t, d
	f.order = append(f.order, d.Ref)
	return store.Created{Task: *t}
}

// find is the task, with the lock held by the caller.
func (f *fakeStore) find(ref task.Ref) (*task.Task, error) {
	if f.fault != nil {
		return nil, f.fault
	}
	t, ok := f.tasks[ref]
	if !ok {
		return nil, task.Errorf(task.CodeTaskNotFound, "no task %q in namespace %q", ref.ID, ref.Namespace)
	}
	return t, nil
}

func (f *fakeStore) Get(ctx context.Context, ref task.Ref) (task.Task, error) {
	if f.hold != nil {
		f.hold(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.find(ref)
	if err != nil {
		return task.Task{}, err
	}
	return *t, ctx.Err()
}

func (f *fakeStore) List(_ context.Context, want store.Filter, limit int, cursor string) (store.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault != nil {
		return store.Page{}, f.fault
	}
	from := len(f.order)
	if cursor != "" {
		n, err := strconv.Atoi(cursor)
		if err != nil || n < 0 || n > from {
			return store.Page{}, task.Invalid("cursor", "%q is not a cursor of this list", cursor)
		}
		from = n
	}
	var page store.Page
	for i := from - 1; i >= 0; i-- {
		t := f.tasks[f.order[i]]
		if !matches(want, t) {
			continue
		}
		if len(page.Tasks) == limit {
			page.NextCursor = strconv.Itoa(i + 1)
			break
		}
		page.Tasks = append(page.Tasks, *t)
	}
	return page, nil
}

func matches(f store.Filter, t *task.Task) bool {
	same := func(want, is string) bool { return want == "" || want == is }
	return f.Namespace == t.Namespace && (len(f.States) == 0 || slices.Contains(f.States, t.State)) &&
		same(f.Queue, t.Queue) && same(f.Type, t.Type) && same(f.Owner, t.Owner) && same(f.Node, t.Node) &&
		same(f.Schedule, creatorOf(t.Ref))
}

func (f *fakeStore) Update(_ context.Context, ref task.Ref, c store.Change) (task.Task, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.find(ref)
	switch {
	case err != nil:
		return task.Task{}, err
	case t.State != task.Scheduled:
		return task.Task{}, task.Errorf(task.CodeNotWaiting, "it is %s", t.State)
	case c.RunAt != nil && c.Delay != nil:
		return task.Task{}, task.Invalid("delay", "give run_at or delay, not both")
	}
	if c.RunAt != nil {
		t.DueAt = *c.RunAt
	}
	if c.Delay != nil {
		t.DueAt = start.Add(*c.Delay)
	}
	if c.Queue != nil {
		t.Queue = *c.Queue
	}
	if c.Payload != nil {
		t.Payload = c.Payload
	}
	return *t, nil
}

func (f *fakeStore) Cancel(_ context.Context, ref task.Ref) (task.Task, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.find(ref)
	switch {
	case err != nil:
		return task.Task{}, err
	case t.State == task.Cancelled:
	case t.State.Final():
		return task.Task{}, task.Errorf(task.CodeFinished, "it is %s", t.State)
	case t.State == task.Running:
		t.CancelRequested = start
	default:
		t.State, t.FinishedAt = task.Cancelled, start
	}
	return *t, nil
}

func (f *fakeStore) Rerun(_ context.Context, ref task.Ref) (task.Task, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.find(ref)
	switch {
	case err != nil:
		return task.Task{}, err
	case !t.State.Final():
		return task.Task{}, task.Errorf(task.CodeNotFinished, "it is %s", t.State)
	}
	t.State, t.FinishedAt, t.Allowed = task.Scheduled, time.Time{}, t.Attempt+t.Retry.Attempts()
	return *t, nil
}

func (f *fakeStore) Attempts(_ context.Context, ref task.Ref) ([]task.Attempt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.find(ref)
	return slices.Clone(f.attempts[ref]), err
}

func (f *fakeStore) Logs(_ context.Context, ref task.Ref, after string, limit int) ([]task.LogLine, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.find(ref); err != nil {
		return nil, err
	}
	lines := f.logs[ref]
	if after != "" {
		i := slices.IndexFunc(lines, func(l task.LogLine) bool { return l.Cursor == after })
		if i < 0 {
			return nil, task.Invalid("after", "%q is not a cursor of a log line", after)
		}
		lines = lines[i+1:]
	}
	return slices.Clone(lines[:min(limit, len(lines))]), nil
}

func (f *fakeStore) ReportProgress(_ context.Context, ref task.Ref, attempt, percent int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.find(ref)
	switch {
	case err != nil:
		return err
	case t.State != task.Running:
		return task.Errorf(task.CodeNotRunning, "it is %s", t.State)
	case t.Attempt != attempt:
		return task.Errorf(task.CodeStaleAttempt, "attempt %d runs now", t.Attempt)
	}
	t.Progress = percent
	return nil
}

// change does to a task what workers do to it.
func (f *fakeStore) change(ref task.Ref, do func(*task.Task)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(f.tasks[ref])
}

// addTickTask creates a task as a schedule does.
func (f *fakeStore) addTickTask(ref task.Ref) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tasks[ref] = &task.Task{
		Definition: task.Definition{Ref: ref, Type: "http", Queue: "default", Payload: []byte("{}")}, State: task.Scheduled, CreatedAt: start, DueAt: start,
	}
	f.order = append(f.order, ref)
}

// write adds a log line.
func (f *fakeStore) write(ref task.Ref, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logs[ref] = append(f.logs[ref], task.LogLine{
		Cursor: fmt.Sprintf("1-%d", len(f.logs[ref])), Attempt: 1, Stream: "stdout", At: start, Text: text,
	})
}

type fakeNodes []cluster.Node

func (f fakeNodes) Nodes(context.Context) ([]cluster.Node, error) { return f, nil }

type fakeQueues struct {
	mu     sync.Mutex
	queues []queue.Info
}

func (f *fakeQueues) List(context.Context) ([]queue.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.queues), nil
}

func (f *fakeQueues) Pause(_ context.Context, name string) error  { return f.set(name, true) }
func (f *fakeQueues) Resume(_ context.Context, name string) error { return f.set(name, false) }

func (f *fakeQueues) set(name string, paused bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.queues {
		if f.queues[i].Name == name {
			f.queues[i].Paused = paused
			return nil
		}
	}
	return task.Errorf(task.CodeQueueNotFound, "no queue %q", name)
}
