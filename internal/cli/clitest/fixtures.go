package clitest

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/testkit"
)

// Task returns a task in a state, changed as the test needs it.
func Task(id string, state wire.State, changes ...func(*wire.Task)) wire.Task {
	t := wire.Task{
		ID: id, Namespace: "default", Type: "shell", Queue: "default", State: state, MaxAttempts: 4,
		RunAt: wire.At(Now.Add(3 * time.Minute)), CreatedAt: wire.At(Now.Add(-2 * time.Minute)), Payload: json.RawMessage(`{"command":["true"]}`),
		Timeout: "10m0s", Retry: wire.Retry{MaxAttempts: new(4)},
	}
	for _, change := range changes {
		change(&t)
	}
	return t
}

// Ran makes a task one that a node ran for 1.5 s.
func Ran(t *wire.Task) {
	t.Attempt, t.Node = 1, new("n1")
	t.StartedAt, t.FinishedAt = new(wire.At(Now.Add(-3500*time.Millisecond))), new(wire.At(Now.Add(-2*time.Second)))
}

// Problem returns a problem. An empty field is left out.
func Problem(status int, code wire.ProblemCode, field, detail string) wire.Problem {
	p := wire.Problem{
		Type: "urn:dts:problem:" + string(code), Title: "No", Status: status, Detail: detail, Code: code, RequestID: "r1",
	}
	if field != "" {
		p.Field = &field
	}
	return p
}

// AcceptBatches answers every batch of tasks, and refuses tasks of the type "bad".
func AcceptBatches(s *Stub) { s.Handle("POST /v1/tasks/batch", BatchHandler(s)) }

// BatchHandler answers a batch of tasks as AcceptBatches does.
func BatchHandler(s *Stub) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var b wire.SubmissionBatch
		testkit.Must(s.T, json.NewDecoder(r.Body).Decode(&b))
		var a wire.BatchAnswer
		for _, submission := range b.Tasks {
			if submission.Type == "bad" {
				p := Problem(400, wire.Invalid, "type", "type: is bad")
				a.Results = append(a.Results, wire.BatchResult{Status: 400, Error: &p})
				continue
			}
			t := Task(*submission.ID, wire.StateScheduled)
			a.Results = append(a.Results, wire.BatchResult{Status: 201, Task: &t})
		}
		s.Reply(w, 200, a)
	}
}

// Event returns an event of task a, changed as the test needs it.
func Event(kind string, state wire.State, changes ...func(*wire.Event)) wire.Event {
	e := wire.Event{Type: kind, Namespace: "default", Task: "a", State: state, Attempt: 1, At: wire.At(Now), Queue: "default", TaskType: "shell"}
	for _, change := range changes {
		change(&e)
	}
	return e
}
