package page

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

// etl is a workflow whose first step waits until somebody creates a file.
func etl(gate string) fields {
	shell := func(command string) fields {
		payload := fields{"command": []string{"sh", "-c", command}}
		return fields{"type": "shell", "payload": payload, "retry": fields{"max_attempts": 1}}
	}
	return fields{
		"description": "loads what the shops sold",
		"params": fields{
			"day": fields{"type": "string", "required": true}, "size": fields{"type": "integer", "default": 5},
		},
		"steps": []fields{
			{"id": "list", "task": shell("while ! test -e " + gate + "; do sleep 0.1; done")},
			{"id": "load", "needs": []string{"list"}, "task": shell("exec sleep 600")},
			{"id": "count", "needs": []string{"list"}, "task": shell("true")},
			{"id": "report", "needs": []string{"load", "count"}, "task": shell("true")},
		},
		"finally": []fields{{"id": "tidy", "task": shell("true")}},
	}
}

// A run is started, seen, paused, resumed and cancelled, and its page follows.
func runsAreSteered(t *testing.T, n *node) {
	gate := filepath.Join(t.TempDir(), "gate")
	n.send(http.MethodPut, "/v1/workflows/shops", etl(gate))
	b := n.openTab()
	b.open("/workflows")
	b.follow(`a[href="/workflows/default/shops"]`, "shops")
	b.follow(`a[href$="/shops/run"]`, "Run shops")
	b.write(`[name="payload.params.day"]`, "2026-11-25")
	b.write("#f-id", "shops-1")
	b.click(`main form[method=post] button`)
	b.await(`[role=status].note`, "The run was submitted at ")
	b.await("#verdict", "Runs: 0 of 5 steps have ended")
	if boxes := eval[int](b, `document.querySelectorAll("#graph svg a").length`); boxes != 5 {
		t.Errorf("%d boxes are drawn, want 5", boxes)
	}
	b.await(`form[action$="/pause"] button`, "Pause")
	b.click(`form[action$="/pause"] button`)
	b.await(`[role=status].note`, "The run was asked to pause at ")
	b.await("#verdict", "Paused: no further step begins.")
	b.await("#live", "Live")
	b.keep()
	testkit.Must(t, os.WriteFile(gate, nil, 0o600))
	b.await("#verdict", "1 of 5 steps have ended")
	b.await("#steps", "waits for the run to be resumed")
	if !b.kept() {
		t.Error("the page was read again")
	}
	b.await(`form[action$="/resume"] button`, "Resume")
	b.click(`form[action$="/resume"] button`)
	b.await("#verdict", "Runs: ")
	b.await("#graph", "running")
	b.click(`summary.red`)
	b.click(`form[action$="/cancel"] button`)
	b.await(`[role=status].note`, "The run was cancelled, or was asked to stop, at ")
	b.await("#verdict", "Cancelled by ")
	b.click(`#steps a[href="/tasks/default/shops-1@.load"]`)
	b.await("h1", "shops-1@.load")
	b.expectNoProblem("the run")
}

// With JavaScript off, a workflow is written, mended, put, and edited while somebody else puts it.
func workflowsAreWritten(t *testing.T, n *node) {
	const text = "workflows:\n  - id: written\n    steps:\n      - {id: a, task: {type: noop}}\n" +
		"      - {id: b, needs: [c], task: {type: noop}}\n"
	b := n.openTab()
	b.withoutScript()
	b.open("/workflows")
	b.follow(`a[href="/workflows/new"]`, "New workflow")
	b.write("#text", text)
	b.click(`.cap button[value="check"]`)
	b.await("main", "Line 5, column 25: workflows[0].steps[1].needs[0]: ")
	b.put(strings.Replace(b.value("#text"), "[c]", "[a]", 1), "It is valid.", "Revision 1 was put at ")
	if boxes := eval[int](b, `document.querySelectorAll("svg.dag a").length`); boxes != 2 {
		t.Errorf("%d boxes are drawn, want 2", boxes)
	}
	b.follow(`.acts a[href$="/edit"]`, "Edit written")
	mine := b.value("#text") + "    deadline: 2h\n"
	n.send(http.MethodPut, "/v1/workflows/written", fields{
		"at_once": 7, "steps": []fields{{"id": "a", "task": fields{"type": "noop"}}},
	})
	b.put(mine, "Somebody has put revision 2 meanwhile.", "Revision 3 was put at ")
	b.await("#revisions", "at_once: 7")
	b.click(`#revisions details:last-of-type summary`)
	b.follow(`a[href$="/rollback?revision=1"]`, "Roll back to revision 1")
	b.send("Revision 1 of the workflow was put again at ")
}
