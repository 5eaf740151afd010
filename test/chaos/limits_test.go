package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/task"
)

// rule is what a limit allows.
type rule struct {
	slots int
	rate  int // in a second; 0: any number
	burst int
}

// limits are those of each round, by name. They are set before any work. No task costs more than any of them has slots.
var limits = map[string]rule{
	"key:*": {slots: 4}, "key:narrow": {slots: 2}, changing: {slots: 3}, "key:rated": {slots: 4, rate: 4, burst: 3},
	"type:go": {slots: 6},
}

// changing is the limit whose slots are changed, each time after changePace.
const (
	changing   = "key:c"
	changePace = 4 * time.Second
)

var changesTo = []int{5, 3}

// limitKeys are the keys of tasks, with commas between; "" is none.
var limitKeys = []string{
	"", "", "", "", "", "", "", "", "", "", "a", "a", "b", "c", "a,narrow", "b,c", "rated",
}

// maxCost is the highest cost of a task.
const maxCost = 2

// setLimits sets the limits of a round.
func (w *workload) setLimits() {
	for name, r := range limits {
		w.setLimit(name, r)
	}
}

// setLimit sets a limit, and notes when.
func (w *workload) setLimit(name string, r rule) {
	asked := time.Now() // an earlier request may have set it, although its answer was lost
	status, body := w.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		set := wire.LimitRule{Slots: &r.slots}
		if r.rate > 0 {
			set.Rate, set.Per, set.Burst = &r.rate, ptr(wire.LimitPer("1s")), &r.burst
		}
		return c.SetLimitWithResponse(ctx, name, nil, set)
	})
	if status != http.StatusNoContent {
		w.t.Errorf("setting the limit %s was answered by %d: %s", name, status, body)
	}
	w.past.change(func() { w.past.rules = append(w.past.rules, ruled{span{asked, time.Now()}, r, name}) })
}

// changeLimit raises a limit, and lowers it, unless ctx ends before that.
func (w *workload) changeLimit(ctx context.Context) {
	for _, slots := range changesTo {
		if clock.Sleep(ctx, changePace) == nil {
			w.setLimit(changing, rule{slots: slots})
		}
	}
}

// limitsOf returns the names of the limits of a task that has these keys and this type.
func limitsOf(keys, kind string) (names []string) {
	if kind == "go" {
		names = append(names, "type:go")
	}
	for key := range strings.SplitSeq(keys, ",") {
		if key != "" {
			names = append(names, "key:"+key)
		}
	}
	return names
}

// home is where members of a fleet are: their label zone. The member node2 has none, as it does not run tasks in each
// round.
var home = map[string]string{"node1": "a", "node3": "b", "goworker": "a", "webworker": "b"}

// place is where a task may run, and how many slots of its node it holds there.
type place struct {
	slots    int // 0: one
	selector string
	prefer   string // a selector
	route    *wire.Route
	members  []string // that may run it
}

// places are those of tasks. Members of both zones run the type http. Workers by HTTP run tasks of one slot only.
func places() []place {
	by := func(by route.Strategy) *wire.Route { return &wire.Route{By: ptr(wire.RouteBy(by))} }
	failover := by(route.Failover)
	failover.Order = []string{"node3", "node1"}
	sticky := by(route.Hash)
	sticky.Key, sticky.Sticky = ptr("customer-7"), ptr(wire.StickyPrefer)
	both := []string{"node1", "node3", "goworker", "webworker"}
	return []place{
		{selector: "zone=a", members: []string{"node1", "goworker"}},
		{selector: "zone=b", members: []string{"node3", "webworker"}},
		{selector: "zone in (a,b)", prefer: "zone=b", route: by(route.Round), members: both},
		{selector: "zone", route: by(route.LeastRunning), members: both},
		{selector: "zone!=b,zone", route: sticky, members: []string{"node1", "goworker"}},
		{route: failover, members: []string{"node3", "node1"}},
		{slots: 2, members: []string{"node1", "node2", "node3", "goworker"}},
		{slots: 5, selector: "zone=a", members: []string{"node1", "goworker"}},
	}
}

// labelsOf are the labels of a member, as its flag has them.
func labelsOf(member string) string {
	if zone := home[member]; zone != "" {
		return "zone=" + zone
	}
	return "no-zone"
}

// concurrency is how many slots members have.
var concurrency = map[string]int{"node1": 12, "node2": 12, "node3": 12, "goworker": 12, "webworker": 6}

// slotsOf is how many slots a member has, as its flag has them.
func slotsOf(member string) string { return fmt.Sprint(concurrency[member]) }

// limitAndPlace gives a job, perhaps, limit keys, a cost and a place.
func (j *job) limitAndPlace(random *rand.Rand) {
	j.keys, j.cost = limitKeys[random.IntN(len(limitKeys))], 1
	if random.IntN(5) == 0 {
		j.cost = maxCost
	}
	if all := places(); random.IntN(4) == 0 && j.kind == "http" {
		j.place = &all[random.IntN(len(all))]
	}
}

// addTo adds to a submission what says where the task may run.
func (p place) addTo(s *wire.Submission) {
	s.Route = p.route
	if p.slots > 0 {
		s.Slots = &p.slots
	}
	if p.selector != "" {
		s.Select = &p.selector
	}
	if p.prefer != "" {
		s.Prefer = wire.Preferences{{Select: p.prefer, Weight: ptr(10)}}
	}
}

// drained is a time in which a member had confirmed that it begins no task.
type drained struct {
	span

	member string
}

// drain has a node take no tasks for a while, and asks what runs there to move.
func drain(ctx context.Context, m *member, h happening) {
	r := m.round
	uncordon := time.Now().Add(h.lasts)
	status, body := r.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.CordonNodeWithResponse(ctx, m.name, wire.NodeCordoning{Drain: ptr(true), Note: ptr("chaos")})
	})
	if status != http.StatusOK {
		r.t.Errorf("draining %s was answered by %d: %s", m.name, status, body)
		return
	}
	for begin := (time.Time{}); ; _ = clock.Sleep(ctx, askAgain) {
		now := time.Now()
		if begin.IsZero() && r.obeysCordon(ctx, m) {
			begin = now
		}
		if now.Before(uncordon) && ctx.Err() == nil {
			continue
		}
		if !begin.IsZero() {
			r.past.addDrained(drained{span{begin, now}, m.name})
		}
		break
	}
	status, body = r.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.UncordonNodeWithResponse(ctx, m.name)
	})
	if status != http.StatusOK && status != http.StatusNoContent {
		r.t.Errorf("uncordoning %s was answered by %d: %s", m.name, status, body)
	}
}

// obeysCordon reports whether the newest process of a member says that no task begins there any more.
func (r *round) obeysCordon(ctx context.Context, m *member) bool {
	a, err := r.anyAPI().GetNodeWithResponse(ctx, m.current().ID)
	if err != nil || a.JSON200 == nil || a.JSON200.Node == nil {
		return false
	}
	cordon := a.JSON200.Node.Cordon
	return cordon != nil && cordon.Obeyed
}

// judgeLimits judges what the record of the handlers says of limits and places.
func (r *round) judgeLimits(w *workload, file *caseFile) {
	var all []limited
	for _, j := range w.jobs {
		e := file.ofJob(j)
		t := limited{
			id: j.id, cost: j.cost, limits: limitsOf(j.keys, j.kind), calls: e.calls, ended: e.history, place: j.place,
			p: r.past.of(j.id),
		}
		if j.accepted && e.task != nil {
			t.ready = later(j.due, e.task.CreatedAt.Time)
		}
		all = append(all, t)
	}
	for _, f := range w.flows {
		for step, s := range f.steps {
			e := file.of(task.Ref{ID: f.id}.Step(step).ID, s.behaviour, s.maxAttempts, time.Time{})
			all = append(all, limited{
				id: e.id, cost: 1, limits: limitsOf(s.keys, "http"), calls: e.calls, ended: e.history, p: r.past.of(e.id),
			})
		}
	}
	r.add(judgeLimits(all, &r.past))
	r.add(judgeNodes(all, &r.past))
	for i, t := range all {
		r.add(t.judgePlace(&r.past))
		if i < len(w.jobs) && w.jobs[i].moving == 1 && len(w.jobs[i].movesTo) == 1 {
			r.add(t.judgeMoves(w.jobs[i].movesTo[0], &r.past))
		}
	}
	for id, calls := range file.calls { // also of schedules and follow-ups
		if !slices.ContainsFunc(all, func(t limited) bool { return t.id == id }) {
			r.add(limited{id: id, calls: calls}.judgePlace(&r.past))
		}
	}
}

// within is the part of a time in which an attempt held its slots for certain: while its handler ran, and at the latest
// until Redis had its end.
func (c call) within(history []wire.Attempt, p *past) (held span, known bool) {
	held = span{c.begin, c.end}
	i := slices.IndexFunc(history, func(a wire.Attempt) bool { return a.Number == c.attempt })
	if i < 0 && c.token == "" || c.end.IsZero() {
		return span{}, false
	}
	if i >= 0 && history[i].FinishedAt != nil {
		held.until = earlier(held.until, p.shown(history[i].FinishedAt.Time).from)
	}
	return held, held.from.Before(held.until)
}

// String is the time, for people.
func (s span) String() string {
	return fmt.Sprintf("%s to %s", s.from.UTC().Format(stamp), s.until.UTC().Format(stamp))
}
