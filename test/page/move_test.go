package page

import (
	"net/http"
	"strings"
	"testing"
)

// tasksAreAskedToMove asks the worker of a running task to give it up to another one, which the form names.
func tasksAreAskedToMove(_ *testing.T, n *node) {
	n.awaitLimits() // a node follows both, or neither
	for _, worker := range []string{"here", "there"} {
		n.send(http.MethodPost, "/v1/tasks", fields{"id": "at-" + worker, "type": "count"})
		n.send(http.MethodPost, "/v1/workers/"+worker+"/take", fields{
			"types": []string{"count"}, "wait": "30s", "lease": "5m",
		})
	}
	b := n.openTab()
	b.open("/nodes")
	b.await("#rows", "there")
	b.open("/tasks/default/at-here")
	b.await("#acts", "To another node…")
	b.click("details:has(#t-node) summary")
	b.fill("#t-node", "nowhere")
	b.click("details:has(#t-node) .btn.pri")
	b.await("#w-to", `no living node has the id or the name "nowhere"`)
	b.fill("#t-node", "there")
	b.click("details:has(#t-node) .btn.pri")
	b.await("[role=status].note", "Its worker was asked at ")
	const named = `[...document.querySelectorAll("dt")].find(d => d.textContent == "To node")`
	b.awaitValue("the node", named+`?.nextSibling.textContent ?? ""`, "there")
}

// workersAreDrained drains a worker on the page of nodes. Its long note leaves room for the other columns.
func workersAreDrained(_ *testing.T, n *node) {
	n.send(http.MethodPost, "/v1/tasks", fields{"id": "at-drained", "type": "drained"})
	n.send(http.MethodPost, "/v1/workers/drained/take", fields{"types": []string{"drained"}, "wait": "30s", "lease": "5m"})
	b := n.openTab()
	b.look(1280, "light")
	b.open("/nodes")
	b.await("#rows", "drained")
	b.click(`a[href="#cordon"]`)
	b.fill("#cordon-node", "drained", "#note", strings.Repeat("its disk is being replaced ", 15))
	b.click("#cordon [name=drain]")
	b.click("#cordon .btn.pri")
	b.await("[role=status].note", "The node was drained at ")
	b.await("#rows", "draining")
	b.await("#rows", "one task left")
	b.await("#rows", "its disk is being replaced")
	for _, table := range eval[[]string](b, cutTables) {
		b.t.Errorf("a table is cut: %s", table)
	}
	b.expectRoom("/nodes with a long note")
}
