package manifest

import (
	"encoding/json"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/dts-sched/dts/internal/testkit"
)

func TestYAML_MeansTheSameAsItsJSON(t *testing.T) {
	for _, document := range []string{
		`{"z": 1, "a": {"list": [1, -2.5, 1e3, true, null, "x"], "empty": [], "none": {}}}`,
		`{"strings": ["true", "null", "1", "2026-01-02T15:04:05Z", "", " ", "a: b", "- x"]}`,
		`{"strings": ["line\nbreak\n", "\u001b[0m", "\"", "é\ud83d\ude00", "~", "0x1f"]}`,
		`"text"`, `[]`, `[[1], [[]]]`,
	} {
		node, err := YAML(json.RawMessage(document))
		testkit.Must(t, err)
		text, err := yaml.Marshal(node)
		testkit.Must(t, err)
		var got, want any
		testkit.Must(t, yaml.Unmarshal(text, &got))
		testkit.Must(t, json.Unmarshal([]byte(document), &want))
		if g, w := normal(t, got), normal(t, want); g != w {
			t.Errorf("%s became\n%s, which is %s", document, text, g)
		}
	}
}

// normal returns v as JSON, in which all numbers have one type.
func normal(t *testing.T, v any) string {
	t.Helper()
	var again any
	testkit.Must(t, json.Unmarshal([]byte(jsonOf(t, v)), &again))
	return jsonOf(t, again)
}

func TestYAML_KeepsTheOrderOfTheKeys(t *testing.T) {
	node, err := YAML(json.RawMessage(`{"z":1,"a":2}`))
	testkit.Must(t, err)
	text, err := yaml.Marshal(node)
	testkit.Must(t, err)
	if string(text) != "z: 1\na: 2\n" {
		t.Errorf("got %q", text)
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	testkit.Must(t, err)
	return string(raw)
}
