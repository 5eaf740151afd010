package test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// orders are tasks that lists must find, by their state: those that wait, failed and were cancelled.
type orders struct {
	*rolling
	since time.Time
	wave  int
	want  map[wire.State][]string
}

// place submits orders through a node, and waits until those have ended that do not wait.
func (o *orders) place(n *node, many int) {
	o.t.Helper()
	o.wave++
	var all []wire.Submission
	add := func(kind string, count int, change func(*wire.Submission)) (ids []string) {
		for i := range count {
			s := o.far.task(fmt.Sprintf("%s-%d-%d", kind, o.wave, i), "/none")
			s.Labels = &wire.Labels{"order": *s.ID, "app": "shop"}
			change(&s)
			all, ids = append(all, s), append(ids, *s.ID)
		}
		return ids
	}
	waits := func(s *wire.Submission) { s.Delay = ptr("1h") }
	waiting, cancelled := add("waits", many, waits), add("cancelled", 20, waits)
	failed := add("fails", 20, func(s *wire.Submission) { s.Retry = &wire.Retry{MaxAttempts: ptr(1)} })
	n.submit(all...)
	for _, id := range cancelled {
		answer, err := n.CancelTaskWithResponse(o.t.Context(), id, nil)
		testkit.Must(o.t, err)
		if answer.JSON200 == nil {
			o.t.Fatalf("cancelling %s: %s", id, answer.Body)
		}
	}
	for _, id := range failed {
		await(o.t, time.Minute, id+" has failed", n.is(id, wire.StateFailed))
	}
	for state, ids := range map[wire.State][]string{"scheduled": waiting, "cancelled": cancelled, "failed": failed} {
		o.want[state] = append(o.want[state], ids...)
	}
}

// list returns the names that a list of a node shows, on all pages, and the warnings of the first one.
func (o *orders) list(n *node, params client.ListTasksParams) (ids, warnings []string) {
	o.t.Helper()
	params.Limit = ptr(500)
	for first := true; ; first = false {
		answer, err := n.ListTasksWithResponse(o.t.Context(), &params)
		testkit.Must(o.t, err)
		if answer.JSON200 == nil {
			o.t.Fatalf("listing: %s: %s", answer.Status(), answer.Body)
		}
		for _, listed := range answer.JSON200.Tasks {
			ids = append(ids, listed.ID)
		}
		if first {
			warnings = answer.JSON200.Warnings
		}
		if params.Cursor = answer.JSON200.NextCursor; params.Cursor == nil || *params.Cursor == "" {
			slices.Sort(ids)
			return ids, warnings
		}
	}
}

// ofShop are the orders in a state.
func ofShop(state wire.State) client.ListTasksParams {
	return client.ListTasksParams{State: wire.States{state}, Label: []wire.LabelSelector{"app=shop"}}
}

// expect expects that lists of a node find all orders, and say that they lack nothing.
func (o *orders) expect(n *node, when string) {
	o.t.Helper()
	lists := map[string]client.ListTasksParams{
		"by error": {State: wire.States{"failed"}, Error: ptr("HTTP 404"), Since: &o.since},
	}
	for _, state := range slices.Collect(maps.Keys(o.want)) {
		lists["of "+string(state)] = ofShop(state)
	}
	for name, params := range lists {
		ids, warnings := o.list(n, params)
		if len(warnings) > 0 {
			o.t.Errorf("%s, a list %s warns %q", when, name, warnings)
		}
		want := slices.Sorted(slices.Values(o.want[params.State[0]]))
		if diff := cmp.Diff(want, ids); diff != "" {
			o.t.Errorf("%s, a list %s (-want +got):\n%s", when, name, diff)
		}
	}
	one := o.want["scheduled"][len(o.want["scheduled"])/2]
	found, _ := o.list(n, client.ListTasksParams{Label: []wire.LabelSelector{"order=" + one}})
	if !slices.Equal(found, []string{one}) {
		o.t.Errorf("%s, the order %s is listed as %q", when, one, found)
	}
	if says := o.doctor(n); says.Severity != wire.DoctorCheckSeverityOk || says.Looked < len(o.want["scheduled"]) {
		o.t.Errorf("%s, doctor says %+v", when, says)
	}
}

// doctor is what doctor says of the index of lists.
func (o *orders) doctor(n *node) (all wire.DoctorCheck) {
	o.t.Helper()
	params := client.ExamineParams{Check: wire.CheckFilter{"list-index"}}
	for {
		answer, err := n.ExamineWithResponse(o.t.Context(), &params)
		testkit.Must(o.t, err)
		if answer.JSON200 == nil {
			o.t.Fatalf("doctor: %s: %s", answer.Status(), answer.Body)
		}
		looked := all.Looked
		all = answer.JSON200.Checks[0]
		all.Looked += looked
		if all.Severity != wire.DoctorCheckSeverityOk || answer.JSON200.NextCursor == nil {
			return all
		}
		params.Cursor = answer.JSON200.NextCursor
	}
}

// lacks expects that a node says what lists lack while nodes of the previous release live. A list that needs no index
// is whole.
func (o *orders) lacks(n *node) {
	o.t.Helper()
	const text = "while nodes of an earlier release live"
	if _, warnings := o.list(n, ofShop("failed")); len(warnings) != 1 || !strings.Contains(warnings[0], text) {
		o.t.Errorf("a list by label warns %q, want %q", warnings, text)
	}
	ids, warnings := o.list(n, client.ListTasksParams{State: wire.States{"failed"}, Queue: ptr("default")})
	if len(ids) != len(o.want["failed"]) || len(warnings) > 0 {
		o.t.Errorf("a list by queue shows %d of %d tasks, and warns %q", len(ids), len(o.want["failed"]), warnings)
	}
	says := o.doctor(n)
	if says.Severity != wire.DoctorCheckSeverityNote || says.Detail == nil || !strings.Contains(*says.Detail, text) {
		o.t.Errorf("doctor says %+v", says)
	}
}

// built waits until a node lacks nothing in lists, and logs what it said until then.
func (o *orders) built(n *node) {
	o.t.Helper()
	var said []string
	await(o.t, time.Minute, "the index of lists is built", func() bool {
		_, warnings := o.list(n, client.ListTasksParams{Label: []wire.LabelSelector{"order=none"}})
		if text := strings.Join(warnings, ""); !slices.Contains(said, text) {
			said = append(said, text)
		}
		return len(warnings) == 0
	})
	o.t.Logf("until the index is built, lists say %q", said)
}

// The index of lists is built when the last node is gone that does not know it.
func TestUpgrade_BuildsTheIndexOfListsWhileTasksRun(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	redis := redistest.Start(t)
	examineAtTheEnd(t, redis.URL())
	r := &rolling{t: t, redis: redis.URL(), far: newRecorder(t), nodes: map[string]*node{}}
	for _, role := range []string{"scheduler", "worker"} {
		r.nodes[role] = r.start(role, previousRelease)
	}
	schedules := r.put(r.nodes["scheduler"])
	o := &orders{rolling: r, since: time.Now(), want: map[wire.State][]string{}}
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- r.load(t.Context(), stop) }()
	const calls = 200
	r.ran(calls, schedules, "the previous release")
	o.place(r.nodes["scheduler"], 20_000)
	r.replace("worker", thisRelease)
	newer := r.nodes["worker"]
	r.ran(calls, schedules, "a worker of this release")
	o.lacks(newer)
	o.place(newer, 100)
	r.replace("scheduler", thisRelease)
	o.built(newer)
	o.expect(newer, "after the upgrade")
	r.ran(calls, schedules, "this release")
	o.place(newer, 100)
	o.expect(newer, "some time after the upgrade")
	close(stop)
	testkit.Must(t, <-ended)
	for _, id := range schedules {
		paused, err := r.nodes["scheduler"].PauseScheduleWithResponse(t.Context(), id, nil, wire.SchedulePause{})
		testkit.Must(t, err)
		if paused.JSON200 == nil {
			t.Fatalf("%s: %s: %s", id, paused.Status(), paused.Body)
		}
	}
}
