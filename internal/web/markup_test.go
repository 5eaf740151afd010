package web

import (
	"encoding/json"
	"testing"
)

func TestPretty_ShowsWhatProgramsEscape(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"a \u0026\u0026 b \u003e\u003e c \u003c d"`: `"a && b >> c < d"`,
		`"\\u0026"`:                      `"\\u0026"`,
		`"\\\u0026"`:                     `"\\&"`,
		`{"a\u003e":"\u00e9\"\u003c\""}`: "{\n  \"a>\": \"\\u00e9\\\"<\\\"\"\n}",
		`no JSON \u0026`:                 `no JSON \u0026`,
	} {
		got := pretty(json.RawMessage(text))
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
