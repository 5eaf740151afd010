package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Cordon says that the workers of a node take no tasks, and why.
type Cordon struct {
	By    string    `json:"by,omitempty"`    // "" if nobody knows
	Note  string    `json:"note,omitempty"`  // "" if nobody said why
	Drain bool      `json:"drain,omitempty"` // what runs there is asked to move to other workers
	Of    string    `json:"-"`               // the id or the name that was cordoned
	Since time.Time `json:"-"`
	Until time.Time `json:"-"` // when it ends; zero: when somebody uncordons the node

	// Obeyed says that the node has confirmed the cordon: it begins no task any more, and Tasks of its entry counts
	// those it still has. Nodes of releases without cordons never do.
	Obeyed bool           `json:"-"`
	Queues map[string]int `json:"-"` // that the node serves again after the cordon, with their weights
}

// SinceMS is since when the cordon holds, in ms since 1970; 0 for no cordon.
func (c *Cordon) SinceMS() int64 {
	if c == nil {
		return 0
	}
	return c.Since.UnixMilli()
}

// IsDrain reports whether a cordon, which may be nil, asks what runs to move.
func (c *Cordon) IsDrain() bool { return c != nil && c.Drain }

// CordonsLimit is how many ids and names of nodes can be cordoned at once: every node reads them at each heartbeat.
const CordonsLimit = 1000

// CodeTooManyCordons refuses a cordon beyond CordonsLimit.
const CodeTooManyCordons task.Code = "too_many_cordons"

// cordons are the cordons by the id or the name that was cordoned.
type cordons map[string]Cordon

// of returns the cordon of a node, that of its id first; nil if it has none.
func (c cordons) of(n Node, now time.Time) *Cordon {
	for _, name := range []string{n.ID, n.Name} {
		if found, ok := c[name]; ok && (found.Until.IsZero() || now.Before(found.Until)) {
			return &found
		}
	}
	return nil
}

// apply marks the nodes that are cordoned. They serve no queue, whatever their heartbeats say.
func (c cordons) apply(nodes []Node, now time.Time) {
	for i := range nodes {
		if nodes[i].Cordon = c.of(nodes[i], now); nodes[i].Cordon != nil {
			nodes[i].Cordon.Queues, nodes[i].Queues = nodes[i].Queues, map[string]int{}
			nodes[i].Cordon.Obeyed = nodes[i].Obeys == nodes[i].Cordon.SinceMS()
		}
	}
}

// readCordons reads all cordons. It leaves out those that cannot be read, as after a change by hand. Errors: those of
// Redis, within redisx.Patience.
func (r *Registry) readCordons(ctx context.Context) (cordons, error) {
	if r.o.Cordons == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(r.o.Beat/2, redisx.Patience))
	defer cancel()
	texts, err := r.o.DB.HGetAll(ctx, string(r.o.Cordons)).Result()
	if err != nil {
		return nil, err
	}
	found := make(cordons, len(texts))
	for name, text := range texts {
		c, err := parseCordon(text)
		if err != nil {
			redisx.LeaveOut(ctx, "the cordon of node %s: %v", name, err)
			r.o.Log.WarnContext(ctx, "skipping the unreadable cordon of a node", "node", name, "error", err)
			continue
		}
		c.Of = name
		found[name] = c
	}
	return found, nil
}

// CheckCordon returns an error if a cordon cannot be read.
func CheckCordon(value string) error {
	_, err := parseCordon(value)
	return err
}

// parseCordon reads "<since ms> <until ms> <JSON>".
func parseCordon(text string) (c Cordon, _ error) {
	since, rest, _ := strings.Cut(text, " ")
	until, about, _ := strings.Cut(rest, " ")
	for _, part := range []struct {
		text string
		at   *time.Time
	}{{since, &c.Since}, {until, &c.Until}} {
		ms, err := strconv.ParseInt(part.text, 10, 64)
		if err != nil {
			return c, fmt.Errorf("invalid time: %w", err)
		}
		if ms != 0 {
			*part.at = time.UnixMilli(ms).UTC()
		}
	}
	if err := json.Unmarshal([]byte(about), &c); err != nil {
		return c, fmt.Errorf("invalid JSON: %w", err)
	}
	return c, nil
}

// Cordon keeps the workers of nodes from taking tasks: of the node with that id, or of all nodes with that name,
// also of those that start later. lasts is how long; 0 for until Uncordon. An earlier cordon of the id or name is
// replaced. Errors: CodeTooManyCordons, CodeUnavailable.
func (r *Registry) Cordon(ctx context.Context, node string, c Cordon, lasts time.Duration) error {
	about, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encoding the cordon of node %s: %w", node, err)
	}
	_, err = redisx.Run(ctx, r.o.DB, lua.Cordon{
		Cordons: r.o.Cordons, Node: node, Lasts: lasts, About: string(about), Limit: CordonsLimit, Members: r.o.Channel,
	})
	switch {
	case redisx.RefusedWith(err, lua.CodeFull):
		const text = "%d ids and names of nodes are cordoned, which is the limit: uncordon some"
		return task.Errorf(CodeTooManyCordons, text, CordonsLimit)
	case err != nil:
		return notDone("cannot cordon the node", err)
	}
	return nil
}

// Uncordon ends the cordon of an id or a name. It returns whether there was one. Error: CodeUnavailable.
func (r *Registry) Uncordon(ctx context.Context, node string) (was bool, _ error) {
	reply, err := redisx.Run(ctx, r.o.DB, lua.Uncordon{Cordons: r.o.Cordons, Node: node, Members: r.o.Channel})
	if err != nil {
		return false, notDone("cannot uncordon the node", err)
	}
	return reply.Was, nil
}

// notDone is the error of a change that Redis has not answered.
func notDone(message string, err error) error {
	return &task.Error{Code: task.CodeUnavailable, Message: message + ": " + redisx.WhyNot(err), Err: err}
}
