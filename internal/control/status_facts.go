package control

import (
	"context"
	"errors"
	"slices"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/status"
)

// statusFacts reads what decides how the installation is. What cannot be read is left out. If that is as Redis, or a
// server of a cluster, does not answer, the facts say so.
func (c *Control) statusFacts(ctx context.Context, how situation) (f status.Facts) {
	ctx, left := redisx.LeavingOut(ctx)
	asking, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	ctx = redisx.PassingOver(asking)
	var u unread
	calls.Do(
		func() { u.note("how Redis is", c.readRedis(asking, how, &f.Redis)) },
		func() { u.note("the list of nodes", c.readNodes(ctx, how, &f)) },
		func() { u.note("the queues", c.readQueues(ctx, how, &f, &u)) },
		func() { u.note("what doctor found", c.readExamined(ctx, how, &f)) },
		func() { u.note("the schedules", c.readSchedules(ctx, how, &f, &u)) },
		func() { u.note("the counts of the last hour", c.readPast(ctx, how, &f)) },
	)
	if len(f.Queues) > 0 {
		u.note("who holds the slots", c.readHeld(ctx, &f))
	}
	f.Unread = slices.Concat(u.texts, left.Texts())
	slices.Sort(f.Unread)
	outage := c.store.DB.Link().Outage()
	f.Redis.Refuses = errors.Is(outage, redisx.ErrTurnedAway) || errors.Is(outage, redisx.ErrDenied)
	if c.store.DB.Link().Answers() {
		f.Redis.Away = c.awayServers(ctx)
		if outage != nil {
			f.Redis.Denied = outage.Error()
		}
	}
	if blocked := c.blockedBy(u.silent); blocked != nil && len(f.Redis.Away) == 0 {
		f.Redis.Silent, f.Redis.Since = blocked.Detail, blocked.Since
		f.Redis.Denied = "" // the same
		f.Unread, f.Notes = []string{"what else needs somebody is not known, as Redis does not answer"}, nil
	}
	return f
}

// readNodes reads the nodes, and which partitions none of them leads. Error: CodeUnavailable.
func (c *Control) readNodes(ctx context.Context, how situation, f *status.Facts) error {
	if c.nodes == nil {
		return nil
	}
	nodes, err := c.statuses.nodes.Get(ctx, how.seldom(), c.nodes.Nodes)
	if err != nil { // as of the last heartbeat; who leads may have changed
		for _, n := range c.nodes.View().Nodes {
			f.Nodes = append(f.Nodes, nodeOf(n))
		}
		return err
	}
	if !how.watched {
		nodes = withDead(c.nodes.View().Nodes, nodes)
	}
	led := make([]bool, c.store.Layout.Partitions())
	for _, n := range nodes {
		f.Nodes = append(f.Nodes, nodeOf(n))
		for _, p := range n.Partitions {
			if n.State != cluster.StateDead && p >= 0 && p < len(led) {
				led[p] = true
			}
		}
	}
	f.Partitions = len(led)
	for p := range led {
		if !led[p] {
			f.Unled = append(f.Unled, p)
		}
	}
	return nil
}

// withDead adds the dead nodes of an older list to one of living nodes.
func withDead(living, older []cluster.Node) []cluster.Node {
	all := slices.Clone(living)
	for _, n := range older {
		here := slices.ContainsFunc(living, func(l cluster.Node) bool { return l.ID == n.ID })
		if !here && n.State == cluster.StateDead {
			all = append(all, n)
		}
	}
	return all
}

// nodeOf is a node as the status knows it.
func nodeOf(n cluster.Node) status.Node {
	w := workerOf(n, "") // the status asks nothing about a single queue of it
	of := ""
	if n.Cordon != nil {
		of = n.Cordon.Of
	}
	most := make(map[string]int, len(w.Queues))
	for _, queue := range w.Queues {
		most[queue] = n.SlotsFor(queue)
	}
	return status.Node{
		ID: w.ID, Alive: w.Alive, Draining: w.Draining, Worker: n.Has(config.RoleWorker), Leads: n.Has(config.RoleScheduler),
		Queues: w.Queues, Types: w.Types, Name: n.Name, Labels: n.Values, Most: most,
		Capacity: w.Capacity, Running: w.Running, LastBeat: w.LastBeat, CordonOf: of,
	}
}
