package page

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

// state is the state of a task, by the API; "" if nobody can say.
func (n *node) state(id string) string {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, n.URL+n.base+"/v1/tasks/"+id, nil)
	testkit.Must(n.t, err)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return ""
	}
	defer func() { _ = answer.Body.Close() }()
	var task struct{ State string }
	_ = json.NewDecoder(answer.Body).Decode(&task) // of what is no task, there is no state
	return task.State
}

func (n *node) awaitState(id, state string) {
	n.t.Helper()
	testkit.Eventually(n.t, id+" is "+state, func() bool { return n.state(id) == state })
}

// keep marks the page that is shown, so that kept can tell whether it was read again.
func (b *tab) keep()      { eval[bool](b, `window.kept = true`) }
func (b *tab) kept() bool { return eval[bool](b, `window.kept === true`) }

func TestLive_ShowsTheEndOfATask(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.shell("a", "exec sleep 600", nil)
	n.awaitState("a", "running")
	list, one := n.openTab(), n.openTab()
	list.open("/tasks")
	one.open("/tasks/default/a")
	list.keep()
	one.keep()
	list.await("#rows", "running")
	one.await("#verdict", "Runs for")
	n.send(http.MethodDelete, "/v1/tasks/a", nil)
	list.await("#rows", "cancelled")
	one.await("#verdict", "Cancelled")
	if !list.kept() || !one.kept() {
		t.Error("the page was read again")
	}
	list.expectNoProblem("the list")
	one.expectNoProblem("the task")
}

// A browser has six connections to a server, so a tab that nobody sees must keep none.
func liveRestsWhileNobodySeesTheTab(t *testing.T, n *node) {
	n.shell("unseen", "exec sleep 600", nil)
	n.awaitState("unseen", "running")
	b := n.openTab()
	b.open("/tasks/default/unseen")
	b.await("#live", "Live")
	eval[any](b, `(() => {
		const close = EventSource.prototype.close;
		window.closes = 0;
		EventSource.prototype.close = function () { window.closes++; close.call(this) };
		window.see = seen => {
			Object.defineProperty(document, "hidden", {value: !seen, configurable: true});
			document.dispatchEvent(new Event("visibilitychange"));
		};
		see(false);
	})()`)
	if closed := eval[int](b, `window.closes`); closed != 1 {
		t.Errorf("the stream was closed %d times when the tab was left, want once", closed)
	}
	n.send(http.MethodDelete, "/v1/tasks/unseen", nil)
	n.awaitState("unseen", "cancelled")
	eval[any](b, `see(true)`)
	b.await("#verdict", "Cancelled")
	b.expectNoProblem("the task")
}

// Nothing moves under the pointer: what changes there waits until it has left.
func TestLive_HoldsWhatIsUnderThePointer(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.shell("a", "exec sleep 600", nil)
	n.awaitState("a", "running")
	b := n.openTab()
	b.open("/tasks")
	b.await("#rows", "running")
	eval[any](b, `document.querySelector("#rows a").focus(), 0`)
	n.send(http.MethodDelete, "/v1/tasks/a", nil)
	b.await("#live", "waiting")
	if rows := b.text("#rows"); !strings.Contains(rows, "running") {
		t.Errorf("the row that has the focus has changed: %q", rows)
	}
	eval[any](b, `document.activeElement.blur(), 0`)
	b.await("#rows", "cancelled")
	b.await("#live", "Live")
}

// An error that the reader has opened stays open when further attempts come.
func TestLive_KeepsOpenErrors(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.shell("a", "date +%N >&2; echo no disk >&2; exit 3", fields{
		"retry": fields{"max_attempts": 9, "delays": []string{"1h"}},
	})
	b := n.openTab()
	b.open("/tasks/default/a")
	b.await("#verdict", "Tries again")
	n.send(http.MethodPatch, "/v1/tasks/a", fields{"delay": "0s"})
	b.await("#attempts tbody td", "2")
	b.await("#verdict", "Tries again")
	eval[any](b, `document.querySelector("#error-1").open = true, 0`)
	n.send(http.MethodPatch, "/v1/tasks/a", fields{"delay": "0s"})
	b.await("#attempts tbody td", "3")
	b.await("#verdict", "Tries again")
	if !b.seen("#error-1 pre") || !b.seen("#error-2") || b.seen("#error-2 pre") {
		t.Errorf("what was open has changed: %s", b.text("#attempts"))
	}
	b.expectNoProblem("the task")
}

func TestLive_ResumesAfterARestart(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.shell("a", "true", fields{"delay": "1h"})
	b := n.openTab()
	b.open("/tasks")
	b.await("#live", "Live")
	b.keep()
	testkit.Must(t, n.Stop())
	b.await("#live", "Reconnecting")
	n.serve("--listen", strings.TrimPrefix(n.URL, "http://"))
	b.await("#live", "Live")
	n.send(http.MethodDelete, "/v1/tasks/a", nil)
	b.await("#rows", "cancelled")
	if !b.kept() {
		t.Error("the page was read again")
	}
}

func TestLive_TellsThatRedisIsAway(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.shell("a", "true", fields{"delay": "1h"})
	watched, opened := n.openTab(), n.openTab()
	watched.open("/tasks")
	watched.await("#live", "Live")
	n.redis.Pause()
	watched.await("#live", "Redis does not answer")
	warning := regexp.MustCompile(`^Redis does not answer. All below is of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.`)
	if banner := watched.text("#stale"); !warning.MatchString(banner) || !watched.seen("#stale") {
		t.Errorf("the banner says %q", banner)
	}
	opened.open("/tasks")
	opened.await("h1", "The data cannot be read now")
	n.redis.Continue()
	opened.await("h1", "Tasks")
	watched.await("#live", "Live")
	if watched.seen("#stale") {
		t.Error("the banner stays")
	}
	n.send(http.MethodDelete, "/v1/tasks/a", nil)
	watched.await("#rows", "cancelled")
	opened.await("#rows", "cancelled")
}
