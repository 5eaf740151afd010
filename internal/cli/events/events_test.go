package events_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestEvents_PrintsALineEach(t *testing.T) {
	s := clitest.Start(t)
	events := []wire.Event{
		clitest.Event("task.scheduled", wire.StateScheduled, func(e *wire.Event) {
			e.Attempt, e.RunAt, e.Owner = 0, new(wire.At(clitest.Now.Add(time.Minute))), new("me")
		}),
		clitest.Event("task.running", wire.StateRunning, func(e *wire.Event) { e.Node = new("n1") }),
		clitest.Event("task.progress", wire.StateRunning, func(e *wire.Event) { e.Progress, e.ProgressNote = new(0), new("row\t1") }),
		clitest.Event("task.failed", wire.StateFailed, func(e *wire.Event) { e.Error = new("exit\n3") }),
		clitest.Event("task.newfangled", wire.StateFailed),
	}
	s.OnStream("GET /v1/events", func(r *http.Request, send func(string, string, any)) {
		for _, e := range events {
			send(e.Type, "", e)
		}
		send("dropped", "", wire.Dropped{Count: 7, Reason: wire.DroppedSlowReader})
		<-r.Context().Done()
	})
	for name, c := range map[string]struct {
		shell clitest.Shell
		args  []string
		want  []string
	}{
		"in a pipe": {s.Pipe(), nil, []string{
			"2026-01-02T15:04:05.000Z\ttask.scheduled\tdefault\ta\tscheduled\t0\tdefault\tshell\t\tme\t2026-01-02T15:05:05.000Z\t\t\t",
			"2026-01-02T15:04:05.000Z\ttask.running\tdefault\ta\trunning\t1\tdefault\tshell\tn1\t\t\t\t\t",
			"2026-01-02T15:04:05.000Z\ttask.progress\tdefault\ta\trunning\t1\tdefault\tshell\t\t\t\t0\t\trow 1",
			"2026-01-02T15:04:05.000Z\ttask.failed\tdefault\ta\tfailed\t1\tdefault\tshell\t\t\t\t\texit 3\t",
			"2026-01-02T15:04:05.000Z\ttask.newfangled\tdefault\ta\tfailed\t1\tdefault\tshell\t\t\t\t\t\t",
		}},
		"on a terminal": {s.Terminal(), nil, []string{
			"16:04:05.000  scheduled   a  due in 1 minute",
			"16:04:05.000  " + printer.Cyan + "running   " + printer.Reset + "  a  attempt 1  on n1",
			"16:04:05.000  progress    a  attempt 1  0 %  row 1",
			"16:04:05.000  " + printer.Red + "failed    " + printer.Reset + "  a  attempt 1  (exit 3)",
			"16:04:05.000  newfangled  a  attempt 1",
		}},
		"as JSON, on a terminal too": {s.Terminal(), []string{"-o", "json"}, []string{
			clitest.JSON(t, events[0]), clitest.JSON(t, events[1]), clitest.JSON(t, events[2]), clitest.JSON(t, events[3]), clitest.JSON(t, events[4]),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			j := c.shell.Start(t, append([]string{"events"}, c.args...)...)
			j.Err.Await(t, "dropped")
			j.Interrupt()
			j.Wait().Expect(t, 0, strings.Join(c.want, "\n")+"\n", "dtsctl: 7 events were dropped: they were not read fast enough\n")
		})
	}
}

// changes are some of each kind.
func changes() []wire.Change {
	return []wire.Change{
		{Type: "schedule.paused", At: wire.At(clitest.Now), Namespace: new("default"), Schedule: new("nightly"), Revision: new(3),
			By: new("ann"), Note: new("the\ndisk")},
		{Type: "workflow.updated", At: wire.At(clitest.Now), Namespace: new("default"), Workflow: new("etl"), Revision: new(2),
			By: new("ann")},
		{Type: "queue.limited", At: wire.At(clitest.Now), Queue: new("low"), Capacity: new(7), Limit: new(7)},
		{Type: "queue.limited", At: wire.At(clitest.Now), Queue: new("low"), Limit: new(0), By: new("ann")},
		{Type: "limit.set", At: wire.At(clitest.Now), LimitName: new("key:*"), By: new("ann")},
		{Type: "node.changed", At: wire.At(clitest.Now), Node: new("n1"), State: new("draining")},
		{Type: "node.newfangled", At: wire.At(clitest.Now), Node: new("n1")},
	}
}

func TestEvents_PrintsChanges(t *testing.T) {
	s := clitest.Start(t)
	running := clitest.Event("task.running", wire.StateRunning)
	s.OnStream("GET /v1/events", func(r *http.Request, send func(string, string, any)) {
		send(running.Type, "", running)
		for _, c := range changes() {
			send(c.Type, "", c)
		}
		send("dropped", "", wire.Dropped{Count: 7, Reason: wire.DroppedSlowReader})
		<-r.Context().Done()
	})
	var asJSON []string
	for _, c := range changes() {
		asJSON = append(asJSON, clitest.JSON(t, c))
	}
	for name, c := range map[string]struct {
		shell clitest.Shell
		args  []string
		want  []string
	}{
		"in a pipe": {s.Pipe(), nil, []string{
			"2026-01-02T15:04:05.000Z\ttask.running\tdefault\ta\trunning\t1\tdefault\tshell\t\t\t\t\t\t\t\t\t\t\t\t\t",
			"2026-01-02T15:04:05.000Z\tschedule.paused\tdefault\t\t\t\t\t\t\t\t\t\t\t\tnightly\t3\t\tann\tthe disk\t\t",
			"2026-01-02T15:04:05.000Z\tworkflow.updated\tdefault\t\t\t\t\t\t\t\t\t\t\t\t\t2\t\tann\t\tetl\t",
			"2026-01-02T15:04:05.000Z\tqueue.limited\t\t\t\t\tlow\t\t\t\t\t\t\t\t\t\t7\t\t\t\t",
			"2026-01-02T15:04:05.000Z\tqueue.limited\t\t\t\t\tlow\t\t\t\t\t\t\t\t\t\t0\tann\t\t\t",
			"2026-01-02T15:04:05.000Z\tlimit.set\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\tann\t\t\tkey:*",
			"2026-01-02T15:04:05.000Z\tnode.changed\t\t\tdraining\t\t\t\tn1\t\t\t\t\t\t\t\t\t\t\t\t",
			"2026-01-02T15:04:05.000Z\tnode.newfangled\t\t\t\t\t\t\tn1\t\t\t\t\t\t\t\t\t\t\t\t",
		}},
		"on a terminal": {s.Terminal(), nil, []string{
			"16:04:05.000  " + printer.Cyan + "running   " + printer.Reset + "  a  attempt 1",
			"16:04:05.000  paused      schedule nightly  revision 3  by ann  (the disk)",
			"16:04:05.000  updated     workflow etl  revision 2  by ann",
			"16:04:05.000  limited     queue low  capacity 7",
			"16:04:05.000  limited     queue low  capacity none  by ann",
			"16:04:05.000  set         limit key:*  by ann",
			"16:04:05.000  changed     node n1  draining",
			"16:04:05.000  newfangled  node n1",
		}},
		"as JSON": {s.Pipe(), []string{"-o", "json"}, append([]string{clitest.JSON(t, running)}, asJSON...)},
	} {
		t.Run(name, func(t *testing.T) {
			j := c.shell.Start(t, append([]string{"events", "--about", "task,schedule,queue", "--about", "node"}, c.args...)...)
			j.Err.Await(t, "dropped")
			j.Interrupt()
			j.Wait().Expect(t, 0, strings.Join(c.want, "\n")+"\n", "dtsctl: 7 events were dropped: they were not read fast enough\n")
			if got := s.Last().Line; got != "GET /v1/events?about=task,schedule,queue,node" {
				t.Errorf("asked %q", got)
			}
		})
	}
}

// A node of an earlier release escapes these signs.
func TestEvents_LeavesSignsOfJSONAsTheyAre(t *testing.T) {
	s := clitest.Start(t)
	s.OnStream("GET /v1/events", func(r *http.Request, send func(string, string, any)) {
		send("task.failed", "", clitest.Event("task.failed", wire.StateFailed, func(e *wire.Event) {
			e.Error = new("a && b <c>")
		}))
		send("dropped", "", wire.Dropped{Count: 7, Reason: wire.DroppedSlowReader})
		<-r.Context().Done()
	})
	j := s.Pipe().Start(t, "events", "-o", "json")
	j.Err.Await(t, "dropped")
	j.Interrupt()
	if got := j.Wait(); !strings.Contains(got.Out, `"error":"a && b <c>"`) {
		t.Errorf("printed %s", got.Out)
	}
}

func TestEvents_SendsTheFilter(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/events", 400, clitest.Problem(400, wire.Invalid, "node", "node: is odd"))
	s.Pipe().Run(t, "events", "-n", "*", "--state", "failed", "--state", "cancelled", "--queue", "q", "--type", "t", "--owner", "o", "--node", "n", "--schedule", "a", "--task", "a@b").
		Expect(t, 1, "", "dtsctl: node: is odd (invalid)\n")
	if got, want := s.Last().Line, "GET /v1/events?namespace=%2A&state=failed,cancelled&queue=q&type=t&owner=o&node=n&schedule=a&task=a%40b"; got != want {
		t.Errorf("asked %q, want %q", got, want)
	}
}

func TestEvents_ReconnectsAfterABreak(t *testing.T) {
	s := clitest.Start(t)
	var connections atomic.Int32
	s.OnStream("GET /v1/events", func(r *http.Request, send func(string, string, any)) {
		send("task.queued", "", clitest.Event("task.queued", wire.StateQueued))
		switch connections.Add(1) {
		case 1: // the server stops
		case 2:
			panic(http.ErrAbortHandler) // the connection breaks
		default:
			send("task.failed", "", clitest.Event("task.failed", wire.StateFailed))
			<-r.Context().Done()
		}
	})
	j := s.Pipe().Start(t, "events")
	j.Out.Await(t, "task.failed")
	j.Interrupt()
	got := j.Wait()
	if got.Code != 0 || strings.Count(got.Out, "task.queued") != 3 || strings.Count(got.Err, "was lost") != 2 || strings.Count(got.Err, "connected again") != 2 {
		t.Errorf("%+v", got)
	}
}

func TestEvents_ReconnectsWhenTheServerFallsSilent(t *testing.T) {
	s := clitest.Start(t)
	var connections atomic.Int32
	s.OnStream("GET /v1/events", func(r *http.Request, send func(string, string, any)) {
		if connections.Add(1) > 1 {
			send("task.failed", "", clitest.Event("task.failed", wire.StateFailed))
		}
		<-r.Context().Done()
	})
	sh := s.Pipe()
	sh.StreamIdle = 50 * time.Millisecond
	j := sh.Start(t, "events")
	j.Out.Await(t, "task.failed")
	j.Interrupt()
	if got := j.Wait(); got.Code != 0 || !strings.Contains(got.Err, "it fell silent") {
		t.Errorf("%+v", got)
	}
}

func TestEvents_GivesUpWhenTheServerRefusesAfterABreak(t *testing.T) {
	s := clitest.Start(t)
	var connections atomic.Int32
	s.OnStream("GET /v1/events", func(*http.Request, func(string, string, any)) {})
	sh := s.Pipe()
	sh.Transport = clitest.RoundTripper(func(r *http.Request) (*http.Response, error) {
		if connections.Add(1) > 1 {
			return clitest.Answer(r, 400, clitest.JSON(t, clitest.Problem(400, wire.Invalid, "", "not any more"))), nil
		}
		return s.Transport.RoundTrip(r)
	})
	got := sh.Run(t, "events")
	if got.Code != 1 || !strings.HasSuffix(got.Err, "dtsctl: not any more (invalid)\n") {
		t.Errorf("%+v", got)
	}
}

// The status of such an answer was 200, so nothing but its last event tells.
func TestEvents_FailsIfTheStreamSaysSo(t *testing.T) {
	s := clitest.Start(t)
	s.OnStream("GET /v1/events", func(_ *http.Request, send func(string, string, any)) {
		send("problem", "", clitest.Problem(500, wire.Internal, "", "see the server's log for this request id"))
	})
	if got := s.Pipe().Run(t, "events"); got.Code != 1 || !strings.Contains(got.Err, "see the server's log") {
		t.Errorf("%+v", got)
	}
}
