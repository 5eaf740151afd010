package control

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/fresh"
	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/store/rules"
	"github.com/dts-sched/dts/internal/task"
)

// demandWarnings says what keeps a task from running that says where it may run, or that it has a cost. Either no
// living node matches, or a limit has less than the task costs. Other tasks cost nothing here.
func (c *Control) demandWarnings(ctx context.Context, d task.Definition) (all []string) {
	if d.Type == task.WorkflowType { // leaders carry these on
		return nil
	}
	if d.Reach != "" && c.nodes != nil {
		if text := c.unreached(d); text != "" {
			all = append(all, text)
		}
	}
	if d.Cost > 1 {
		all = append(all, c.tooDear(ctx, d)...)
	}
	return all
}

// unreached says that no living node is one on which a task may run, by its selector, its route and its slots. It is ""
// if one is, or if none takes tasks of its type from its queue: then there is a warning of that.
func (c *Control) unreached(d task.Definition) string {
	view, queue := c.nodes.View(), cmp.Or(d.Queue, task.DefaultQueue)
	kind := queue + " " + d.Reach // no queue has a blank
	return c.warned.of(view, d.Type, kind, func() string {
		reach, err := route.ParseReach(d.Reach)
		if err != nil { // somebody has written to Redis by hand
			return ""
		}
		p := workersIn(view, queue, cluster.StateAlive, cluster.StateDraining)
		p.Type = d.Type
		return p.Unreached(reach)
	})
}

// tooDear names the limits that can never let a task start because of its cost.
func (c *Control) tooDear(ctx context.Context, d task.Definition) (texts []string) {
	if !c.store.HasLimits() {
		return nil
	}
	all := c.rules.get(ctx, func(ctx context.Context) (limit.Rules, error) {
		entries, _, err := c.store.Rules.All(ctx)
		return rules.Of(entries), err
	})
	for _, name := range all.Of(limit.Subject{
		Keys: d.LimitKeys(), Type: d.Type, Queue: cmp.Or(d.Queue, task.DefaultQueue), Namespace: d.Namespace,
	}) {
		of, _ := all.Which(name)
		has := fmt.Sprintf("%d slots", all[of].Slots)
		switch rule := all[of]; {
		case !rule.IsTooDear(d.Cost):
			continue
		case rule.Slots == 0 || d.Cost <= rule.Slots:
			has = fmt.Sprintf("burst of %d", rule.Tokens())
		}
		const text = "cost: %d is more than the %s of %s: the task waits until somebody raises that limit"
		texts = append(texts, fmt.Sprintf(text, d.Cost, has, of))
	}
	return texts
}

// rulesLifetime is how long it is used which limits there are. Changes by this node count at once.
const rulesLifetime = time.Second

// knownRules are the limits by a reading that is not too old.
type knownRules struct {
	latest atomic.Pointer[fresh.Value[limit.Rules]]
}

// get returns the limits, as read reads them; none if they are not known.
func (k *knownRules) get(ctx context.Context, read func(context.Context) (limit.Rules, error)) limit.Rules {
	k.latest.CompareAndSwap(nil, &fresh.Value[limit.Rules]{})
	value := k.latest.Load()
	if value == nil { // somebody has just changed a limit
		return nil
	}
	return ifRead(value.Get(ctx, latest(rulesLifetime), read))
}

// forget has the limits read again. A reading that is under way is for those who have asked before.
func (k *knownRules) forget() { k.latest.Store(nil) }
