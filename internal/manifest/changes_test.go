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
