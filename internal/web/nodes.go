package web

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/task"
)

// drawnPartitions is up to how many partitions a row draws each of them; of more, it has the number.
const drawnPartitions = 32

// nodeList is what the list of nodes shows.
type nodeList struct {
	Sentence template.HTML
	Rows     []nodeRow // dead and draining ones first
	Cordons  []cordonRow
	LeftOut  int
	Figures  status.Figures
	Slots    []segment
	Led      []segment
	Memory   []segment // of Redis, if it has a limit
	Percent  int
	Versions []string // of living nodes
}

// nodeRow is a node, or a worker by HTTP.
type nodeRow struct {
	cluster.Node
	SlotBars []segment
	Drawn    int               // how many partitions the drawing has; 0 for none
	Leads    template.HTMLAttr // those that it leads
	Others   template.HTMLAttr
}

// Dead reports whether it has stopped sending heartbeats.
func (n nodeRow) Dead() bool { return n.State == cluster.StateDead }

// Takes reports whether it takes tasks, so that it can be cordoned.
func (n nodeRow) Takes() bool { return n.Works() && !n.Dead() && n.Cordon == nil }

// Works reports whether it runs tasks.
func (n nodeRow) Works() bool { return n.Has(config.RoleWorker) }

// Drains reports whether it takes no tasks, and ends those that it runs or gives them up.
func (n nodeRow) Drains() bool {
	return n.Works() && isDraining(n.Node)
}

// Drained reports whether it has confirmed that it begins nothing any more, and has nothing left.
func (n nodeRow) Drained() bool {
	return n.State == cluster.StateAlive && n.Cordon.IsDrain() && n.Cordon.Obeyed && n.Tasks == 0
}

// Schedules reports whether it can lead partitions.
func (n nodeRow) Schedules() bool { return n.Has(config.RoleScheduler) }

// Weights are its queues with their weights, the greatest first.
func (n nodeRow) Weights() string {
	names := slices.SortedFunc(maps.Keys(n.Queues), func(a, b string) int {
		return cmp.Or(cmp.Compare(n.Queues[b], n.Queues[a]), strings.Compare(a, b))
	})
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = fmt.Sprintf("%s %d", name, n.Queues[name])
	}
	return strings.Join(words, " ")
}

// OwnName is its name if neither its id nor its host tells it; "" else.
func (n nodeRow) OwnName() string {
	if n.Name == n.ID || n.Name == n.Host {
		return ""
	}
	return n.Name
}

// MemoryBytes is what its process takes.
func (n nodeRow) MemoryBytes() float64 { return float64(n.Memory) }

// DrawingWidth is how wide the drawing of the partitions is.
func (n nodeRow) DrawingWidth() int { return 8 * n.Drawn }

// LeadsText are the numbers of the partitions that it leads.
func (n nodeRow) LeadsText() string {
	words := make([]string, len(n.Partitions))
	for i, p := range n.Partitions {
		words[i] = itoa(p)
	}
	return cmp.Or(strings.Join(words, ", "), "–")
}

func readNodes(ctx context.Context, v *visit) (any, string, error) {
	nodes, err := v.site.Control.ListNodes(ctx, v.who)
	if err != nil {
		return nil, "", err
	}
	f := figuresOf(v.Status.Figures, nodes)
	l := nodeList{Figures: f, Versions: versionsOf(nodes)}
	l.Cordons = cordonsOf(nodes)
	l.Led = meterOf(f.Partitions, amount{"f-ink", f.Led})
	l.Sentence = v.nodesSentence(fleetOf(nodes), f, len(l.Versions))
	l.Slots = meterOf(f.Capacity, amount{"f-run", f.Running})
	if f.MaxMemory > 0 {
		l.Percent = int(100 * f.Memory / f.MaxMemory)
		l.Memory = meterOf(100, amount{memoryClass(l.Percent), l.Percent})
	}
	slices.SortStableFunc(nodes, func(a, b cluster.Node) int { return cmp.Compare(nodeRank(a), nodeRank(b)) })
	for _, n := range nodes[:min(len(nodes), pageRows)] {
		l.Rows = append(l.Rows, nodeRowOf(n, f.Partitions))
	}
	l.LeftOut = len(nodes) - len(l.Rows)
	return l, string(v.T("Nodes")), nil
}

// figuresOf are the figures of the status, with those of the nodes as the list has them: a status is seconds older.
func figuresOf(f status.Figures, nodes []cluster.Node) status.Figures {
	f.Nodes, f.Running, f.Capacity = 0, 0, 0
	led := make(map[int]bool)
	for _, n := range nodes {
		if n.State == cluster.StateDead {
			continue
		}
		f.Nodes, f.Running = f.Nodes+1, f.Running+n.Running
		if n.Cordon == nil {
			f.Capacity += n.Capacity
		} else { // its other slots take nothing
			f.Capacity += n.Running
		}
		for _, p := range n.Partitions {
			led[p] = true
		}
	}
	f.Led = min(len(led), f.Partitions)
	return f
}

// nodeRank orders nodes: the dead, those that drain, schedulers, and all others.
func nodeRank(n cluster.Node) int {
	switch {
	case n.State == cluster.StateDead:
		return 0
	case isDraining(n):
		return 1
	case n.Has(config.RoleScheduler):
		return 2
	case n.Via == "":
		return 3
	}
	return 4
}

// memoryClass is the colour of so many percent of Redis's memory.
func memoryClass(percent int) string {
	switch {
	case float64(percent) > 100*status.FullAbove: // submissions are refused
		return "f-bad"
	case float64(percent) > 100*status.FillingAbove:
		return "f-warn"
	}
	return "f-run"
}

func nodeRowOf(n cluster.Node, partitions int) nodeRow {
	row := nodeRow{Node: n, SlotBars: meterOf(n.Capacity, amount{"f-run", n.Running})}
	if !row.Schedules() || partitions > drawnPartitions {
		return row
	}
	row.Drawn = partitions
	var led, others strings.Builder
	for p := range partitions {
		if slices.Contains(n.Partitions, p) {
			fmt.Fprintf(&led, "M%d 1h6v14h-6z", 8*p)
		} else {
			fmt.Fprintf(&others, "M%d 6h6v4h-6z", 8*p)
		}
	}
	row.Leads, row.Others = pathOf(led.String()), pathOf(others.String())
	return row
}

// isDraining reports whether a node shuts down, or is drained by a cordon.
func isDraining(n cluster.Node) bool {
	return n.State == cluster.StateDraining || n.State == cluster.StateAlive && n.Cordon.IsDrain()
}

// fleetCounts is how many nodes there are of each kind. Workers by HTTP are no nodes. Those that drain are not among
// those that are cordoned.
type fleetCounts struct{ nodes, workers, draining, cordoned, dead int }

func fleetOf(nodes []cluster.Node) (f fleetCounts) {
	for _, n := range nodes {
		switch {
		case n.State == cluster.StateDead:
			f.dead++
			continue
		case isDraining(n):
			f.draining++
		case n.Cordon != nil:
			f.cordoned++
		}
		if n.Via == "" {
			f.nodes++
		} else {
			f.workers++
		}
	}
	return f
}

// cordonNode is the action of the form that cordons a node.
func cordonNode(ctx context.Context, v *visit, form url.Values) (result, error) {
	how := control.Cordoning{Note: strings.TrimSpace(form.Get("note")), Drain: form.Get("drain") == "true"}
	if text := strings.TrimSpace(form.Get("for")); text != "" {
		var err error
		if how.For, err = v.spanOf("for", text); err != nil {
			return result{}, err
		}
	}
	_, err := v.site.Control.CordonNode(ctx, v.who, form.Get("node"), how)
	if how.Drain {
		return result{path: nodesPath, said: "node-drained"}, err
	}
	return result{path: nodesPath, said: "node-cordoned"}, err
}

// uncordonNode is the action of the form that ends a cordon, unless somebody has cordoned the node anew.
func uncordonNode(ctx context.Context, v *visit, form url.Values) (result, error) {
	of := form.Get("node")
	nodes, err := v.site.Control.ListNodes(ctx, v.who)
	if err != nil {
		return result{}, err
	}
	for _, n := range nodes {
		if n.Cordon != nil && n.Cordon.Of == of {
			if err := v.changedSince(task.CodeChanged, form, ms(n.Cordon.Since)); err != nil {
				return result{}, err
			}
		}
	}
	_, err = v.site.Control.UncordonNode(ctx, v.who, of)
	return result{path: nodesPath, said: "node-uncordoned"}, err
}

// cordonRow is a cordon, which may be that of several nodes.
type cordonRow struct {
	Of    string // the id or the name that was cordoned
	Seen  string // since when, as the form that ends it tells what its reader has seen
	Drain bool
}

// cordonsOf are the cordons of nodes, each one once.
func cordonsOf(nodes []cluster.Node) (rows []cordonRow) {
	for _, n := range nodes {
		if n.Cordon == nil {
			continue
		}
		row := cordonRow{Of: n.Cordon.Of, Seen: ms(n.Cordon.Since), Drain: n.Cordon.Drain}
		if !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
	}
	return rows[:min(len(rows), pageRows)]
}

// versionsOf are the versions of the nodes that live, sorted.
func versionsOf(nodes []cluster.Node) []string {
	versions := map[string]bool{}
	for _, n := range nodes {
		if n.State != cluster.StateDead && n.Via == "" && n.Version != "" {
			versions[n.Version] = true
		}
	}
	return slices.Sorted(maps.Keys(versions))
}

// nodesSentence says whether all nodes are there, and whether they lead.
func (v *visit) nodesSentence(fleet fleetCounts, f status.Figures, versions int) template.HTML {
	unled := f.Partitions - f.Led
	var all []template.HTML
	if unled > 0 {
		all = append(all, v.T("%d partitions of %d have no leader.", unled, f.Partitions))
	}
	if fleet.dead > 0 {
		all = append(all, v.T("%d nodes have died.", fleet.dead))
	}
	if fleet.workers > 0 {
		all = append(all, v.T("%d nodes live, and workers by HTTP: %d.", fleet.nodes, fleet.workers))
	} else {
		all = append(all, v.T("%d nodes live.", fleet.nodes))
	}
	if fleet.draining > 0 {
		all = append(all, v.T("%d of them drain.", fleet.draining))
	}
	if fleet.cordoned > 0 {
		all = append(all, v.T("%d of them are cordoned: they take no tasks.", fleet.cordoned))
	}
	if f.Partitions > 0 && unled == 0 {
		all = append(all, v.T("All %d partitions are led.", f.Partitions))
	}
	if versions > 1 {
		all = append(all, v.T("They have %d versions: an upgrade goes on.", versions))
	}
	return sentences(all)
}

// MachineCPU is how busy the processors of the machine of a node are; "" if it does not say.
func (v *visit) MachineCPU(n nodeRow) template.HTML {
	if n.Machine == nil || n.Machine.CPU == nil {
		return ""
	}
	return v.T("CPU %d %%", v.Percent(*n.Machine.CPU))
}

// MachineMemory is how full the memory of the machine of a node is; "" if it does not say.
func (v *visit) MachineMemory(n nodeRow) template.HTML {
	if n.Machine == nil || n.Machine.Memory == nil {
		return ""
	}
	return v.T("memory %d %%", v.Percent(n.Machine.Memory.Share()))
}

// MachineLoad is the load of the machine of a node, and how full its file system is; "" if it says neither.
func (v *visit) MachineLoad(n nodeRow) template.HTML {
	var parts []string
	if n.Machine != nil && n.Machine.Load != nil {
		parts = append(parts, string(v.T("load %s", fmt.Sprintf("%.2f", *n.Machine.Load))))
	}
	if n.Machine != nil && n.Machine.Disk != nil {
		d := n.Machine.Disk
		parts = append(parts, string(v.T("disk %d %% of %s", v.Percent(d.Share()), v.Bytes(float64(d.Total)))))
	}
	return template.HTML(strings.Join(parts, " · ")) //nolint:gosec // of texts that are HTML
}

// MachineNetwork is what the network of the machine of a node carries; "" if it does not say.
func (v *visit) MachineNetwork(n nodeRow) template.HTML {
	if n.Machine == nil || n.Machine.Network == nil {
		return ""
	}
	t := n.Machine.Network
	return v.T("network: %s/s in, %s/s out", v.Bytes(float64(t.Received)), v.Bytes(float64(t.Sent)))
}

// NodeMark is the icon and the colour of a node.
func (v *visit) NodeMark(n nodeRow) mark {
	switch {
	case n.Dead():
		return mark{"dead", "t-bad"}
	case isDraining(n.Node) || n.Cordon != nil:
		return mark{"drain", "t-warn"}
	}
	return mark{"alive", "t-ok"}
}

// NodeWord is the state of a node in a word.
func (v *visit) NodeWord(n nodeRow) template.HTML {
	switch {
	case n.Dead():
		return v.T("dead")
	case n.Drained():
		return v.T("drained")
	case isDraining(n.Node):
		return v.T("draining")
	case n.Cordon != nil:
		return v.T("cordoned")
	}
	return v.T("alive")
}
