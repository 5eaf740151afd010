package web

import (
	"context"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

const followUpTyped = `{"when": "failed", "task": {"type": "http", "payload": {"url": "http://localhost/alarm"}}}`

// follow does what leaders do about tasks that follow others.
func (w *world) follow() {
	w.t.Helper()
	for p := range w.store.Partitions.Count() {
		_, err := w.store.Partitions.At(p).Lead(fence).Follow(w.ctx, 100)
		testkit.Must(w.t, err)
	}
}

// The form takes what follows a task, its copy has it, and the pages of both tasks lead to each other.
func TestTask_LeadsToWhatFollowsIt(t *testing.T) {
	inWorld(t, func(w *world) {
		testkit.Must(t, w.store.Advance(w.ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
		for _, id := range []string{"a", "b"} {
			form := w.typed("/submit?type=http", "type", "http", "id", id, "payload.url", "http://localhost/a",
				"on_end", followUpTyped)
			w.expectDone("/submit", form, "/tasks/default/"+id+"?said=submitted")
			w.expect("/tasks/default/"+id, "<dt>Followed by</dt><dd>http, if it fails</dd>")
		}
		w.expect("/submit?from=default/a", "http://localhost/alarm", `name="on_end"`)
		w.run(w.ref("a"), time.Second, task.Failed, "", "no")
		w.run(w.ref("b"), time.Second, task.Succeeded, "", "")
		w.follow()
		w.expect("/tasks/default/a", `<dd><a href="/tasks/default/a@e1">`)
		w.expect("/tasks/default/b", "<dt>Followed by</dt><dd>Nothing, as it ended otherwise</dd>")
		w.expect("/tasks/default/a@e1", "<dt>Follows</dt><dd><a class=\"id\" href=\"/tasks/default/a\">")
	})
}

func TestSubmit_ShowsWhatIsWrongWithAFollowUp(t *testing.T) {
	inWorld(t, func(w *world) {
		for typed, said := range map[string]string{
			"soon":                                    "must be like {",
			`{"when": "failed", "tasks": {}}`:         "must be like {",
			`{"when": "failed", "task": {}} {}`:       "must be like {",
			`{"when": "done", "task": {"type": "a"}}`: "must be succeeded, failed or ended",
		} {
			form := w.typed("/submit?type=http", "type", "http", "payload.url", "http://localhost/a", "on_end", typed)
			w.expectRefused("/submit", form, `id="w-on_end"`, said)
		}
	})
}

// A task that waits for another one of its key shows that task, and no time; one that is late says so.
func TestTask_ShowsWhatItWaitsFor(t *testing.T) {
	inWorld(t, func(w *world) {
		testkit.Must(t, w.store.Advance(w.ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
		submit := func(name string) {
			once := &task.Once{Mode: task.OnceLatest, Key: "mine"}
			d := task.Definition{Ref: w.ref(name).Keyed("mine"), Type: "http", Queue: "default", Once: once}
			d.StartBy = time.Minute
			testkit.Must(t, w.store.Tasks.Create(w.ctx, []task.Definition{d})[0].Err)
		}
		submit("a")
		w.expect("/tasks/default/mine@ka", "<dt>To begin by</dt>", "If no worker begins it by ", ", it is cancelled then.")
		w.begin(w.ref("a").Keyed("mine"))
		w.expectNot("/tasks/default/mine@ka", "it is cancelled then")
		submit("b")
		other := `<a href="/tasks/default/mine@ka"><code dir="auto">mine@ka</code></a>`
		w.expect("/tasks/default/mine@kb", "Waits until "+other+" has ended", "<dt>Due</dt><dd>when "+other+" has ended</dd>")
		w.expectNot("/tasks/default/mine@kb", "To begin by")
		w.expect("/tasks?state=scheduled", `<span class="mute">after another one</span></td>`)
		w.submit("late", func(d *task.Definition) { d.StartBy = time.Minute })
		w.pass(2 * time.Minute)
		w.follow()
		w.expect("/tasks/default/late", "Cancelled, as no worker had begun it within 60 s after it was due")
	})
}

func TestTask_ShowsItsKey(t *testing.T) {
	inWorld(t, func(w *world) {
		once := &task.Once{Mode: task.OnceSingleton, Key: "tenant-7"}
		d := task.Definition{Ref: w.ref("a").Keyed("tenant-7"), Type: "http", Once: once}
		testkit.Must(t, w.store.Tasks.Create(w.ctx, []task.Definition{d})[0].Err)
		w.expect("/tasks/default/tenant-7@ka", `<dt>Key</dt><dd class="mono">tenant-7 (singleton)</dd>`)
	})
}
