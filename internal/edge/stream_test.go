package edge

import (
	"testing"
)

func TestFrame_LeavesSignsAsTheyAre(t *testing.T) {
	t.Parallel()
	text, err := Frame("failed", "7", map[string]string{"error": "a && b <c>"})
	want := "event: failed\nid: 7\ndata: {\"error\":\"a && b <c>\"}\n\n"
	if err != nil || string(text) != want {
		t.Errorf("got %q, %v", text, err)
	}
}
