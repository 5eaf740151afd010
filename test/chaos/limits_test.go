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

// limits are those of each round, by name, with their slots. They are set before any work.
var limits = map[string]int{"key:*": 4, "key:narrow": 2, "type:go": 6}

// limitKeys are the keys of tasks, with commas between; "" is none.
var limitKeys = []string{"", "", "", "", "", "", "", "a", "a", "b", "a,narrow", "b,c"}

// setLimits sets the limits of a round.
func (w *workload) setLimits() {
	for name, slots := range limits {
		status, body := w.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
			return c.SetLimitWithResponse(ctx, name, nil, wire.LimitRule{Slots: &slots})
		})
		if status != http.StatusCreated && status != http.StatusNoContent { // an earlier answer was lost
			w.t.Fatalf("setting the limit %s was answered by %d: %s", name, status, body)
		}
	}
}

// slotsOf returns the limits of a task that has these keys and this type, with their slots.
func slotsOf(keys, kind string) map[string]int {
	own := map[string]int{}
	if kind == "go" {
		own["type:go"] = limits["type:go"]
	}
	for key := range strings.SplitSeq(keys, ",") {
		name := "key:" + key
		switch slots, exact := limits[name]; {
		case key == "":
		case exact:
			own[name] = slots
		default:
			own[name] = limits["key:*"]
		}
	}
	return own
}

// home is where members of a fleet are: their label zone. The member node2 has none, as it does not run tasks in each
// round.
var home = map[string]string{"node1": "a", "node3": "b", "goworker": "a", "webworker": "b"}

// place is where a task may run.
type place struct {
	selector string
	prefer   string // a selector
	route    *wire.Route
	members  []string // that may run it
}

// places are those of tasks. Members of both zones run the type http, and only goworker runs the type go.
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
	}
}

// labelsOf are the labels of a member, as its flag has them.
func labelsOf(member string) string {
	if zone := home[member]; zone != "" {
		return "zone=" + zone
	}
	return "no-zone"
}

// limitAndPlace gives a job, perhaps, limit keys and a place.
func (j *job) limitAndPlace(random *rand.Rand) {
	j.keys = limitKeys[random.IntN(len(limitKeys))]
	if all := places(); random.IntN(4) == 0 && j.kind == "http" {
		j.place = &all[random.IntN(len(all))]
	}
}

// addTo adds to a submission what says where the task may run.
func (p place) addTo(s *wire.Submission) {
	s.Route = p.route
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
		e := file.of(j.id, j.behaviour, j.maxAttempts, j.due)
		t := limited{id: j.id, slots: slotsOf(j.keys, j.kind), calls: e.calls, ended: e.history, place: j.place}
		if j.accepted && e.task != nil {
			t.ready = later(j.due, e.task.CreatedAt.Time)
		}
		all = append(all, t)
	}
	for _, f := range w.flows {
		for step, s := range f.steps {
			e := file.of(task.Ref{ID: f.id}.Step(step).ID, s.behaviour, s.maxAttempts, time.Time{})
			all = append(all, limited{id: e.id, slots: slotsOf(s.keys, "http"), calls: e.calls, ended: e.history})
		}
	}
	r.add(judgeLimits(all, &r.past))
	for _, t := range all {
		r.add(t.judgePlace(&r.past))
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
