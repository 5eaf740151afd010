package graph_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/workflow/graph"
)

var sections = []graph.Section{
	{Name: "steps", Steps: []graph.Step{
		{ID: "list", State: "succeeded"}, {ID: "load", Needs: []string{"list"}, State: "blocked"},
	}},
	{Name: "finally", Steps: []graph.Step{{ID: "tidy"}}},
}

func TestText_DrawsSectionsBelowEachOther(t *testing.T) {
	t.Parallel()
	const want = "+ list  succeeded\n|\no load  blocked\n\nfinally:\n* tidy\n"
	if diff := cmp.Diff(want, graph.Text(sections, graph.Options{ASCII: true})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDOT_WritesAClusterForEachOtherSection(t *testing.T) {
	t.Parallel()
	const want = `digraph "etl \"1\"" {
	node [shape=box, style="rounded,filled", fillcolor=white]
	"list" [label="list\nsucceeded", fillcolor=palegreen]
	"load" [label="load\nblocked"]
	"list" -> "load"
	subgraph cluster_finally {
	label="finally"
	"tidy"
	}
}
`
	if diff := cmp.Diff(want, graph.DOT(`etl "1"`, sections)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
