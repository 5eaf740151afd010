package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// NodeDetail is a node, and the attempts that it has lost.
type NodeDetail struct {
	ID   string
	Node *cluster.Node // nil if it is on the list no more
	Lost []LostAttempt // the newest first
}

// LostAttempt is an attempt that a leader has ended as lost, and its task as it is now.
type LostAttempt struct {
	layout.LostAttempt
	Task task.Task // without payload, result and error; zero if it was deleted since
}

// lostLimit is how many lost attempts of a node are shown.
const lostLimit = 100

// GetNode returns a node that is known, or whose lost attempts are, by its id, or by a name that one node has. Of
// several nodes of a name, the one that lives is meant. Errors: CodeInvalid for a name that several nodes have,
// CodeNodeNotFound, CodeUnavailable.
func (c *Control) GetNode(ctx context.Context, who Caller, id string) (NodeDetail, error) {
	if _, err := c.begin(ctx, who, "getNode"); err != nil {
		return NodeDetail{}, err
	}
	nodes, err := c.nodes.Nodes(ctx)
	if err != nil {
		return NodeDetail{}, err
	}
	if id, err = nodeMeant(nodes, id); err != nil {
		return NodeDetail{}, err
	}
	d := NodeDetail{ID: id}
	if i := slices.IndexFunc(nodes, func(n cluster.Node) bool { return n.ID == id }); i >= 0 {
		d.Node = &nodes[i]
	}
	lost, err := c.store.Lost(ctx)
	if err != nil {
		return NodeDetail{}, err
	}
	lost = slices.DeleteFunc(lost, func(l layout.LostAttempt) bool { return l.Node != id })
	if d.Node == nil && len(lost) == 0 {
		return NodeDetail{}, task.Errorf(CodeNodeNotFound, "no node %q is known: dtsctl node list has those that are", id)
	}
	d.Lost, err = c.tasksOf(ctx, lost[:min(lostLimit, len(lost))])
	return d, err
}

// nodeMeant returns the id of the node that somebody means by an id or a name; the id or the name itself if no node has
// it. Error: CodeInvalid.
func nodeMeant(nodes []cluster.Node, node string) (string, error) {
	var alive, dead []string
	for _, n := range nodes {
		switch {
		case n.ID == node:
			return node, nil
		case n.Name == node && n.State != cluster.StateDead:
			alive = append(alive, n.ID)
		case n.Name == node:
			dead = append(dead, n.ID)
		}
	}
	meant := alive
	if len(meant) == 0 {
		meant = dead
	}
	switch len(meant) {
	case 0:
		return node, nil
	case 1:
		return meant[0], nil
	}
	const text = "%d nodes have the name %q: give the id of one of them, %s"
	return "", task.Invalid("node", text, len(meant), node, strings.Join(meant, ", "))
}

// CordonLimit is the longest time that a cordon can be given.
const CordonLimit = 365 * 24 * time.Hour

// Cordoning says how a node is cordoned.
type Cordoning struct {
	Note  string        // why; "" if nobody says
	For   time.Duration // how long the cordon lasts; 0: until UncordonNode
	Drain bool          // what runs is asked to move to other workers
}

// CordonNode keeps the workers of a node from taking tasks. What runs goes on. node is the id of a node, whose
// cordon ends with its process, or the name of one or several nodes, whose cordon also holds for nodes that start
// later. A second cordon of an id or a name replaces the first. It returns the nodes with that id or name. Errors:
// CodeInvalid, CodeNodeNotFound, cluster.CodeTooManyCordons, CodeUnavailable.
func (c *Control) CordonNode(ctx context.Context, who Caller, node string, how Cordoning) ([]cluster.Node, error) {
	if _, err := c.begin(ctx, who, "cordonNode"); err != nil {
		return nil, err
	}
	if err := checkNote(how.Note); err != nil {
		return nil, err
	}
	if how.For != 0 && (how.For < time.Second || how.For > CordonLimit) {
		return nil, task.Invalid("for", "is %s: write 1s to %s, or leave it out", how.For, task.FormatDuration(CordonLimit))
	}
	known, err := c.nodesNamed(ctx, node)
	if err != nil {
		return nil, err
	}
	if len(known) == 0 {
		const text = "no node has the id or the name %q: see dtsctl node list"
		return nil, task.Errorf(CodeNodeNotFound, text, node)
	}
	cordon := cluster.Cordon{By: who.By(), Note: how.Note, Drain: how.Drain}
	if err := c.cordons.Cordon(ctx, node, cordon, how.For); err != nil {
		return nil, err
	}
	redisx.PassOn(ctx, replaced(known, node, how))
	return c.nodesNamed(ctx, node)
}

// replaced says what a cordon changes of one that there was for the same id or name.
func replaced(known []cluster.Node, node string, how Cordoning) (texts []string) {
	i := slices.IndexFunc(known, func(n cluster.Node) bool { return n.Cordon != nil && n.Cordon.Of == node })
	if i < 0 {
		return nil
	}
	before := known[i].Cordon
	if !before.Until.IsZero() && how.For == 0 {
		const text = "%s was cordoned until %s: now it is cordoned until somebody uncordons it"
		texts = append(texts, fmt.Sprintf(text, node, before.Until.UTC().Format(time.RFC3339)))
	}
	if before.Drain && !how.Drain {
		const text = "%s was drained: now it is only cordoned, and what runs there is asked to move no more"
		texts = append(texts, fmt.Sprintf(text, node))
	}
	return texts
}

// UncordonNode ends the cordon of an id or a name. It returns the nodes with that id or name. Errors:
// CodeNodeNotFound if there is neither such a cordon nor such a node, CodeUnavailable.
func (c *Control) UncordonNode(ctx context.Context, who Caller, node string) ([]cluster.Node, error) {
	if _, err := c.begin(ctx, who, "uncordonNode"); err != nil {
		return nil, err
	}
	was, err := c.cordons.Uncordon(ctx, node)
	if err != nil {
		return nil, err
	}
	known, err := c.nodesNamed(ctx, node)
	if err == nil && len(known) == 0 && !was {
		const text = "%q is not cordoned, and no node has this id or name: see dtsctl node list"
		err = task.Errorf(CodeNodeNotFound, text, node)
	}
	return known, err
}

// nodesNamed returns the nodes that are known with that id or name. Error: CodeUnavailable.
func (c *Control) nodesNamed(ctx context.Context, node string) ([]cluster.Node, error) {
	nodes, err := c.nodes.Nodes(ctx)
	return slices.DeleteFunc(slices.Clone(nodes), func(n cluster.Node) bool { return n.ID != node && n.Name != node }), err
}

// tasksOf reads the tasks of lost attempts. Error: CodeUnavailable.
func (c *Control) tasksOf(ctx context.Context, lost []layout.LostAttempt) ([]LostAttempt, error) {
	refs := make([]task.Ref, len(lost))
	for i, l := range lost {
		refs[i] = l.Ref
	}
	read, err := c.store.Tasks.Briefs(ctx, refs)
	if err != nil {
		return nil, err
	}
	byRef := make(map[task.Ref]task.Task, len(read))
	for _, t := range read {
		byRef[t.Ref] = t
	}
	all := make([]LostAttempt, len(lost))
	for i, l := range lost {
		all[i] = LostAttempt{l, byRef[l.Ref]}
	}
	return all, nil
}

// ListNodes returns every node that is known, dead ones included. Under redisx.LeavingOut, what cannot be read is
// left out.
func (c *Control) ListNodes(ctx context.Context, who Caller) ([]cluster.Node, error) {
	if _, err := c.begin(ctx, who, "listNodes"); err != nil {
		return nil, err
	}
	nodes, err := c.nodes.Nodes(ctx)
	return slices.DeleteFunc(slices.Clone(nodes), func(n cluster.Node) bool {
		err := n.Check()
		return err != nil && redisx.LeaveOut(ctx, "%v", err)
	}), err
}
