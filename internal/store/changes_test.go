package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/change"
	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/limits"
	"github.com/dts-sched/dts/internal/store/rules"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/lua"
)

// heard follows the changes of an installation until the test ends.
type heard struct {
	t       *testing.T
	w       *storetest.World
	changes chan *change.Change
}

func hear(t *testing.T, w *storetest.World) *heard {
	t.Helper()
	ctx, cancel := context.WithCancel(w.Ctx)
	h := &heard{t, w, make(chan *change.Change, 100)}
	connected, ended := make(chan struct{}, 10), make(chan error, 1)
	go func() {
		ended <- w.Tasks.ListenEvents(ctx, tasks.EventListener{
			Connected:        func() { connected <- struct{}{} },
			Event:            func(*task.Event) {},
			Unreadable:       func(err error) { t.Errorf("unreadable: %v", err) },
			Change:           func(c *change.Change) { h.changes <- c },
			UnreadableChange: func(err error) { t.Errorf("unreadable: %v", err) },
		})
	}()
	t.Cleanup(func() {
		cancel()
		testkit.Must(t, testkit.Receive(t, ended, "the end of ListenEvents"))
	})
	testkit.Receive(t, connected, "the subscriptions")
	return h
}

// during returns the changes that were published while do ran, in order.
func (h *heard) during(do func()) []change.Change {
	h.t.Helper()
	const end = "end.of"
	do()
	for _, message := range [][2]string{
		{string(h.w.Keys.Members()), end + " it"}, {string(h.w.Keys.Changes()), `{"type":"end.of","at":"1"}`},
	} {
		testkit.Must(h.t, h.w.DB.Publish(h.w.Ctx, message[0], message[1]).Err())
	}
	var all []change.Change
	for ends := 0; ends < 2; {
		c := testkit.Receive(h.t, h.changes, "a change")
		if c.Type == end || c.State == end { // a type that this release does not know is passed on
			ends++
			continue
		}
		all = append(all, *c)
	}
	return all
}

// said is a change as one word for each field that it has, but for its time.
func said(c change.Change) string {
	words := []string{c.Type}
	if c.Ref != (task.Ref{}) {
		words = append(words, c.Ref.String(), fmt.Sprint("r", c.Revision))
	}
	for _, word := range []string{c.Queue, c.Limit, c.Node, c.State, c.By, c.Note} {
		if word != "" {
			words = append(words, word)
		}
	}
	if c.Type == change.QueueLimited {
		words = append(words, fmt.Sprint(c.Capacity))
	}
	return strings.Join(words, " ")
}

// step does something twice. What changes nothing the second time is told once.
type step struct {
	name string
	do   func()
	want []string
}

func (h *heard) check(steps []step) {
	h.t.Helper()
	began, err := h.w.Now(h.w.Ctx, 0)
	testkit.Must(h.t, err)
	for _, s := range steps {
		var got []string
		for _, c := range h.during(func() { s.do(); s.do() }) {
			got = append(got, said(c))
			if c.At.Before(began.Truncate(time.Millisecond)) || c.At.Sub(began) > testkit.Limit {
				h.t.Errorf("%s: told of %s", s.name, c.At)
			}
		}
		if !slices.Equal(got, s.want) {
			h.t.Errorf("%s: told %q, want %q", s.name, got, s.want)
		}
	}
}

func TestChanges_TellOfSchedules(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	must := func(_ schedule.Schedule, err error) { t.Helper(); testkit.Must(t, err) }
	put := func(revision int, paused bool) func() {
		return func() {
			at, err := w.Now(w.Ctx, w.PartitionOf(storetest.Nightly))
			testkit.Must(t, err)
			d := storetest.Daily(func(d *schedule.Definition) {
				d.MaxRuns, d.Description = 1, fmt.Sprint(revision)
				d.Misfire = schedule.Misfire{Policy: schedule.MisfireAll, Window: 1000 * time.Hour}
			})
			_, _ = w.Schedules.Write(w.Ctx, d.Normalize(), revision-1, at, paused, "ann") // the second is refused
		}
	}
	resume := func() { must(w.Schedules.Resume(w.Ctx, storetest.Nightly, "bob")) }
	pause := func(note string) func() {
		return func() { must(w.Schedules.Pause(w.Ctx, storetest.Nightly, note, "bob")) }
	}
	hear(t, w).check([]step{
		{"create", put(1, false), []string{"schedule.created default:nightly r1 ann"}},
		{"update, and pause", put(2, true), []string{
			"schedule.updated default:nightly r2 ann", "schedule.paused default:nightly r2 ann",
		}},
		{"say why", pause(`the "disk"`), []string{`schedule.paused default:nightly r2 bob the "disk"`}},
		{"pause again", pause(""), nil},
		{"resume", resume, []string{"schedule.resumed default:nightly r2 bob"}},
		{"end", func() { w.Rewind(storetest.Nightly, 25*time.Hour); w.Fire(storetest.Nightly) },
			[]string{"schedule.ended default:nightly r2"}},
		{"delete while it is not paused", func() { _ = w.Schedules.Delete(w.Ctx, storetest.Nightly, "ann") }, nil},
		{"pause", pause("done"), []string{"schedule.paused default:nightly r2 bob done"}},
		{"delete", func() { _ = w.Schedules.Delete(w.Ctx, storetest.Nightly, "ann") },
			[]string{"schedule.deleted default:nightly r2 ann"}},
	})
}

func TestChanges_TellOfWorkflows(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	d := workflow.Definition{Ref: storetest.Nightly, Steps: []workflow.Step{{
		ID: "load", Task: &task.Definition{Type: "echo"},
	}}}
	put := func(revision int) func() {
		return func() { _, _ = w.Workflows.Put(w.Ctx, d, revision-1, "ann") } // the second is refused
	}
	pause := func(note string) func() {
		return func() {
			_, err := w.Workflows.Pause(w.Ctx, d.Ref, note, "bob")
			testkit.Must(t, err)
		}
	}
	resume := func() {
		_, err := w.Workflows.Resume(w.Ctx, d.Ref, "bob")
		testkit.Must(t, err)
	}
	hear(t, w).check([]step{
		{"create", put(1), []string{"workflow.created default:nightly r1 ann"}},
		{"update", put(2), []string{"workflow.updated default:nightly r2 ann"}},
		{"pause", pause("the disk"), []string{"workflow.paused default:nightly r2 bob the disk"}},
		{"say why", pause("a disk"), []string{"workflow.paused default:nightly r2 bob a disk"}},
		{"resume", resume, []string{"workflow.resumed default:nightly r2 bob"}},
		{"delete", func() { _ = w.Workflows.Delete(w.Ctx, d.Ref, 2, "ann") },
			[]string{"workflow.deleted default:nightly r2 ann"}},
	})
}

func TestChanges_TellOfAScheduleThatPausesItself(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ticks := w.Hourly(1, func(d *schedule.Definition) { d.PauseOnFailure = 1 })
	w.Fire(storetest.Nightly)
	run := w.BeginTick(storetest.Nightly, ticks[0])
	fail := func() { testkit.Must(t, run.Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", "no")) }
	hear(t, w).check([]step{
		{"fail", fail, []string{"schedule.paused default:nightly r1 paused by itself: 1 tasks in a row failed"}},
	})
}

func TestChanges_TellOfQueues(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	queues := queue.New(queue.Options{DB: w.DB})
	testkit.Must(t, queues.Add(w.Ctx, "low"))
	limited := limits.New(w.Layout, queues)
	do := func(f func() error) func() { return func() { t.Helper(); testkit.Must(t, f()) } }
	hear(t, w).check([]step{
		{"pause", do(func() error { return queues.Pause(w.Ctx, "low", "ann", "the disk") }),
			[]string{"queue.paused low ann the disk"}},
		{"resume", do(func() error { return queues.Resume(w.Ctx, "low", "bob") }), []string{"queue.resumed low bob"}},
		{"limit", do(func() error { return limited.Set(w.Ctx, "low", 7, "ann") }), []string{"queue.limited low ann 7"}},
		{"another limit", do(func() error { return limited.Set(w.Ctx, "low", 8, "") }), []string{"queue.limited low 8"}},
		{"no limit", do(func() error { return limited.Set(w.Ctx, "low", 0, "ann") }), []string{"queue.limited low ann 0"}},
	})
}

func TestChanges_TellOfLimits(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	name := limit.Name{Kind: limit.Key, Of: "*"}
	slots := func(n int, by string) func() {
		return func() {
			_, err := w.Rules.Change(w.Ctx, name, by, func(e rules.Entry, _ time.Time) (rules.Entry, error) {
				e.Rule = limit.Rule{Slots: n}
				return e, nil
			})
			testkit.Must(t, err)
		}
	}
	hear(t, w).check([]step{
		{"set", slots(5, "ann"), []string{"limit.set key:* ann"}},
		{"change", slots(6, ""), []string{"limit.set key:*"}},
		{"delete", func() {
			_, err := w.Rules.Delete(w.Ctx, name, "bob")
			testkit.Must(t, err)
		}, []string{"limit.deleted key:* bob"}},
	})
}

func TestChanges_TellOfNodes(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	beat := func(news string) func() {
		return func() {
			_, err := redisx.Run(w.Ctx, w.DB, lua.Beat{
				Nodes: w.Keys.Nodes(), ID: "n1", Entry: "{}", Dead: time.Minute, Missed: 3, Keep: time.Hour,
				Members: w.Keys.Members(), News: news,
			})
			testkit.Must(t, err)
		}
	}
	hear(t, w).check([]step{
		{"join", beat(""), []string{"node.joined n1"}},
		{"drain", beat("draining"), []string{"node.changed n1 draining", "node.changed n1 draining"}},
		{"a worker by HTTP joins", func() {
			_, err := redisx.Run(w.Ctx, w.DB, lua.BeatFor{
				Nodes: w.Keys.Nodes(), Dead: time.Minute, Members: w.Keys.Members(),
				Guests: []lua.BeatForGuest{{ID: "w1", Entry: "{}"}},
			})
			testkit.Must(t, err)
		}, []string{"node.joined w1"}},
		{"leave", func() {
			_, err := redisx.Run(w.Ctx, w.DB, lua.Leave{Nodes: w.Keys.Nodes(), ID: "n1", Members: w.Keys.Members()})
			testkit.Must(t, err)
		}, []string{"node.left n1"}},
	})
}
