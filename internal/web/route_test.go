package web

import (
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/testkit"
)

// The page of a task says in words where it may run.
func TestReach_IsSaidInWords(t *testing.T) {
	t.Parallel()
	v := inEnglish(start)
	words := func(route wire.Route) string {
		d, err := definition.Task(wire.Submission{
			Type: "http", Slots: wire.Given(2), Route: &route, Select: wire.Given(wire.Selector("gpu")),
			Prefer: wire.Preferences{{Select: "zone=eu", Weight: wire.Given(10)}, {Select: "!spot"}},
		})
		testkit.Must(t, err)
		var b strings.Builder
		for _, f := range v.Reach(d) {
			b.WriteString(string(f.Name + " = " + f.Text + "\n"))
		}
		return strings.NewReplacer(`<code dir="auto">`, "[", "</code>", "]").Replace(b.String())
	}
	const before = "Slots of its node that it holds = 2\nNodes, by labels = [gpu]\n" +
		"Preferred nodes = [zone=eu], weight 10<br>[!spot], weight 1\nRoute = "
	for want, route := range map[string]wire.Route{
		"[round]: one node after the other":      {By: new(wire.RouteRound)},
		"[first]: the node with the least name":  {By: new(wire.RouteFirst)},
		"[hash]: the node of the key [tenant-7]": {By: new(wire.RouteHash), Key: new("tenant-7")},
		"[hash]: the node of the key [a], for which it waits up to 2 s": {
			By: new(wire.RouteHash), Key: new("a"), Sticky: new(wire.StickyPrefer),
		},
		"[failover]: the first node that lives of [vm-1], [vm-2]": {
			By: new(wire.RouteFailover), Order: []string{"vm-1", "vm-2"},
		},
		"[busy_over]: the first node with a free slot of [vm-1]": {By: new(wire.RouteBusyOver), Order: []string{"vm-1"}},
		"[busy_over]: the node with the least name":              {By: new(wire.RouteBusyOver)},
		"[weighted]: the most idle node, by CPU 0.5, memory 0.2": {
			By: new(wire.RouteWeighted), Load: &wire.RouteLoad{CPU: new(0.5), Memory: new(0.2)},
		},
		"[weighted]: the most idle node": {By: new(wire.RouteWeighted)},
	} {
		if got := words(route); got != before+want+"\n" {
			t.Errorf("it says %q, want %q", got, before+want)
		}
	}
}
