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
		for name, c := range map[string]struct {
			once task.Once
			want string
		}{
			"singleton": {task.Once{Mode: task.OnceSingleton}, "none is created while this one has not ended"},
			"latest":    {task.Once{Mode: task.OnceLatest}, "the newest one waits until this one has ended"},
			"stop":      {task.Once{Mode: task.OnceCancelRunning}, "the newest one stops this one"},
			"debounce":  {task.Once{Mode: task.OnceDebounce, Wait: time.Minute}, "due 60 s after the newest submission"},
			"bounded": {
				task.Once{Mode: task.OnceDebounce, Wait: time.Minute, Max: time.Hour},
				"due 60 s after the newest submission, at most 60 min after the first one",
			},
			"drop": {task.Once{Mode: task.OnceThrottle, Every: time.Hour}, "at most one in 60 min; others are dropped"},
			"delay": {
				task.Once{Mode: task.OnceThrottle, Every: time.Hour, Excess: task.ExcessDelay},
				"at most one in 60 min; others are due later",
			},
		} {
			c.once.Key = name
			d := task.Definition{Ref: w.ref("a").Keyed(name), Type: "http", Once: &c.once}
			testkit.Must(t, w.store.Tasks.Create(w.ctx, []task.Definition{d})[0].Err)
			w.expect("/tasks/default/"+d.ID, `<dt>Key</dt><dd><span class="mono">`+name+`</span>: `+c.want+`</dd>`)
		}
	})
}

// The form takes a key, its copy has it, and the page of the answer says what became of the submission.
func TestSubmit_TakesAKey(t *testing.T) {
	inWorld(t, func(w *world) {
		testkit.Must(t, w.store.Advance(w.ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
		submit := func(id, once, to string) {
			t.Helper()
			form := w.typed("/submit?type=http", "type", "http", "id", id, "payload.url", "http://localhost/a", "once", once)
			w.expectDone("/submit", form, "/tasks/default/"+to)
			w.expectDone("/submit", form, "/tasks/default/"+to) // a second click
		}
		submit("a", "debounce:index,wait=5s,max=1m", "index@ka?said=submitted")
		w.expect("/submit?from=default/index@ka", `name="once" value="debounce:index,wait=5s,max=1m"`)
		submit("b", "debounce:index,wait=5s", "index@ka?said=replaced")
		submit("a", "throttle:mail,every=1m", "mail@ka?said=submitted")
		submit("b", "throttle:mail,every=1m", "mail@ka?said=skipped")
		submit("a", "singleton:mine", "mine@ka?said=submitted")
		submit("b", "singleton:mine", "mine@ka?said=existing")
	})
}

func TestSubmit_ShowsWhatIsWrongWithAKey(t *testing.T) {
	inWorld(t, func(w *world) {
		testkit.Must(t, w.store.Advance(w.ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
		for typed, said := range map[string]string{
			"mine":                   "must be like debounce:reindex,wait=5s",
			"debounce:a,soon=1s":     "must be like debounce:reindex,wait=5s",
			"debounce:a,wait=5":      "is not a duration",
			"debounce:a":             "is missing: say how long",
			"first:a":                "must be singleton, latest",
			"latest:a b":             "must be 1 to 100 characters",
			"throttle:a,every=1000h": "is longer than the task is kept",
		} {
			form := w.typed("/submit?type=http", "type", "http", "payload.url", "http://localhost/a", "once", typed)
			w.expectRefused("/submit", form, `id="w-once"`, said, `<details class="sec" open>`)
		}
	})
}
