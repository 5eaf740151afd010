package api

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/why"
)

func TestWhy_AnswersForTaskScheduleAndQueue(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for path, body := range map[string]string{
		"/v1/tasks":             `{"id":"a","type":"http","delay":"1h"}`,
		"/v1/tasks?namespace=b": `{"id":"c","type":"http","delay":"1h"}`,
	} {
		if got := r.call("POST", path, body); got.status != 201 {
			t.Fatalf("status %d, %s", got.status, got.body)
		}
	}
	if got := r.call("PUT", "/v1/schedules/s", `{"every":"24h","task":{"type":"http"}}`); got.status != 201 {
		t.Fatalf("status %d, %s", got.status, got.body)
	}
	for path, want := range map[string]wire.WaitingForCode{
		"/v1/tasks/a/why": wire.WaitsForNotDue, "/v1/tasks/c/why?namespace=b": wire.WaitsForNotDue,
		"/v1/schedules/s/why": wire.WaitsForNotDue,
	} {
		var answer wire.Why
		got := r.call("GET", path, "")
		testkit.Must(t, json.Unmarshal(got.body, &answer))
		if got.status != 200 || answer.WaitingFor == nil || answer.At == nil || answer.Now == nil {
			t.Fatalf("%s: status %d, %s", path, got.status, got.body)
		}
		if answer.WaitingFor.Code != want {
			t.Errorf("%s: status %d, %s", path, got.status, got.body)
		}
	}
	for _, path := range []string{"/v1/tasks/c/why", "/v1/schedules/a/why", "/v1/queues/none/why"} {
		if got := r.call("GET", path, ""); got.status != 404 {
			t.Errorf("%s: status %d, %s", path, got.status, got.body)
		}
	}
}

// The list of codes is closed: the document has those of package why.
func TestWhy_DocumentHasAllCodes(t *testing.T) {
	t.Parallel()
	d, err := describe()
	testkit.Must(t, err)
	var documented, known []string
	for _, code := range d.doc.Components.Schemas["WaitingFor"].Value.Properties["code"].Value.Enum {
		documented = append(documented, code.(string))
	}
	for _, m := range why.Codes {
		known = append(known, string(m.Code))
	}
	slices.Sort(documented)
	slices.Sort(known)
	if !slices.Equal(documented, known) {
		t.Errorf("the document has %v, want %v", documented, known)
	}
}
