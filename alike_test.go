package dts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/testkit"
)

// badCall is a call with an input that is invalid, and the field that the error names.
type badCall struct {
	field string
	call  func(ctx context.Context, c *dts.Client) error
}

// errOf returns the error of a call that returns a value as well.
func errOf[T any](_ T, err error) error { return err }

// errIn returns the error that a sequence yields.
func errIn[T any](all iter.Seq2[T, error]) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// badSubmissions are refused at each of the places where a way in may refuse one: the conversion, the checks of package
// task, and those of the type. The rules themselves are tested in package task.
func badSubmissions() map[string]struct {
	dts.Submission
	field string
} {
	year10000 := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	noFactor := dts.Retry{Backoff: dts.Backoff{Factor: math.NaN()}}
	negative := dts.Retry{Delays: []time.Duration{0, -time.Second}}
	return map[string]struct {
		dts.Submission
		field string
	}{
		"a payload that cannot be":  {dts.Submission{Type: "noop", Payload: func() {}}, "payload"},
		"a payload that is no JSON": {dts.Submission{Type: "noop", Payload: json.RawMessage("{")}, "payload"},
		"a payload of another type": {dts.Submission{Type: "noop", Payload: map[string]int{"sleep": 1}}, "payload.sleep"},
		"no type":                   {dts.Submission{}, "type"},
		"an id of a tick":           {dts.Submission{Type: "noop", ID: "a@b"}, "id"},
		"a year of five digits":     {dts.Submission{Type: "noop", RunAt: year10000}, "run_at"},
		"a part of a ms":            {dts.Submission{Type: "noop", Delay: time.Microsecond}, "delay"},
		"a negative timeout":        {dts.Submission{Type: "noop", Timeout: -1}, "timeout"},
		"a factor that is none":     {dts.Submission{Type: "noop", Retry: noFactor}, "retry.backoff.factor"},
		"a negative wait":           {dts.Submission{Type: "noop", Retry: negative}, "retry.delays[1]"},
		"a label that is no text":   {dts.Submission{Type: "noop", Labels: map[string]string{"a": "\xff"}}, "labels.a"},
	}
}

// badSchedules are refused before they are sent, since JSON would change them or cannot have them.
func badSchedules() map[string]badCall {
	rows := make(map[string]badCall)
	for field, d := range map[string]dts.ScheduleDefinition{
		"start_at":         {StartAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"description":      {Description: "\xff"},
		"task.payload":     {Task: dts.TaskTemplate{Type: "noop", Payload: func() {}}},
		"task.labels.a":    {Task: dts.TaskTemplate{Type: "noop", Labels: map[string]string{"a": "\xff"}}},
		"misfire.policy":   {Task: dts.TaskTemplate{Type: "noop"}, Misfire: dts.Misfire{Policy: "twice"}}, // by the server
		"pause_on_failure": {Task: dts.TaskTemplate{Type: "noop"}, PauseOnFailure: -1},                    // the same
	} {
		d.Every = time.Hour
		rows["schedule: "+field] = badCall{field, func(ctx context.Context, c *dts.Client) error {
			return errOf(c.PutSchedule(ctx, "s", d))
		}}
	}
	return rows
}

// badNames are what no task, schedule, queue or lock is called. Most of them would have another meaning in the path of
// a URL.
var badNames = []string{
	"", ".", "..", "/", "a/b", "../nodes", "%2e%2e", "a?b", "a#b", "a b", "a\x00", "\xff", "é", "*",
	"a@", "@a", strings.Repeat("x", 201),
	strings.Repeat("x", 1<<20),
}

// badNamespaces are what no namespace is called.
var badNamespaces = []string{"", ".", "..", "a b", "*", "\xff", strings.Repeat("x", 201)}

// calls are the methods that take a name, by the kind of what it names.
var calls = map[string]map[string]func(ctx context.Context, c *dts.Client, name string) error{
	"id": {
		"Get":    func(ctx context.Context, c *dts.Client, id string) error { return errOf(c.Get(ctx, id)) },
		"Wait":   func(ctx context.Context, c *dts.Client, id string) error { return errOf(c.Wait(ctx, id)) },
		"Cancel": func(ctx context.Context, c *dts.Client, id string) error { return errOf(c.Cancel(ctx, id)) },
		"Retry":  func(ctx context.Context, c *dts.Client, id string) error { return errOf(c.Retry(ctx, id)) },
		"Attempts": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.Attempts(ctx, id))
		},
		"Logs":       func(ctx context.Context, c *dts.Client, id string) error { return errIn(c.Logs(ctx, id)) },
		"FollowLogs": func(ctx context.Context, c *dts.Client, id string) error { return errIn(c.FollowLogs(ctx, id)) },
		"Change": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.Change(ctx, id, dts.TaskChange{Queue: new("low")}))
		},
		"GetRun": func(ctx context.Context, c *dts.Client, id string) error { return errOf(c.GetRun(ctx, id)) },
		"PauseRun": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.PauseRun(ctx, id))
		},
		"ResumeRun": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.ResumeRun(ctx, id))
		},
		"RerunRun": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.RerunRun(ctx, id, "a"))
		},
		"SignalRun": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.SignalRun(ctx, id, "paid", nil))
		},
		"ApproveStep": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.ApproveStep(ctx, id, "ok", "", nil))
		},
		"RejectStep": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.RejectStep(ctx, id, "ok", ""))
		},
		"OutputOf": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(dts.OutputOf[int](ctx, c, id, "a"))
		},
		"PutWorkflow": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.PutWorkflow(ctx, id, dts.Workflow{Steps: dts.Steps{step("a")}}))
		},
		"GetWorkflow": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.GetWorkflow(ctx, id))
		},
		"DeleteWorkflow": func(ctx context.Context, c *dts.Client, id string) error { return c.DeleteWorkflow(ctx, id) },
		"PauseWorkflow": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.PauseWorkflow(ctx, id, ""))
		},
		"ResumeWorkflow": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.ResumeWorkflow(ctx, id))
		},
		"WorkflowRevisions": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.WorkflowRevisions(ctx, id))
		},
		"RollbackWorkflow": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.RollbackWorkflow(ctx, id, 1))
		},
		"StartWorkflow": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.StartWorkflow(ctx, id, nil))
		},
		"PutSchedule": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.PutSchedule(ctx, id, dts.ScheduleDefinition{Every: time.Hour, Task: dts.TaskTemplate{Type: "noop"}}))
		},
		"GetSchedule": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.GetSchedule(ctx, id))
		},
		"PauseSchedule": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.PauseSchedule(ctx, id, ""))
		},
		"ResumeSchedule": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.ResumeSchedule(ctx, id))
		},
		"TriggerSchedule": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.TriggerSchedule(ctx, id))
		},
		"TriggerScheduleWithKey": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.TriggerScheduleWithKey(ctx, id, "k"))
		},
		"DeleteSchedule": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.DeleteSchedule(ctx, id, ""))
		},
		"UpcomingTicks": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.UpcomingTicks(ctx, id, 1))
		},
		"ScheduleRevisions": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.ScheduleRevisions(ctx, id))
		},
		"RollbackSchedule": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.RollbackSchedule(ctx, id, 1))
		},
		"ScheduleLedger": func(ctx context.Context, c *dts.Client, id string) error {
			return errIn(c.ScheduleLedger(ctx, id, dts.LedgerFilter{}))
		},
		"AuditSchedule": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.AuditSchedule(ctx, id, time.Time{}, time.Time{}))
		},
		"BackfillSchedule": func(ctx context.Context, c *dts.Client, id string) error {
			_, _, err := c.BackfillSchedule(ctx, id, dts.Backfill{From: time.Unix(1e9, 0), To: time.Unix(1e9, 0)})
			return err
		},
	},
	"queue": {
		"PauseQueue": func(ctx context.Context, c *dts.Client, name string) error { return c.PauseQueue(ctx, name) },
		"PauseQueueWithNote": func(ctx context.Context, c *dts.Client, name string) error {
			return c.PauseQueueWithNote(ctx, name, "drained by bob")
		},
		"SetQueueCapacity": func(ctx context.Context, c *dts.Client, name string) error {
			return c.SetQueueCapacity(ctx, name, 1)
		},
		"LimitQueue":  func(ctx context.Context, c *dts.Client, name string) error { return c.LimitQueue(ctx, name, 1) },
		"ResumeQueue": func(ctx context.Context, c *dts.Client, name string) error { return c.ResumeQueue(ctx, name) },
	},
	"node": {
		"CordonNode": func(ctx context.Context, c *dts.Client, node string) error {
			return errOf(c.CordonNode(ctx, node, "", 0))
		},
		"UncordonNode": func(ctx context.Context, c *dts.Client, node string) error {
			return errOf(c.UncordonNode(ctx, node))
		},
	},
	"step": {
		"ApproveStep of a step": func(ctx context.Context, c *dts.Client, step string) error {
			return errOf(c.ApproveStep(ctx, "r", step, "", nil))
		},
		"RejectStep of a step": func(ctx context.Context, c *dts.Client, step string) error {
			return errOf(c.RejectStep(ctx, "r", step, ""))
		},
	},
	"name": {
		"SignalRun of a name": func(ctx context.Context, c *dts.Client, name string) error {
			return errOf(c.SignalRun(ctx, "r", name, nil))
		},
		"Lock": func(ctx context.Context, c *dts.Client, name string) error {
			return errOf(c.Lock(ctx, name, time.Minute))
		},
	},
}

// unsentCalls are calls that name something in a wrong way, or have what JSON cannot carry.
func unsentCalls() map[string]badCall {
	farAway := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	rows := map[string]badCall{
		"Lock: a negative wait": {"wait", func(ctx context.Context, c *dts.Client) error {
			return errOf(c.Lock(ctx, "l", time.Minute, dts.LockWait(-1)))
		}},
		"Lock: no text": {"note", func(ctx context.Context, c *dts.Client) error {
			return errOf(c.Lock(ctx, "l", time.Minute, dts.LockNote("\xff")))
		}},
		"ApproveStep: no text": {"note", func(ctx context.Context, c *dts.Client) error {
			return errOf(c.ApproveStep(ctx, "r", "ok", "\xff", nil))
		}},
		"Change: far away": {"run_at", func(ctx context.Context, c *dts.Client) error {
			return errOf(c.Change(ctx, "s", dts.TaskChange{RunAt: &farAway}))
		}},
		"Change: no JSON": {"payload", func(ctx context.Context, c *dts.Client) error {
			return errOf(c.Change(ctx, "s", dts.TaskChange{Payload: json.RawMessage("{")}))
		}},
		"TriggerScheduleWithKey: no key": {"key", func(ctx context.Context, c *dts.Client) error {
			return errOf(c.TriggerScheduleWithKey(ctx, "s", ""))
		}},
		"BackfillSchedule: no key": {"key", func(ctx context.Context, c *dts.Client) error {
			_, _, err := c.BackfillSchedule(ctx, "s", dts.Backfill{From: time.Unix(1e9, 0), To: time.Unix(1e9, 0), Key: "a b"})
			return err
		}},
		"BackfillSchedule: far away": {"to", func(ctx context.Context, c *dts.Client) error {
			_, _, err := c.BackfillSchedule(ctx, "s", dts.Backfill{From: time.Unix(1e9, 0), To: farAway})
			return err
		}},
	}
	for kind, methods := range calls {
		for method, call := range methods {
			for _, name := range badNames {
				rows[fmt.Sprintf("%s: %.20q", method, name)] = badCall{kind, func(ctx context.Context, c *dts.Client) error {
					return call(ctx, c, name)
				}}
			}
			if kind == "queue" || kind == "node" { // of no namespace
				continue
			}
			for _, namespace := range badNamespaces {
				rows[fmt.Sprintf("%s in %.20q", method, namespace)] = badCall{
					"namespace", func(ctx context.Context, c *dts.Client) error {
						return call(ctx, c.In(namespace), "s")
					},
				}
			}
		}
	}
	for method, call := range map[string]func(ctx context.Context, c *dts.Client) error{
		"Submit": func(ctx context.Context, c *dts.Client) error {
			return errOf(c.Submit(ctx, dts.Submission{Type: "noop"}))
		},
		"Run": func(ctx context.Context, c *dts.Client) error {
			return errOf(c.Run(ctx, dts.Workflow{Steps: dts.Steps{step("a")}}, nil))
		},
		"SubmitMany": func(ctx context.Context, c *dts.Client) error {
			return errOf(c.SubmitMany(ctx, []dts.Submission{{Type: "noop"}}))
		},
		"List":   func(ctx context.Context, c *dts.Client) error { return errIn(c.List(ctx, dts.TaskFilter{})) },
		"Events": func(ctx context.Context, c *dts.Client) error { return errIn(c.Events(ctx, dts.TaskFilter{})) },
		"ListSchedules": func(ctx context.Context, c *dts.Client) error {
			return errIn(c.ListSchedules(ctx, dts.ScheduleFilter{}))
		},
		"ListLocks": func(ctx context.Context, c *dts.Client) error { return errIn(c.ListLocks(ctx)) },
	} {
		for _, namespace := range badNamespaces {
			if method == "Events" && namespace == "*" { // stands for all of them there
				continue
			}
			rows[fmt.Sprintf("%s in %.20q", method, namespace)] = badCall{
				"namespace", func(ctx context.Context, c *dts.Client) error { return call(ctx, c.In(namespace)) },
			}
		}
	}
	return rows
}

// counting is a transport that counts requests.
type counting struct{ requests atomic.Int64 }

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return http.DefaultTransport.RoundTrip(r)
}

// What a path of a URL would resolve, and what JSON would change, must not leave the program.
func TestClient_SendsNothingInvalid(t *testing.T) {
	t.Parallel()
	var sent counting
	c, err := dts.Dial("http://127.0.0.1:1", dts.WithTransport(&sent))
	testkit.Must(t, err)
	defer func() { testkit.Must(t, c.Close()) }()
	for name, row := range unsentCalls() {
		var refused *dts.Error
		err := row.call(t.Context(), c)
		if !errors.As(err, &refused) || refused.Code != dts.CodeInvalid || refused.Field != row.field {
			t.Errorf("%s: %v, want it for %q", name, err, row.field)
		}
	}
	if n := sent.requests.Load(); n > 0 {
		t.Errorf("sent %d requests", n)
	}
}

// TestClient_RefusesAlikeOverBothWays compares errors, which have another way back over HTTP.
func TestClient_RefusesAlikeOverBothWays(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	dial, err := dts.Dial(f.address)
	testkit.Must(t, err)
	open, err := dts.Open(f.redis)
	testkit.Must(t, err)
	defer func() { testkit.Must(t, errors.Join(dial.Close(), open.Close())) }()
	rows := badSchedules()
	for name, row := range badSubmissions() {
		rows["Submit: "+name] = badCall{row.field, func(ctx context.Context, c *dts.Client) error {
			return errOf(c.Submit(ctx, row.Submission))
		}}
		rows["SubmitMany: "+name] = badCall{row.field, func(ctx context.Context, c *dts.Client) error {
			results, err := c.SubmitMany(ctx, []dts.Submission{{ID: "fine", Type: "noop", Delay: time.Hour}, row.Submission})
			if err != nil || results[0].Err != nil {
				return fmt.Errorf("not alone: %w", errors.Join(err, results[0].Err))
			}
			return results[1].Err
		}}
	}
	for name, row := range rows {
		var overHTTP, direct *dts.Error
		one, other := row.call(t.Context(), dial), row.call(t.Context(), open)
		if !errors.As(one, &overHTTP) || !errors.As(other, &direct) {
			t.Errorf("%s: %v over HTTP, %v directly", name, one, other)
			continue
		}
		if overHTTP.Code != dts.CodeInvalid || overHTTP.Field != row.field {
			t.Errorf("%s: %s for %q, want it for %q: %.300s", name, overHTTP.Code, overHTTP.Field, row.field, overHTTP.Message)
		}
		if direct.Code != overHTTP.Code || direct.Field != overHTTP.Field || direct.Message != overHTTP.Message {
			t.Errorf("%s:\n over HTTP %s for %q: %.300s\n  directly %s for %q: %.300s", name,
				overHTTP.Code, overHTTP.Field, overHTTP.Message, direct.Code, direct.Field, direct.Message)
		}
	}
}
