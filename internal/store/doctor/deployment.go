package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/lua"
)

// overdueAfter is how long something may be due before a leader looks at it: longer than it takes to replace one.
const overdueAfter = time.Minute

// deploymentCollections are the checks of the deployment, each as a collection of one page.
func (e *examination) deploymentCollections() []collection {
	look := func(name string, do func(context.Context) error) collection {
		return once(name, name, func(ctx context.Context) error { return e.leavingOut(ctx, do, name) })
	}
	all := []collection{
		once(" types", keyType, func(ctx context.Context) error {
			return e.examineTypes(ctx, e.fixedKeys(lua.OfInstallation, e.prefix()))
		}),
		look("nodes", e.lookAtNodes), look("leaders", e.lookAtLeaders), look("overdue", e.lookAtOverdue), look("unserved-queues", e.lookAtServed),
	}
	for name, judge := range judges {
		if e.o.Embedded && (name == "redis-version" || slices.Contains(ofSettings, name)) {
			judge = judgeEmbedded
		}
		all = append(all, look(name, func(ctx context.Context) error { return e.eachServer(ctx, name, judge) }))
	}
	return all
}

// verdict sets the result of a check of the deployment, if it is worse than what was found so far.
func (e *examination) verdict(check string, severity Severity, detail string) {
	r := e.results[check]
	r.Looked++
	if severity != OK {
		r.Found++
		r.Examples = append(r.Examples, detail)
	}
	if worse(severity, r.Severity) != r.Severity || r.Detail == "" {
		r.Severity, r.Detail = worse(severity, r.Severity), detail
	}
}

// worse returns the worse one of two severities.
func worse(a, b Severity) Severity {
	order := []Severity{OK, Unknown, Note, Warning, Error}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// eachServer judges each server of Redis.
func (e *examination) eachServer(ctx context.Context, check string, judge judge) error {
	servers, err := e.redisServers(ctx)
	if err != nil {
		return err
	}
	for _, server := range servers {
		severity, detail, err := judge(ctx, server)
		if isRefusal(err) {
			severity, detail, err = Unknown, "Redis does not say: "+err.Error(), nil
		}
		if err != nil {
			return err
		}
		e.verdict(check, severity, detail)
	}
	return nil
}

func (e *examination) lookAtNodes(ctx context.Context) error {
	nodes, err := e.o.Nodes(ctx)
	if err != nil {
		return err
	}
	e.judgeNodes(nodes)
	return nil
}

// judgeNodes judges the nodes together.
func (e *examination) judgeNodes(nodes []cluster.Node) {
	living := alive(nodes)
	versions := make(map[string]bool)
	schedulers, workers, takers, cordoned := 0, 0, 0, 0
	for _, n := range living {
		if n.Via == "" { // a worker by HTTP has a version of its own
			versions[n.Version] = true
		}
		if n.Has(config.RoleScheduler) {
			schedulers++
		}
		if n.Has(config.RoleWorker) {
			workers++
		}
		if n.Cordon != nil {
			cordoned++
		} else if n.Has(config.RoleWorker) {
			takers++
		}
	}
	detail := fmt.Sprintf("%d alive, %d with the role scheduler, %d with the role worker, %d dead", len(living), schedulers, workers, len(nodes)-len(living))
	if cordoned > 0 {
		detail += fmt.Sprintf(", %d cordoned", cordoned)
	}
	switch {
	case schedulers == 0:
		e.verdict("nodes", Error, detail)
	case takers == 0:
		e.verdict("nodes", Warning, detail)
	case len(versions) > 1:
		e.verdict("nodes", Note, detail+"; versions "+strings.Join(slices.Sorted(maps.Keys(versions)), ", "))
	case len(living) < len(nodes), cordoned > 0:
		e.verdict("nodes", Note, detail)
	default:
		e.verdict("nodes", OK, detail)
	}
}

// alive returns the nodes that are not dead.
func alive(nodes []cluster.Node) []cluster.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n cluster.Node) bool { return n.State == cluster.StateDead })
}

func (e *examination) lookAtLeaders(ctx context.Context) error {
	nodes, err := e.o.Nodes(ctx)
	if err != nil {
		return err
	}
	count := e.o.Layout.Partitions()
	keys := make([]string, count)
	for p := range keys {
		keys[p] = string(e.o.Layout.Keys.Partition(p).Lease())
	}
	fences, err := e.o.Layout.DB.GetEach(ctx, keys)
	if err != nil {
		return err
	}
	pipe := e.o.Layout.DB.Pipeline()
	terms := make([]*redis.IntCmd, count)
	for p, fence := range fences {
		terms[p] = pipe.Exists(ctx, string(e.o.Layout.Keys.Partition(p).Term(fence)))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	var free, ownerless []string
	for p, term := range terms {
		_, owner, _ := strings.Cut(fences[p], ":")
		if term.Val() == 0 {
			free = append(free, fmt.Sprint(p))
		} else if !slices.ContainsFunc(alive(nodes), func(n cluster.Node) bool { return n.ID == owner }) {
			ownerless = append(ownerless, fmt.Sprint(p))
		}
	}
	if len(free)+len(ownerless) == 0 {
		e.verdict("leaders", OK, fmt.Sprintf("all %d partitions have one", count))
		return nil
	}
	var parts []string
	if len(free) > 0 {
		parts = append(parts, "no leader: partition "+strings.Join(free, ", "))
	}
	if len(ownerless) > 0 {
		parts = append(parts, "led by no living node: partition "+strings.Join(ownerless, ", "))
	}
	e.verdict("leaders", Warning, strings.Join(parts, "; "))
	return nil
}

// lookAtOverdue looks at what is first in the sets at which leaders look, by the clock of the server that holds them.
func (e *examination) lookAtOverdue(ctx context.Context) error {
	pipe := e.o.Layout.DB.Pipeline()
	first, asked := make(map[string]*redis.ZSliceCmd), make(map[string]time.Time)
	for p := range e.o.Layout.Partitions() {
		now, err := e.o.Layout.Now(ctx, p)
		if err != nil {
			return err
		}
		k := e.o.Layout.Keys.Partition(p)
		for _, set := range []string{string(k.Wheel()), string(k.Ticks()), string(k.Queued()), string(k.Held())} {
			first[set], asked[set] = pipe.ZRangeWithScores(ctx, set, 0, 0), now
		}
	}
	if err := redisx.ExecPastDamage(ctx, pipe); err != nil {
		return err
	}
	var late []string
	for set, reply := range first {
		for _, z := range reply.Val() {
			if by := asked[set].Sub(time.UnixMilli(int64(z.Score))); by > overdueAfter {
				late = append(late, fmt.Sprintf("%v is overdue by %s in %s", z.Member, by.Round(time.Second), set))
			}
		}
	}
	slices.Sort(late)
	for _, text := range late[:min(len(late), ExampleLimit)] {
		e.verdict("overdue", e.overdueSeverity(ctx), text)
	}
	if len(late) == 0 {
		e.verdict("overdue", OK, "nothing")
	}
	return nil
}

// overdueSeverity is milder while ticks are held back because Redis is almost full.
func (e *examination) overdueSeverity(ctx context.Context) Severity {
	for p := range e.o.Layout.Partitions() {
		if e.o.Layout.MemoryInUse(ctx, p) > layout.AlmostFull {
			return Warning
		}
	}
	return Error
}

// servedBy returns the queues that workers serve, and of those that cordoned workers would serve, what was cordoned.
func servedBy(nodes []cluster.Node) (served map[string]bool, cordoned map[string]string) {
	served, cordoned = make(map[string]bool), make(map[string]string)
	for _, n := range nodes {
		if !n.Has(config.RoleWorker) {
			continue
		}
		for name := range n.Queues {
			served[name] = true
		}
		if n.Cordon != nil {
			for name := range n.Cordon.Queues {
				cordoned[name] = n.Cordon.Of
			}
		}
	}
	return served, cordoned
}

func (e *examination) lookAtServed(ctx context.Context) error {
	nodes, err := e.o.Nodes(ctx)
	if err != nil {
		return err
	}
	waiting, err := e.o.Layout.Backlog(ctx)
	if err != nil {
		return err
	}
	unnamed, err := e.o.Layout.Unnamed(ctx)
	if err != nil {
		return err
	}
	foreign, err := e.o.Queues.ForeignSlots(ctx)
	if err != nil {
		return err
	}
	served, cordoned := servedBy(alive(nodes))
	var unserved []string
	for name, n := range waiting {
		switch of := cordoned[name]; {
		case served[name] || foreign[name] > 0:
		case of != "":
			unserved = append(unserved, fmt.Sprintf("%s (%d; %s serves it, and is cordoned)", name, n, of))
		default:
			unserved = append(unserved, fmt.Sprintf("%s (%d)", name, n))
		}
	}
	slices.Sort(unserved)
	unserved = unserved[:min(len(unserved), 10*ExampleLimit)]
	if unnamed > 0 {
		unserved = append(unserved, fmt.Sprintf("%d of further queues and types", unnamed))
	}
	if len(unserved) > 0 {
		e.verdict("unserved-queues", Warning, strings.Join(unserved, ", "))
		return nil
	}
	e.verdict("unserved-queues", OK, fmt.Sprintf("tasks wait in %d queues, all of which are served", len(waiting)))
	return nil
}
