package apply

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Whatever a file holds, reading it ends well, or in errors that name a line; what is sent is JSON.
func FuzzReadManifest(f *testing.F) {
	for _, seed := range []string{
		"", "a", "[]", "{}", "---\n---\n", "schedules:\ntasks:\n", "schedules: [{id: a, every: 1h, task: {type: http, payload: {x: [1, null]}}}]",
		"tasks: [{id: a, type: x, count: 3, <<: {delay: 1s}}]", "namespace: n\ntasks: [{id: a, type: &t x, queue: *t}]", "tasks: [&a [*a]]",
		"? {a: b}\n: c", "tasks: [{id: a, type: x, payload: {a: .inf, b: !!binary aGVsbG8=, c: 0x_1, d: 1_000, e: 0o17}}]", "\x00", "{a: 1, a: 2}",
		"tasks: [{id: a, type: x, payload: !!int x}]", "!!merge <<: 1", "%YAML 9.9\n---\n", "tasks: !!set {a}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := readManifest(strings.NewReader(text), []string{"-"}, namespaces{fallback: "default"})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "nothing was sent:") {
				t.Errorf("error %q", err)
			}
			return
		}
		for _, e := range slices.Concat(m.schedules, m.tasks) {
			if e.id == "" || !json.Valid(e.body) || !json.Valid(e.submission(e.id).body) || e.line("a[0].b") < 1 {
				t.Errorf("%+v, %s", e, e.body)
			}
		}
	})
}
