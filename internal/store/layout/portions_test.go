package layout

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

func TestTextBytes_AreThoseOfTheJSON(t *testing.T) {
	t.Parallel()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, text := range []string{
		"", "plain", "\"\\\b\f\n\r\t", "\x00\x01\x1b[2J\x7f", "a\u2028b\u2029",
		"é€😀", "\xff\xfe", "cut \xe2\x82", "\uFFFD", "<&>",
		string(every),
	} {
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		testkit.Must(t, enc.Encode(text))
		if got, want := TextBytes(text), out.Len()-len("\"\"\n"); got != want {
			t.Errorf("%q: %d bytes, want %d: %s", text, got, want, out.Bytes())
		}
	}
}
