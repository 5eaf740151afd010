package api

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestFormatDuration_IsShortAndReadsBack(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "250ms": 250 * time.Millisecond, "30s": 30 * time.Second, "1m30s": 90 * time.Second, "10m": 10 * time.Minute,
		"1h": time.Hour, "24h": 24 * time.Hour, "1h0m1s": time.Hour + time.Second, "1h1m": time.Hour + time.Minute, "100h10m": 100*time.Hour + 10*time.Minute,
	} {
		got := task.FormatDuration(d)
		if back, err := task.ParseDuration("f", got); got != want || err != nil || back != d {
			t.Errorf("%v: %q, want %q; reads back as %v, %v", d, got, want, back, err)
		}
	}
}

func TestNodeOf_HasNoNullLists(t *testing.T) {
	raw, err := json.Marshal(nodeOf(cluster.Node{ID: "n"}))
	testkit.Must(t, err)
	got := asMap(t, string(raw))
	for _, key := range []string{"roles", "partitions", "queues"} {
		if got[key] == nil {
			t.Errorf("%s is null in %s", key, raw)
		}
	}
}

func TestNodeOf_LeavesOutWhatIsNotKnown(t *testing.T) {
	for name, c := range map[string]struct {
		node cluster.Node
		want string // of the members name, labels and machine
	}{
		"nothing":                                {cluster.Node{}, `{}`},
		"a machine of which nothing can be read": {cluster.Node{Machine: &cluster.Machine{}}, `{"machine":{}}`},
		"some": {
			cluster.Node{Machine: &cluster.Machine{CPU: new(0.0), Memory: &cluster.Space{Total: 8}}},
			`{"machine":{"cpu":0,"memory":{"used":0,"total":8}}}`,
		},
		"all": {
			cluster.Node{Name: "web-1", Labels: config.Labels{"zone": "eu", "spot": ""}, Machine: &cluster.Machine{
				CPU: new(0.5), Load: new(1.5), Memory: &cluster.Space{Used: 1, Total: 2}, Disk: &cluster.Space{Used: 3, Total: 4},
				Network: &cluster.Traffic{Received: 5, Sent: 6},
			}},
			`{"name":"web-1","labels":{"zone":"eu","spot":""},"machine":{"cpu":0.5,"load":1.5,"memory":{"used":1,"total":2},` +
				`"disk":{"used":3,"total":4},"network":{"received":5,"sent":6}}}`,
		},
	} {
		raw, err := json.Marshal(nodeOf(c.node))
		testkit.Must(t, err)
		got := asMap(t, string(raw))
		for key := range got {
			if key != "name" && key != "labels" && key != "machine" {
				delete(got, key)
			}
		}
		if diff := cmp.Diff(asMap(t, c.want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestQueueOf_WritesTheLatencyInWholeMilliseconds(t *testing.T) {
	got := queueOf(control.QueueInfo{Info: queue.Info{Name: "default", Waiting: 9, Size: 3, Pending: 2, Active: 1, Latency: 1500*time.Millisecond + 300*time.Microsecond}})
	if diff := cmp.Diff(wire.Queue{Name: "default", Waiting: 9, Size: 3, Pending: 2, Active: 1, Latency: "1.5s", Oldest: wire.Given("0s"), Pace: &wire.Pace{}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRetryOf_ShowsWhatApplies(t *testing.T) {
	d := task.Definition{Retry: task.Retry{Delays: []time.Duration{time.Minute, 5 * time.Minute}}}
	got := definition.Retry(task.Task{Definition: d}.Policy())
	if diff := cmp.Diff(&wire.Retry{MaxAttempts: wire.Given(3), Delays: []string{"1m", "5m"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzSubmission sends any body through the check and the translation: each is either refused with a code
// other than internal, or becomes a definition that answers, sent back in, become again.
func FuzzSubmission(f *testing.F) {
	doc, err := Document()
	if err != nil {
		f.Fatal(err)
	}
	schema := doc.Components.Schemas["Submission"].Value
	for _, seed := range []string{
		`{"type":"http"}`, `{"type":"http","payload":null}`, `{"type":"shell","delay":"1m30s","retry":{"delays":["1m"]}}`,
		`{"type":"http","run_at":"2026-02-30T00:00:00Z"}`, `{"type":"http","retry":{"max_attempts":1e1}}`, `{"type":"http"}}`,
		`{"type":"http","timeout":"99999999999999h","labels":{"a":"b"}}`, `{"type":"http","run_at":"2026-01-02T15:04:05.1234567+14:00"}`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := definitionFrom(raw, func() error { return checkBody(schema, raw) })
		var refusal *task.Error
		switch {
		case errors.As(err, &refusal) && edge.ProblemFor(contextOf("127.0.0.1"), err).Status < 500:
			return
		case err != nil:
			t.Fatalf("%q: %v", raw, err)
		}
		d = d.Normalize()
		if d.Validate(start) != nil {
			return
		}
		var none task.Types
		shown := TaskOf(task.Task{Definition: d, DueAt: start, CreatedAt: start}, nil)
		again, err := json.Marshal(wire.Submission{
			Type: shown.Type, Payload: shown.Payload, Retry: &shown.Retry, Timeout: &shown.Timeout, Labels: shown.Labels, ID: wire.Given(d.ID),
		})
		testkit.Must(t, err)
		back, err := definitionFrom(again, func() error { return checkBody(schema, again) })
		if err != nil {
			t.Fatalf("%s came back as %s: %v", raw, again, err)
		}
		if none.Timeout(back) != none.Timeout(d) || !reflect.DeepEqual(task.Task{Definition: back}.Policy(), task.Task{Definition: d}.Policy()) {
			t.Errorf("%s came back as %s", raw, again)
		}
	})
}

func definitionFrom(raw []byte, check func() error) (task.Definition, error) {
	if err := check(); err != nil {
		return task.Definition{}, err
	}
	var s wire.Submission
	if err := decode(raw, &s); err != nil {
		return task.Definition{}, err
	}
	return definition.Task(s)
}
