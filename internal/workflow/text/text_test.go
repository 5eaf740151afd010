package text_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
)

// all has every word that a definition can have.
const all = `{"params": {"day": "2026-11-25"}, "definition": {
	"description": "loads what the shops sold", "owner": "data", "labels": {"team": "data"}, "failure": "stop",
	"params": {
		"day": {"type": "string", "required": true, "pattern": "2026-.*"},
		"size": {"type": "integer", "default": 5, "enum": [5, 7], "min": 1, "max": 9.5}},
	"deadline": "5h", "closing": "2m", "at_once": 3, "max_runs": 2, "retention": "72h",
	"steps": [
		{"id": "list", "task": {
			"type": "http", "queue": "loads", "payload": {"url":"http://x/${{ params.day }}"}, "timeout": "1m30s",
			"retry": {"max_attempts": 4, "backoff": {"initial": "2s", "factor": 3, "max": "1m", "jitter": 0.5}},
			"owner": "shop", "labels": {"a": "b"}, "start_by": "1h", "priority": 2,
			"fair_key": "eu", "fair_weight": 2, "limit_key": "b,a", "select": "gpu, mem>4",
			"prefer": [{"select": "spot=no", "weight": 77}, {"select": "b in (c,d)"}],
			"route": {"by": "hash", "key": "tenant-7", "sticky": "require"}}},
		{"id": "choose", "needs": ["list"], "rule": "success", "when": "true", "decide": [
			{"when": "params.size > 5", "then": ["large"]}, {"then": []}]},
		{"id": "rest", "wait": {"for": "1h30m"}}, {"id": "noon", "wait": {"until": "${{ params.day }}T12:00:00Z"}},
		{"id": "paid", "wait": {"signal": "paid", "timeout": "48h", "on_timeout": "skip"}},
		{"id": "ok", "wait": {"approval": {"by": ["ops"], "form": {"amount": {"type": "integer", "max": 77.5}}}}},
		{"id": "large", "needs": ["choose"], "allow_failure": true, "task": {"type": "noop"}}],
	"on_failure": [{"id": "alert", "task": {"type": "noop"}}], "finally": [{"id": "tidy", "task": {"type": "noop"}}],
	"output": {"n":"${{ steps.list.output }}"}}}`

func TestParse_ReadsWhatEncodeWrites(t *testing.T) {
	t.Parallel()
	start, err := text.ParseStart("default", []byte(all))
	testkit.Must(t, err)
	if _, err := workflow.Compile(start.Definition); err != nil {
		t.Errorf("the definition is refused: %v", err)
	}
	written, err := text.Encode(start.Definition)
	testkit.Must(t, err)
	got, err := text.Parse("default", written)
	testkit.Must(t, err)
	if diff := cmp.Diff(start.Definition, got); diff != "" {
		t.Errorf("it was read (-), and is read again (+):\n%s", diff)
	}
	again, err := text.Encode(got)
	testkit.Must(t, err)
	if again != written {
		t.Errorf("it is written as\n%s\nand then as\n%s", written, again)
	}
	for _, word := range []string{
		"closing", "max_runs", "fair_weight", "b,a", "gpu,mem", "77", "tenant-7", "require", "allow_failure", "1m30s",
		"on_failure", "9.5", "1h30m", "T12:00", "on_timeout", "ops", "77.5",
	} {
		if !strings.Contains(written, word) {
			t.Errorf("%s is not in %s", word, written)
		}
	}
}

func TestParseStart_NamesTheField(t *testing.T) {
	t.Parallel()
	const timeout = `{"definition": {"steps": [{"id": "a", "task": {"type": "x", "timeout": "?"}}]}}`
	const wish = `{"definition": {"steps": [{"id": "a", "task": {"type": "x", "prefer": [{"select": "a", "weight": 0}]` +
		`}}]}}`
	const route = `{"definition": {"steps": [{"id": "a", "task": {"type": "x", "route": {"by": "hash"}}}]}}`
	const waits = `{"definition": {"steps": [{"id": "a", "wait": {"for": "soon"}}]}}`
	for payload, want := range map[string]string{
		`{"definition": {"steps": [], "deadline": "soon"}}`: "payload.definition.deadline",
		`{"definition": {"step": []}}`:                      "payload",
		`{"workflow": "etl", "definition": {"steps": []}}`:  "payload",
		waits:                 "payload.definition.steps[0].wait.for",
		`{"workflow": "a@b"}`: "payload.workflow",
		`{}`:                  "payload",
		`[]`:                  "payload",
		timeout:               "payload.definition.steps[0].task.timeout",
		wish:                  "payload.definition.steps[0].task.prefer[0].weight",
		route:                 "payload.definition.steps[0].task.route.key",
	} {
		_, err := text.ParseStart("default", []byte(payload))
		if err == nil || !strings.HasPrefix(err.Error(), want+":") {
			t.Errorf("%s: %v, want an error of %s", payload, err, want)
		}
	}
}
