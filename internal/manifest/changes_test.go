package manifest

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Programs that write JSON escape signs that have a meaning in HTML.
func TestChanges_LeaveSignsOfJSONAsTheyAre(t *testing.T) {
	definition := func(payload string) json.RawMessage {
		return json.RawMessage(`{"every":"1h","task":{"type":"shell","payload":` + payload + `}}`)
	}
	got, err := Changes(definition(`{"command":["a \u0026\u0026 b"]}`), definition(`{"command":["a \u003e b"]}`))
	want := []Change{{Name: "task.payload.command", Before: `["a && b"]`, After: `["a > b"]`}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

// Steps are told apart by their ids, so that it does not matter where they are.
func TestWorkflowChanges_NameSteps(t *testing.T) {
	before := `{"deadline":"2h","steps":[
		{"id":"a","task":{"type":"noop"}},{"id":"b","needs":["a"],"task":{"type":"noop"}}]}`
	after := `{"deadline":"2h","steps":[{"id":"b","task":{"type":"noop"}},{"id":"a","task":{"type":"noop"}}],
		"finally":[{"id":"c","task":{"type":"noop","timeout":"5s"}}]}`
	got, err := WorkflowChanges(json.RawMessage(before), json.RawMessage(after))
	want := []Change{
		{Name: "finally.c.task.timeout", After: "5s"}, {Name: "finally.c.task.type", After: "noop"},
		{Name: "steps.b.needs", Before: `["a"]`},
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	text, err := WorkflowText(json.RawMessage(`{"steps":[{"id":"a"}]}`))
	if err != nil || text != "---\nsteps:\n  - id: a\n" {
		t.Errorf("%v: %q", err, text)
	}
}
