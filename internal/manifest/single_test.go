package manifest

import (
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

func TestReadSingle_KeepsValuesAndKnowsPlaces(t *testing.T) {
	t.Parallel()
	const text = "steps:\n- id: a\n  when: params.n > 1.50\n  task: {n: 1.50, at: 2026-01-02}\n"
	s, err := ReadSingle(Source{"f.yaml", []byte(text)})
	testkit.Must(t, err)
	const want = `{"steps":[{"id":"a","when":"params.n > 1.50","task":{"n":1.50,"at":"2026-01-02"}}]}`
	if string(s.Body) != want {
		t.Errorf("it is %s", s.Body)
	}
	for field, place := range map[string]string{
		"steps[0].when": "f.yaml:3:9", "steps[0].task.n": "f.yaml:4:13", "steps[0].task.x": "f.yaml:4:3",
		"output": "f.yaml:1:1",
	} {
		if got := s.Fault(field, "").Place(); got != place {
			t.Errorf("%s is at %s, want %s", field, got, place)
		}
	}
}

func TestReadSingle_RefusesWhatIsNotOneMapping(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                  "f: is empty",
		"# nothing\n":       "f: is empty",
		"a: 1\n---\nb: 1\n": "f:3:1: is a second document: one is expected",
		"[a]":               "f:1:1: must be a mapping, not a list",
		"a: 1\na: 2\n":      "f:2:1: a: is given twice, first in line 1",
		"a: *b\n": "f:1:4: is not YAML: unknown anchor 'b' referenced: " +
			"a text that begins with * needs quotes, as in cron: '* * * * *'",
		"a:\n\tb: 1\n": "f:2:1: is not YAML: found character that cannot start any token: " +
			"it is indented with a tab: YAML is indented with spaces",
		"a:\n  - b: 1\n  \t c: 2\n": "f:3:1: is not YAML: found a tab character that violates indentation: " +
			"it is indented with a tab: YAML is indented with spaces",
		`{"a": [}`: "f:1:8: is not JSON: invalid character '}' looking for beginning of value",
	} {
		if _, err := ReadSingle(Source{"f", []byte(text)}); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
