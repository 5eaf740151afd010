package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Whatever a file holds, reading it ends well, or in errors that name a line; what is sent is JSON.
func FuzzReadManifest(f *testing.F) {
	for _, seed := range []string{
		"", "a", "[]", "{}", "---\n---\n", "schedules:\ntasks:\n",
		"schedules: [{id: a, every: 1h, task: {type: http, payload: {x: [1, null]}}}]",
		"tasks: [{id: a, type: x, count: 3, <<: {delay: 1s}}]", "namespace: n\ntasks: [{id: a, type: &t x, queue: *t}]",
		"tasks: [&a [*a]]", "workflows: [{id: a, steps: [{id: b, task: {type: noop}}]}]",
		"schedules: [{id: a, every: 1h, workflow: {id: b, params: {c: 1}}}]",
		"? {a: b}\n: c", "tasks: [{id: a, type: x, payload: {a: .inf, b: !!binary aGVsbG8=, c: 0x_1, d: 1_000, e: 0o17}}]",
		"\x00", "{a: 1, a: 2}",
		"tasks: [{id: a, type: x, payload: !!int x}]", "!!merge <<: 1", "%YAML 9.9\n---\n", "tasks: !!set {a}",
		"a: [\n---\nb: 'x\n---\nschedules: [{id: a, every: 1h, task: {type: x}}]\n", "---\n---\n--- *\n---\n--- [",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Read([]Source{{"-", []byte(text)}}, nil, Namespaces{Fallback: "default"})
		var faults Faults
		switch {
		case errors.As(err, &faults):
			for _, f := range faults {
				if f.File != "-" || f.Line < 1 || f.Line > strings.Count(text, "\n")+2 || f.Text == "" {
					t.Errorf("%+v", f)
				}
			}
			return
		case err != nil:
			if !errors.Is(err, ErrEmpty) {
				t.Errorf("error %q", err)
			}
			return
		}
		for _, e := range slices.Concat(m.Workflows, m.Schedules, m.Tasks) {
			place := e.Fault("a[0].b", "")
			if e.ID == "" || !json.Valid(e.Body) || !json.Valid(e.Submission(e.ID)) || place.Line < 1 || place.Column < 1 {
				t.Errorf("%+v, %s", e, e.Body)
			}
		}
	})
}

func TestRead_TellsAllFaultsWithTheirPlaces(t *testing.T) {
	const text = `schedules:
  - id: a
    crom: 30 2 * * *
    task: {type: shell, retry: {max_attempts: often}}
  - {id: b, every: 1h, task: &t {type: [x]}}
--- # broken
a: [
---
tasks:
  - id: c
    type: *t
    count: 0
--- "open
---
schedules: 7
`
	want := strings.Join([]string{
		"f:3:5: schedules[0].crom: is not a field here; did you mean cron?",
		`f:4:47: schedules[0].task.retry.max_attempts: must be a whole number, not "often"`,
		"f:5:40: schedules[1].task.type: must be a text, not a list",
		"f:7:4: is not YAML: did not find expected node content",
		"f:11:11: is not YAML: unknown anchor 't' referenced: " +
			"a text that begins with * needs quotes, as in cron: '* * * * *'",
		"f:14:3: is not YAML: found unexpected document indicator",
		`f:15:12: schedules: must be a list, not "7"`,
	}, "\n")
	_, err := Read([]Source{{"f", []byte(text)}}, nil, Namespaces{Fallback: "default"})
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// The server names a field of an entry; the fault is where the file has it, or what it is in.
func TestFault_NamesThePlaceOfAField(t *testing.T) {
	m, err := Read([]Source{{"f", []byte(`x-task: &task {type: shell, retry: {delays: [1s, 2s]}}
tasks: []
schedules:
  - id: a
    specs:
      - cron: '0 0 * * *'
      - every:
          1ms
    labels:
      team: x
    task: *task
`)}}, nil, Namespaces{Fallback: "default"})
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"": "4:5 schedules[0]", "specs[0].cron": "6:15 schedules[0].specs[0].cron",
		"specs[1].every": "8:11 schedules[0].specs[1].every",
		"labels":         "9:5 schedules[0].labels", "labels.team": "10:13 schedules[0].labels.team",
		"task.timeout":         "11:5 schedules[0].task.timeout",
		"task.retry.delays[1]": "1:50 schedules[0].task.retry.delays[1]", "misfire.window": "4:5 schedules[0].misfire.window",
	} {
		f := m.Schedules[0].Fault(field, "is odd")
		if got := fmt.Sprintf("%d:%d %s", f.Line, f.Column, f.Field); got != want {
			t.Errorf("%q: %s, want %s", field, got, want)
		}
	}
}

func TestRead_NamesThePlaceOfBrokenSyntax(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{
			"schedules:\n  - id: a\n    every: 1h\n    task: {type: noop}\n  - id: b\n   every: 1h\n",
			"f:6:4: is not YAML: did not find expected '-' indicator",
		},
		{
			"schedules:\n  - id: a\n    note: \"x\" y\n    every: 1h\n",
			"f:3:15: is not YAML: did not find expected key",
		},
		{
			"schedules:\n  - id: ä\n    note: a: b\n",
			"f:3:12: is not YAML: mapping values are not allowed in this context",
		},
		{
			"{\n  \"schedules\": [\n    {\"id\": \"ä\" \"every\": 1}\n  ]\n}",
			"f:3:16: is not JSON: invalid character '\"' after object key:value pair",
		},
		{
			"{\"schedules\": [",
			"f:1:15: is not JSON: unexpected end of JSON input",
		},
	} {
		_, err := Read([]Source{{"f", []byte(c.text)}}, nil, Namespaces{Fallback: "default"})
		if err == nil || err.Error() != c.want {
			t.Errorf("got\n%v\nwant\n%s", err, c.want)
		}
	}
}

// The YAML package cuts fractions off.
func TestRead_CutsNoFraction(t *testing.T) {
	t.Parallel()
	const text = `limits:
  - {name: key:a, slots: 2.9}
tasks:
  - {id: a, type: noop, slots: 1.5, cost: 2e0}
`
	_, err := Read([]Source{{"f", []byte(text)}}, nil, Namespaces{Fallback: "default"})
	const want = `f:2:26: limits[0].slots: must be a whole number, not "2.9"` + "\n" +
		`f:4:32: tasks[0].slots: must be a whole number, not "1.5"`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want\n%s", err, want)
	}
}
