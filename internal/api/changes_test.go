package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/change"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func (s *stubSource) tell(c change.Change) {
	s.call(func(l tasks.EventListener) { l.Change(&c) })
}

// Changes of each kind, in the order in which they happen.
var someChanges = []change.Change{
	{Type: "schedule.updated", At: start, Ref: ref("nightly"), Revision: 3, By: "ann"},
	{Type: change.SchedulePaused, At: start, Ref: ref("hourly"), Revision: 1, Note: "the disk"},
	{Type: "workflow.paused", At: start, Ref: ref("etl"), Revision: 2, By: "ann", Note: "the disk"},
	{Type: "queue.paused", At: start, Queue: "low", By: "ann", Note: "why"},
	{Type: change.QueueLimited, At: start, Queue: "default"},
	{Type: change.NodeJoined, At: start, Node: "n1"},
	{Type: change.NodeChanged, At: start, Node: "n2", State: "draining"},
	{Type: "limit.set", At: start, Limit: "key:*", By: "ann"},
}

func TestFollowEvents_SendsChanges(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	l := r.listen("/v1/events?about=schedule,workflow,queue,limit,node")
	r.source.publish(event("task.running", "a"))
	for _, c := range someChanges {
		r.source.tell(c)
	}
	for _, want := range []string{
		`{"type":"schedule.updated","namespace":"default","schedule":"nightly","revision":3,"by":"ann"}`,
		`{"type":"schedule.paused","namespace":"default","schedule":"hourly","revision":1,"note":"the disk"}`,
		`{"type":"workflow.paused","namespace":"default","workflow":"etl","revision":2,"by":"ann","note":"the disk"}`,
		`{"type":"queue.paused","queue":"low","by":"ann","note":"why"}`,
		`{"type":"queue.limited","queue":"default","capacity":0,"limit":0}`,
		`{"type":"node.joined","node":"n1"}`,
		`{"type":"node.changed","node":"n2","state":"draining"}`,
		`{"type":"limit.set","limit_name":"key:*","by":"ann"}`,
	} {
		m, data := l.next(), asMap(t, want)
		data["at"] = "2026-01-02T15:04:05.120Z"
		if diff := cmp.Diff(data, asMap(t, string(m.Data))); diff != "" || m.Name != data["type"] {
			t.Errorf("%s (-want +got):\n%s", m.Name, diff)
		}
	}
}

// A filter narrows what has its field.
func TestFollowEvents_FiltersChanges(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	all := append([]change.Change{
		{Type: "fleet.begun", At: start},
		{Type: "workflow.created", At: start, Ref: task.Ref{Namespace: "acme", ID: "etl"}},
		{Type: "schedule.created", At: start, Ref: task.Ref{Namespace: "acme", ID: "nightly"}},
	}, someChanges...)
	for query, want := range map[string]string{
		"":                                 "task.failed",
		"?about=task":                      "task.failed",
		"?about=schedule":                  "nightly hourly",
		"?about=schedule&namespace=acme":   "nightly",
		"?about=schedule&namespace=*":      "nightly nightly hourly",
		"?about=schedule&schedule=nightly": "nightly",
		"?about=workflow":                  "workflow.paused",
		"?about=workflow&namespace=acme":   "workflow.created",
		"?about=workflow,schedule&schedule=nightly": "nightly workflow.paused",
		"?about=queue":                    "low default",
		"?about=queue&namespace=acme":     "low default",
		"?about=queue,schedule&queue=low": "nightly hourly low",
		"?about=limit":                    "limit.set",
		"?about=node&node=n2":             "n2",
		"?about=task,node&state=running":  "n1 n2",
		"?about=task,node&state=failed":   "n1 n2 task.failed",
		"?about=task,queue&task=a":        "low default task.failed",
	} {
		l := r.listen("/v1/events?" + strings.TrimPrefix(query, "?"))
		for _, c := range all {
			r.source.tell(c)
		}
		e := event("task.failed", "a")
		e.State = "failed"
		r.source.publish(e)
		r.source.call(func(l tasks.EventListener) { l.Unreadable(errors.New("the end")) })
		var got []string
		for m := l.next(); m.Name != "dropped"; m = l.next() {
			data := asMap(t, string(m.Data))
			word := m.Name
			for _, field := range []string{"schedule", "queue", "node"} {
				if name, ok := data[field].(string); ok && !strings.HasPrefix(m.Name, "task.") {
					word = name
				}
			}
			got = append(got, word)
		}
		if words := strings.Join(got, " "); words != want {
			t.Errorf("%q sent %q, want %q", query, words, want)
		}
		l.close()
	}
}

func TestFollowEvents_RefusesWhatCannotMatch(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for query, want := range map[string]string{
		"about=fleet":                  "about[0]",
		"about=workflow&state=failed":  "state",
		"about=":                       "about",
		"about=schedule,":              "about[1]",
		"about=schedule&state=failed":  "state",
		"about=schedule&queue=low":     "queue",
		"about=queue,node&schedule=a":  "schedule",
		"about=queue,schedule&node=n1": "node",
		"about=node&task=a":            "task",
		"about=node&type=http":         "type",
		"about=node&owner=ops":         "owner",
	} {
		got := r.call(http.MethodGet, "/v1/events?"+query, "")
		problem := asMap(t, string(got.body))
		if got.status != http.StatusBadRequest || problem["field"] != want || problem["code"] != "invalid" {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
}

func TestFollowEvents_TellsOfLostChanges(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	plain, asked := r.listen("/v1/events"), r.listen("/v1/events?about=node")
	r.source.call(func(l tasks.EventListener) { l.UnreadableChange(errors.New("no JSON")) })
	if m := asked.next(); m.Name != "dropped" || string(m.Data) != `{"count":1,"reason":"unreadable"}` {
		t.Errorf("got %s %s", m.Name, m.Data)
	}
	r.source.publish(event("task.running", "a"))
	if m := plain.next(); m.Name != "task.running" {
		t.Errorf("who follows tasks got %s %s", m.Name, m.Data)
	}
}

func TestFollowEvents_ResumesChanges(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	stays := r.listen("/v1/events?about=node")
	gone := r.listen("/v1/events?about=node")
	r.source.tell(someChanges[5])
	id := gone.next().ID
	gone.close()
	r.source.tell(someChanges[6])
	stays.next()
	stays.next()
	back := r.listen("/v1/events?about=node", "Last-Event-ID", id)
	if m := back.next(); m.Name != change.NodeChanged || m.ID == "" {
		t.Errorf("got %s %s", m.Name, m.Data)
	}
}

// The pages of asynqmon pause a queue as the API does; the others are served by asynqmon.
func TestMonitor_PausesQueuesAsTheAPIDoes(t *testing.T) {
	t.Parallel()
	for _, writable := range []bool{true, false} {
		r := startRig(t, func(o *rigOptions) {
			o.MonitorWritable = writable
			o.Monitor = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
		})
		testkit.Must(t, r.queues.Add(r.ctx, "low"))
		sub := r.db.Subscribe(r.ctx, string(r.store.Keys.Changes()))
		defer func() { testkit.Must(t, sub.Close()) }()
		_, err := sub.Receive(r.ctx)
		testkit.Must(t, err)
		ours := http.StatusAccepted
		if writable {
			ours = http.StatusNoContent
		}
		for _, c := range []struct {
			method, path string
			want         int
			told         string
		}{
			{"POST", "low:pause", ours, "queue.paused"},
			{"POST", "low:resume", ours, "queue.resumed"},
			{"POST", "l%20w:pause", http.StatusAccepted, ""}, // is no name of DTS
			{"POST", "low:flush", http.StatusAccepted, ""},
			{"POST", "low", http.StatusAccepted, ""},
			{"GET", "low:pause", http.StatusAccepted, ""},
		} {
			if got := r.call(c.method, "/monitor/api/queues/"+c.path, ""); got.status != c.want {
				t.Errorf("writable %v: %s %s: %d %s", writable, c.method, c.path, got.status, got.body)
			}
			if c.told == "" || !writable {
				continue
			}
			m, err := sub.ReceiveMessage(r.ctx)
			testkit.Must(t, err)
			if told, err := change.Decode(m.Payload); err != nil || told.Type != c.told || told.Queue != "low" || told.By == "" {
				t.Errorf("%s told %s, %v", c.path, m.Payload, err)
			}
		}
	}
}
