package web

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// A check changes nothing, so nobody asks whether it was done.
func TestScheduleEdit_SaysThatItCouldNotBeChecked(t *testing.T) {
	inWorld(t, func(w *world) {
		form := w.inFields(doCheck, "every", "1h", "payload.url", "http://localhost/a")
		w.away.Store(unreachable)
		got := w.send(http.MethodPost, newSchedulePath, form)
		if got.status != http.StatusServiceUnavailable || !strings.Contains(got.text, "It could not be checked.") ||
			strings.Contains(got.text, "It is not known whether this was done") {
			t.Errorf("%d: %s", got.status, got.text)
		}
		w.away.Store(0)
		form = w.checked(newSchedulePath, form)
		w.away.Store(unreachable)
		form.Set("do", doCheck)
		got = w.send(http.MethodPost, newSchedulePath, form)
		again := w.shownAgain(got.text, form.Get(keyField))
		w.away.Store(0)
		again.Set("do", doPut)
		if !strings.Contains(got.text, `name="do" value="put"`) {
			t.Errorf("what was checked before cannot be put:\n%s", got.text)
		}
		w.expectDone(newSchedulePath, again, "/schedules/shop/a?n=1&said=put")
	})
}

func TestTasks_SayWhatTheirFilterCannotFind(t *testing.T) {
	inWorld(t, func(w *world) {
		w.expect("/tasks?since=1h&until=2h", "is before Since")
		w.expect("/tasks?since=2h&until=1h", "No task matches.")
		w.run(w.submit("well", nil), time.Second, task.Succeeded, "", "")
		w.expect("/tasks", "To retry or forget these tasks, choose a state in which they have ended.")
		w.expectNot("/bulk/new/retry?state=succeeded&error=&node=", "error: <")
	})
}

// The note of who pauses a queue that is paused is not lost in silence.
func TestQueue_IsNotPausedTwice(t *testing.T) {
	inWorld(t, func(w *world) {
		w.submit("a", nil)
		w.claim(0)
		form := w.typed("/queues/default", "note", "a move")
		w.expectDone("/queues/default/pause", form, "/queues/default?said=queue-paused")
		w.serve()
		w.expectDone("/queues/default/pause", form, "/queues/default?said=queue-paused") // the same, at another node
		form.Set("note", "the month-end")
		got := w.send(http.MethodPost, "/queues/default/pause", form)
		if got.status != http.StatusConflict || w.queue("default").PauseNote != "a move" || !regexp.MustCompile(
			`Paused already.</b> <bdi>somebody at .* paused it at <.*>15:04:05</time>. The note is: <bdi>a move</bdi>.*`+
				`It stays so. Your note is not kept: <bdi>the month-end</bdi>`).MatchString(got.text) {
			t.Errorf("%d: %s", got.status, got.text)
		}
	})
}

func TestSchedule_ShowsAllOfItsFacts(t *testing.T) {
	inWorld(t, func(w *world) {
		var one oneSchedule
		one.Rules = []schedule.Rule{{Every: time.Hour}}
		times := one.Times()
		if len(times) != 1 || strings.Contains(times[0].Words, "every 1h") {
			t.Errorf("the times are %+v", times)
		}
		v := inEnglish(start)
		next := &task.FollowUp{When: task.WhenFailed, Task: task.Definition{Type: "mail"}}
		if got := v.Follows(next); got != "mail, if it fails" {
			t.Errorf("it is followed by %s", got)
		}
		testkit.Must(t, w.store.Advance(w.ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
		w.put("hourly", func(d *schedule.Definition) {
			d.StartAt, d.EndAt, d.MaxRuns = start.Add(-time.Hour), start.Add(48*time.Hour), 9
			d.Jitter, d.Misfire.Policy = 1500*time.Millisecond, schedule.MisfireAll
			d.Task.Timeout, d.Task.Retry.MaxAttempts = 90*time.Second, 3
			d.Task.Priority, d.Task.FairKey, d.Task.FairWeight = 7, "acme", 2
			d.Task.LimitKey, d.Task.Reach = "b,a", "gpu;2*zone=eu;round"
		})
		w.expect("/schedules/default/hourly",
			"<dt>Not before</dt><dd><time", "<dt>Not after</dt><dd><time", "<dt>Ends after</dt><dd>9 runs</dd>",
			"<dt>Jitter</dt><dd>up to 1.5 s</dd>", "<dt>Missed ticks</dt><dd>all: each of them runs, at most 100</dd>",
			"<dt>Timeout of an attempt</dt><dd>90 s</dd>", "<dt>Attempts at most</dt><dd>3</dd>",
			"<dt>Priority</dt><dd>7</dd>", `<dt>Fair key</dt><dd><code dir="auto">acme</code>, weight 2</dd>`,
			`<dt>Limit keys</dt><dd><code dir="auto">b,a</code></dd>`,
			`<dt>Nodes, by labels</dt><dd><code dir="auto">gpu</code></dd>`,
			`<dt>Preferred nodes</dt><dd><code dir="auto">zone=eu</code>, weight 2</dd>`,
			`<dt>Route</dt><dd><code dir="auto">round</code>: one node after the other</dd>`)
	})
}

func TestDoctor_IsNotDoneBeforeAllWasLookedAt(t *testing.T) {
	t.Parallel()
	v := inEnglish(start)
	if got := v.doctorSentence(examination{Next: "7"}); got != "Nothing is wrong with what was looked at so far" {
		t.Errorf("before the end: %s", got)
	}
	if got := v.doctorSentence(examination{}); got != "Nothing is wrong" {
		t.Errorf("at the end: %s", got)
	}
}

// A command on one line would be a program with blanks in its name.
func TestForms_SayThatEachLineIsAnArgument(t *testing.T) {
	inWorld(t, func(w *world) {
		w.expect("/submit?type=shell", "each line is one argument")
		const said = "is one line with blanks"
		w.expectRefused("/submit", w.typed("/submit?type=shell", "type", "shell", "payload.command", "echo hi"), said)
		form := w.inFields(doCheck, "type", "shell", "every", "1h", "payload.command", "echo hi")
		if got := w.send(http.MethodPost, newSchedulePath, form); !strings.Contains(got.text, said) {
			t.Errorf("a schedule: %d\n%s", got.status, got.text)
		}
		refused := func(command, said string) {
			t.Helper()
			w.expectRefused("/submit", w.typed("/submit?type=shell", "type", "shell", "payload.command", command), said)
		}
		refused(`["sleep", 1]`, "begins with [, and is no list of texts in JSON")
		v := inEnglish(start)
		v.label("payload.command", "Command")
		const all, part = "payload.command", "payload.command[0]"
		for detail, want := range map[string]string{
			all + `: is missing: give ["sleep"]`: "Command: is missing: write a program and its arguments, one a line",
			part + ": is missing":                "Command: [0]: is missing",
		} {
			field, _, _ := strings.Cut(detail, ": ")
			if got := v.named(detail, field); got != want {
				t.Errorf("%s is shown as %s", detail, got)
			}
		}
		list := w.typed("/submit?type=shell", "type", "shell", "id", "list", "payload.command", ` ["sleep","1"]`+"\n")
		w.expectDone("/submit", list, "/tasks/default/list?said=submitted")
		if got := w.task(w.ref("list")); !sameJSON(got.Payload, []byte(`{"command": ["sleep", "1"]}`)) {
			t.Errorf("the payload is %s", got.Payload)
		}
		form.Set("payload.command", "echo\r\nhi there")
		if got := w.send(http.MethodPost, newSchedulePath, form); !strings.Contains(got.text, "It is valid.") {
			t.Errorf("on two lines: %d\n%s", got.status, got.text)
		}
	})
}

func TestScheduleEdit_SaysWhatToKnow(t *testing.T) {
	inWorld(t, func(w *world) {
		got := w.write(newSchedulePath, doCheck, definitionOf("every: 2h", "jitter: 1h30m")).text
		if !strings.Contains(got, "each task is due up to 90 min later") || strings.Contains(got, "See what to know.") {
			t.Errorf("with a jitter: %s", got)
		}
		form := w.inFields(doCheck, "every", "5m", "queue", "nobodys", "payload.url", "http://localhost/a")
		if got := w.send(http.MethodPost, newSchedulePath, form).text; !strings.Contains(got, "See what to know.") {
			t.Errorf("of a queue that nobody serves: %s", got)
		}
	})
}
