package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// listen returns the events that are published from now until the test ends.
func listen(t *testing.T, w *storetest.World) <-chan *task.Event {
	t.Helper()
	ctx, cancel := context.WithCancel(w.Ctx)
	connected, ended := make(chan struct{}, 10), make(chan error, 1)
	events := make(chan *task.Event, 100)
	go func() {
		ended <- w.Tasks.ListenEvents(ctx, tasks.EventListener{
			Connected:  func() { connected <- struct{}{} },
			Event:      func(e *task.Event) { events <- e },
			Unreadable: func(err error) { t.Errorf("unreadable: %v", err) },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ListenEvents: %v", err)
		}
	})
	testkit.Receive(t, connected, "the subscription")
	return events
}

func TestListenEvents_ReportsEveryChange(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	events := listen(t, w)
	ref := task.Ref{Namespace: "default", ID: "a"}
	w.Create(task.Definition{Ref: ref, Owner: "me", Queue: "q"})
	run := w.Begin(ref)
	testkit.Must(t, errors.Join(
		run.Progress(w.Ctx, 40, "at\ta\u2028note"),
		run.Log(w.Ctx, 1, []tasks.Line{{Stream: "stderr", Text: `quoted "text" <&> ü`}}),
		run.Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", `it "broke"`),
	))
	var got []string
	for range 6 {
		e := testkit.Receive(t, events, "an event")
		if e.Ref != ref || e.Owner != "me" || e.Queue != "q" || e.TaskType != "http" || e.At.IsZero() {
			t.Errorf("event %+v", e)
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %d %s%s", e.Type, e.State, e.Attempt, e.Text, e.Error+e.Note)))
	}
	want := []string{
		"task.scheduled scheduled 0", "task.queued queued 1", "task.running running 1", "task.progress running 1 at\ta\u2028note",
		`task.log running 1 quoted "text" <&> ü`, `task.failed failed 1 it "broke"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An event costs nothing while nobody listens, and the events of a script are one message.
func TestEvents_AreOneMessageOfEachScriptWhileSomebodyListens(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	channel := string(w.Keys.Events())
	sub := w.DB.Subscribe(w.Ctx, channel)
	defer func() { testkit.Must(t, sub.Close()) }()
	_, err := sub.Receive(w.Ctx)
	testkit.Must(t, err)
	create := func(name string) (scripts int) {
		defs, partitions := make([]task.Definition, 60), map[int]bool{}
		for i := range defs {
			defs[i] = task.Definition{Ref: task.Ref{Namespace: "default", ID: fmt.Sprint(name, i)}, Type: "http"}
			partitions[w.PartitionOf(defs[i].Ref)] = true
		}
		for _, created := range w.Tasks.Create(w.Ctx, defs) {
			testkit.Must(t, created.Err)
		}
		return len(partitions) // each of which gets fewer tasks than a script takes
	}
	messages := func() (n int) {
		testkit.Must(t, w.DB.Publish(w.Ctx, channel, "end").Err())
		for {
			m, err := sub.ReceiveMessage(w.Ctx)
			testkit.Must(t, err)
			if m.Payload == "end" {
				return n
			}
			n++
		}
	}
	create("unheard")
	if n := messages(); n != 0 {
		t.Errorf("%d messages while nobody listens", n)
	}
	ctx, cancel := context.WithCancel(w.Ctx)
	connected, ended, heard := make(chan struct{}, 10), make(chan error, 1), make(chan string, 300)
	go func() {
		ended <- w.Tasks.ListenEvents(ctx, tasks.EventListener{
			Connected: func() { connected <- struct{}{} }, Event: func(e *task.Event) { heard <- e.Ref.ID }, Unreadable: func(error) {}, // "end"
		})
	}()
	testkit.Receive(t, connected, "the subscription")
	scripts := create("heard")
	for range 60 {
		testkit.Receive(t, heard, "an event")
	}
	if n := messages(); n != scripts {
		t.Errorf("%d messages of %d scripts", n, scripts)
	}
	cancel()
	testkit.Must(t, testkit.Receive(t, ended, "the end"))
}

// Redis does not keep channels apart by database, so their names have the database's number.
func TestListenEvents_DoesNotHearOtherDatabases(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	w := storetest.On(t, server.DB(t))
	other := storetest.On(t, redistest.Open(t, "redis://"+server.Addr()+"/1"))
	events := listen(t, w)
	other.Create(task.Definition{Ref: task.Ref{Namespace: "default", ID: "in-database-1"}})
	w.Create(task.Definition{Ref: task.Ref{Namespace: "default", ID: "in-database-0"}})
	if e := testkit.Receive(t, events, "an event"); e.Ref.ID != "in-database-0" {
		t.Errorf("heard of %s", e.Ref)
	}
}

// As after a process that was stopped for a while, or a failover of Redis to a replica without the key.
func TestListenEvents_TellsThatScriptsHadStoppedPublishing(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := storetest.New(t)
	connected, disconnected := make(chan struct{}, 10), make(chan struct{}, 10)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- w.Tasks.ListenEvents(ctx, tasks.EventListener{
			Connected: func() { connected <- struct{}{} }, Disconnected: func() { disconnected <- struct{}{} },
			Event: func(*task.Event) {}, Unreadable: func(error) {},
		})
	}()
	testkit.Receive(t, connected, "the connection")
	testkit.Must(t, w.DB.Del(t.Context(), string(w.Keys.Partition(1).Listeners())).Err())
	testkit.Receive(t, disconnected, "word of the gap")
	testkit.Receive(t, connected, "word that events come again")
	if n := w.DB.Exists(t.Context(), string(w.Keys.Partition(1).Listeners())).Val(); n != 1 {
		t.Error("scripts of the partition still publish nothing")
	}
	stop()
	testkit.Must(t, testkit.Receive(t, ended, "the end"))
}
