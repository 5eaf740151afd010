package httpexec

import (
	"testing"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

// A call for a follow-up tells how the task before ended: in headers, and in the body if it has none.
func TestExecutor_SendsHowTheTaskBeforeEnded(t *testing.T) {
	parent := &task.Parent{Namespace: "acme", ID: "order-1", Attempt: 3, State: task.Failed, Error: "HTTP 500"}
	const document = `{"namespace":"acme","id":"order-1","attempt":3,"state":"failed","error":"HTTP 500"}`
	for name, c := range map[string]struct {
		payload object
		parent  *task.Parent
		body    string
		headers map[string]string
	}{
		"without a body": {
			object{}, parent, document,
			map[string]string{
				"Dts-Parent-Id": "order-1", "Dts-Parent-State": "failed", "Dts-Parent-Attempt": "3",
				"Content-Type": "application/json",
			},
		},
		"with a body": {
			object{"body": "mine", "headers": object{"Content-Type": "text/plain"}}, parent, "mine",
			map[string]string{"Dts-Parent-Id": "order-1", "Content-Type": "text/plain"},
		},
		"by GET": {
			object{"method": "GET"}, parent, "", map[string]string{"Dts-Parent-State": "failed", "Content-Type": ""},
		},
		"of no one": {
			object{}, nil, "", map[string]string{"Dts-Parent-Id": "", "Dts-Parent-State": "", "Dts-Parent-Attempt": ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := serve(t)
			c.payload["url"] = url
			r := executortest.NewRecorder(executortest.JSON(t, c.payload))
			r.Task.Parent = c.parent
			if _, err := newExecutor(t).Execute(t.Context(), r.Attempt); err != nil {
				t.Fatal(err)
			}
			got := <-requests
			if got.body != c.body {
				t.Errorf("the body is %q, want %q", got.body, c.body)
			}
			for name, want := range c.headers {
				if value := got.Header.Get(name); value != want {
					t.Errorf("%s is %q, want %q", name, value, want)
				}
			}
		})
	}
}
