package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/fresh"
	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/why"
	"github.com/dts-sched/dts/lua"
)

// leading is a node that leads both partitions of a world and serves queues with one slot.
func leading(taken int, types []string, queues ...string) fleet {
	n := worker("node", taken, types, queues...)
	n.Roles, n.Partitions = append(n.Roles, "scheduler"), []int{0, 1}
	return fleet{n}
}

// cordoned has all nodes of a fleet cordoned by a name.
func cordoned(nodes fleet, name string) fleet {
	for i := range nodes {
		nodes[i].Cordon = &cluster.Cordon{Of: name, By: "ann", Note: "a new kernel", Queues: nodes[i].Queues}
		nodes[i].Queues = map[string]int{}
	}
	return nodes
}

// judged is the status as this node computes it.
func (w *world) judged() status.Status {
	w.t.Helper()
	w.statuses.troubled = fresh.Value[troubled]{} // look at all schedules now
	return w.judge(w.ctx, status.Status{}, situation{alone: true, watched: true})
}

// expectStatus demands that the status has that reason alone, and returns it.
func (w *world) expectStatus(want status.Code) status.Reason {
	w.t.Helper()
	s := w.judged()
	if len(s.Reasons) != 1 || s.Reasons[0].Code != want {
		w.t.Fatalf("status %s, want %s: %+v", s.Level, want, s.Reasons)
	}
	return s.Reasons[0]
}

// waiting has a task wait in the set of ready tasks of a queue, since it was due a minute ago.
func (w *world) waiting(id, queue string) {
	w.t.Helper()
	ref := w.due(id, queue)
	lead := w.store.Partitions.At(w.store.PartitionOf(ref)).Lead(fence)
	_, err := lead.Claim(w.ctx, 10, handover.Grant{}, time.Second)
	testkit.Must(w.t, err)
	due := float64(w.now().Add(-time.Minute).UnixMilli())
	ready := string(w.store.KeysOf(ref).Ready(queue))
	late := redis.ZAddArgs{XX: true, Ch: true, Members: []redis.Z{z(due, ref.String())}}
	changed, err := w.db.ZAddArgs(w.ctx, ready, late).Result()
	if err != nil || changed != 1 {
		w.t.Fatalf("%s does not wait: %v", ref, err)
	}
}

func TestStatus_LooksAtTheQueues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = leading(0, nil)
	w.waiting("a", "mails")
	gone := worker("gone", 0, nil, "mails")
	gone.State, gone.LastBeat = "dead", w.now().Add(-30*time.Minute)
	w.nodes = append(leading(0, nil), gone)
	if r := w.expectStatus(status.QueueUnserved); r.ID != "mails" || !r.Since.Equal(gone.LastBeat) {
		t.Errorf("%+v, want since when nobody serves it", r)
	}
	w.nodes = cordoned(leading(0, nil, "mails"), "vm")
	r := w.expectStatus(status.QueueUnserved)
	if !strings.Contains(r.Detail, "Nodes that could, and are cordoned: 1.") ||
		!strings.Contains(r.Do, "node uncordon vm)") {
		t.Errorf("%+v, want that its node is cordoned", r)
	}
	w.nodes = leading(0, nil, "mails")
	testkit.Must(t, w.PauseQueue(w.ctx, Caller{Namespace: "default", Name: "ann"}, "mails", ""))
	if r := w.expectStatus(status.QueuePaused); !strings.Contains(r.Detail, "ann") || r.Since.IsZero() {
		t.Errorf("%+v, want who paused it, and when", r)
	}
	testkit.Must(t, w.ResumeQueue(w.ctx, me, "mails"))
	if s := w.judged(); s.Level != status.AllWell || s.Figures.Waiting == nil || *s.Figures.Waiting != 1 {
		t.Errorf("it waits for a worker: %+v", s)
	} else if f := s.Figures; f.Partitions != 2 || f.Led != 2 || !strings.Contains(f.RedisVersion, ".") {
		t.Errorf("%+v, want who leads, and the version of Redis", f)
	}
	lane := w.store.KeysOf(task.Ref{Namespace: "default", ID: "a"}).Ready("mails shell")
	backlog := w.store.KeysOf(task.Ref{Namespace: "default", ID: "a"}).Backlog()
	testkit.Must(t, w.db.ZAdd(w.ctx, string(lane), z(float64(w.now().Add(-time.Minute).UnixMilli()), "default:b")).Err())
	testkit.Must(t, w.db.SAdd(w.ctx, string(backlog), "mails shell").Err())
	w.types = task.Types{"shell": {Setting: "enable-shell"}}
	w.nodes = leading(0, []string{"http"}, "mails")
	if r := w.expectStatus(status.TypeUnserved); !strings.Contains(r.Do, "--enable-shell") {
		t.Errorf("%+v, want the flag that helps", r)
	}
}

// inLane has tasks wait in a lane, since they were due a minute ago.
func (w *world) inLane(lane lua.Lane, ids ...string) (remove func()) {
	w.t.Helper()
	keys := w.store.KeysOf(task.Ref{Namespace: "default", ID: ids[0]})
	ready, due := string(keys.Ready(lane.Name())), float64(w.now().Add(-time.Minute).UnixMilli())
	for _, id := range ids {
		testkit.Must(w.t, w.db.ZAdd(w.ctx, ready, z(due, "default:"+id)).Err())
	}
	testkit.Must(w.t, w.db.SAdd(w.ctx, string(keys.Backlog()), lane.Name()).Err())
	return func() {
		testkit.Must(w.t, w.db.SRem(w.ctx, string(keys.Backlog()), lane.Name()).Err())
		testkit.Must(w.t, w.db.Del(w.ctx, ready).Err())
	}
}

// What waits for a node or a limit that does not come is named, with one of the tasks.
func TestStatus_LooksAtLimitsAndNodes(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	w.nodes = leading(0, nil, "default")
	w.nodes.(fleet)[0].Labels = config.Labels{"zone": "eu"}
	testkit.Must(t, w.setLimit(me, "key:*", LimitRule{Slots: 4}))
	ofCost := func(cost int) string { return task.JoinLimits([]string{"type:http", "key:x"}, cost) }
	for _, c := range []struct {
		lane lua.Lane
		want status.Code
		in   string
	}{
		{lua.Lane{Reach: ";;round;2"}, status.NoNode, "2 tasks wait in the queue \"default\" for a node with 2 slots."},
		{lua.Lane{Reach: "gpu;1*zone=us;hash:7:", Limits: ofCost(9)}, status.NoNode, "for a node with gpu."},
		{lua.Lane{Reach: "zone=eu;;", Limits: ofCost(5)}, status.CostOverLimit, "the limit key:* has: 4 at once."},
	} {
		c.lane.Queue = "default"
		remove := w.inLane(c.lane, "a", "b")
		r := w.expectStatus(c.want)
		if !strings.Contains(r.Detail, c.in) || !strings.Contains(r.Do, "dtsctl -n default task why a.") {
			t.Errorf("%+v: %+v, want %s", c.lane, r, c.in)
		}
		remove()
	}
	defer w.inLane(lua.Lane{Queue: "default", Limits: ofCost(4)}, "a")()
	if s := w.judged(); s.Level != status.AllWell || s.Figures.Limited != 1 {
		t.Errorf("it waits for slots: %+v", s)
	}
	ann := Caller{Namespace: "default", Name: "ann"}
	testkit.Must(t, w.PauseLimit(w.ctx, ann, "key:*", LimitPause{Note: "the disk"}))
	if r := w.expectStatus(status.LimitPaused); r.ID != "key:*" || !strings.Contains(r.Detail, "ann") ||
		!strings.Contains(r.Detail, "the disk") {
		t.Errorf("%+v, want who paused it, and why", r)
	}
}

// heldLong lets a task have run for three minutes.
func (w *world) heldLong(ref task.Ref) {
	w.t.Helper()
	states := w.partitionKey(ref, "states")
	text, err := w.db.HGet(w.ctx, states, ref.String()).Result()
	testkit.Must(w.t, err)
	words, started := strings.Fields(text), w.now().Add(-3*time.Minute).UnixMilli()
	words[6] = strconv.FormatInt(started, 10)
	testkit.Must(w.t, w.db.HSet(w.ctx, states, ref.String(), strings.Join(words, " ")).Err())
	testkit.Must(w.t, w.db.ZAdd(w.ctx, w.partitionKey(ref, "running"), z(float64(started), ref.String())).Err())
}

func TestStatus_TellsWhichTaskHoldsASlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = leading(1, nil, "default")
	long := w.due("long", "")
	w.begun(long)
	w.waiting("b", "default")
	if s := w.judged(); s.Level != status.AllWell {
		t.Errorf("it has run for a moment: %+v", s.Reasons)
	}
	w.heldLong(long)
	if r := w.expectStatus(status.SlotsTaken); !strings.Contains(r.Detail, "long") || time.Since(r.Since) < 2*time.Minute {
		t.Errorf("%+v, want the task and since when it holds the slot", r)
	}
	nodes := leading(1, nil, "default")
	nodes[0].Capacity, nodes[0].Running = 2, 2
	w.nodes = nodes
	if s := w.judged(); s.Level != status.AllWell {
		t.Errorf("it holds one slot of two: %+v", s.Reasons)
	}
}

// Slots of nodes that take no more tasks help nobody, whether they are free or held.
func TestStatus_CountsSlotsOfNodesThatServe(t *testing.T) {
	t.Parallel()
	for state, roles := range map[string][]string{"draining": {"worker"}, "dead": {"worker"}, "alive": {"api"}} {
		w := newWorld(t)
		other := worker("other", 0, nil, "default") // with a free slot
		other.State, other.Roles = state, roles
		w.nodes = append(leading(1, nil, "default"), other)
		long := w.due("long", "")
		w.begun(long)
		w.heldLong(long)
		w.waiting("b", "default")
		s := w.judged()
		if !slices.ContainsFunc(s.Reasons, func(r status.Reason) bool { return r.Code == status.SlotsTaken }) {
			t.Errorf("beside a node that is %s: %+v", state, s.Reasons)
		}
	}
}

// What a node runs that takes no more tasks is no slot of the others.
func TestCountHeld_CountsRunsOfNodesThatServe(t *testing.T) {
	t.Parallel()
	nodes := []status.Node{
		{ID: "a", Alive: true, Worker: true, Queues: []string{"mails"}, Capacity: 2, Running: 2},
		{ID: "b", Alive: true, Worker: true, Queues: []string{"mails"}, Capacity: 2, Draining: true},
	}
	q := status.Queue{Name: "mails"}
	countHeld(&q, status.Serving(nodes, "mails"), []why.Running{
		{Node: "b", StartedAt: time.Unix(1, 0)}, {Node: "a", Slots: 2, StartedAt: time.Unix(2, 0)},
		{Node: "c", StartedAt: time.Unix(3, 0)},
	})
	if q.Held != 2 || !q.HeldFrom.Equal(time.Unix(2, 0)) {
		t.Errorf("%+v, want two slots, of node a", q)
	}
}

func TestStatus_LooksAtTheSchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = leading(0, nil, "default")
	w.put(daily(func(d *schedule.Definition) { d.Misfire = schedule.Misfire{Policy: schedule.MisfireSkip} }))
	if s := w.judged(); s.Level != status.AllWell {
		t.Fatalf("a schedule that has just been put: %+v", s.Reasons)
	}
	succeeded := w.now().Add(-time.Hour).Truncate(time.Millisecond)
	testkit.Must(t, w.db.HSet(w.ctx, w.key(nightly, "schedule"), "failures", 2, "succeeded", succeeded.UnixMilli()).Err())
	if r := w.expectStatus(status.Failing); r.ID != "nightly" || r.Namespace != "default" || r.Severity != status.Warn ||
		!r.Since.Equal(succeeded) {
		t.Errorf("%+v, want that it fails since %s", r, succeeded)
	}
	testkit.Must(t, w.db.HDel(w.ctx, w.key(nightly, "schedule"), "failures").Err())
	w.rewind(nightly, 25*time.Hour)
	w.expectStatus(status.TicksHeldBack)
	testkit.Must(t, w.db.HSet(w.ctx, w.key(nightly, "schedule"), "paused", w.now().UnixMilli(), "note",
		"paused by itself: 3 tasks in a row failed").Err())
	if r := w.expectStatus(status.PausedItself); !strings.Contains(r.Detail, "3 tasks in a row failed") {
		t.Errorf("%+v, want why", r)
	}
	testkit.Must(t, w.db.HSet(w.ctx, w.key(nightly, "schedule"), "note", "for the holidays").Err())
	if s := w.judged(); s.Level != status.AllWell {
		t.Errorf("paused by hand: %+v", s.Reasons)
	}
}

func TestStatus_LooksAtTheFleet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nodes := leading(0, nil, "default")
	gone := worker("gone", 0, nil, "default")
	gone.State, gone.LastBeat = "dead", w.now().Add(-time.Minute)
	w.nodes = slices.Concat(nodes, fleet{gone})
	w.expectStatus(status.NodeDied)
	nodes[0].Partitions = []int{0}
	w.nodes = nodes
	before := w.judged()
	before.Seen["no_leader  "] = before.Seen["no_leader  "].Add(-status.NotLed)
	after := w.judge(w.ctx, before, situation{})
	if len(before.Reasons) != 0 || len(after.Reasons) != 1 || after.Reasons[0].ID != "1" {
		t.Errorf("without a leader: %+v, then %+v", before.Reasons, after.Reasons)
	}
}

func TestStatus_TellsWhatDoctorFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = leading(0, nil, "default")
	a := w.due("a", "default")
	testkit.Must(t, w.db.ZRem(w.ctx, w.partitionKey(a, "wheel"), a.String()).Err())
	lost := []string{"scheduled-lost"}
	_, err := w.Examine(w.ctx, me, DoctorRequest{Checks: lost})
	testkit.Must(t, err)
	if r := w.expectStatus(status.DoctorFound); !strings.Contains(r.Detail, "scheduled-lost") || r.Severity != status.Bad {
		t.Errorf("%+v, want the check", r)
	}
	_, err = w.Examine(w.ctx, me, DoctorRequest{Checks: lost, Repair: true})
	testkit.Must(t, err)
	if s := w.judged(); s.Level != status.AllWell {
		t.Errorf("it is repaired: %+v", s.Reasons)
	}
}

func TestStatus_TellsOfRedis(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = leading(0, nil, "default")
	before := status.Status{At: w.now().Add(-2 * time.Second), Sentence: "Of a leader."}
	testkit.Must(t, w.store.WriteStatus(w.ctx, textOf(t, before)))
	w.server.RefuseWrites()
	if r := w.expectStatus(status.RedisReadOnly); !strings.Contains(r.Detail, "NOREPLICAS") || r.Since.IsZero() {
		t.Errorf("%+v, want what Redis says", r)
	}
	if s, err := w.GetStatus(w.ctx, me); err != nil || len(s.Reasons) != 1 || s.Reasons[0].Code != status.RedisReadOnly {
		t.Errorf("no leader can write a status: %v, %+v", err, s)
	}
	w.statuses.shown = fresh.Value[status.Status]{}
	w.server.TakeWrites()
	w.server.FillMemory()
	if s := w.judged(); !slices.ContainsFunc(s.Reasons, func(r status.Reason) bool { return r.Code == status.RedisFull }) {
		t.Errorf("a Redis that is full: %+v", s.Reasons)
	}
	w.server.Kill()
	s, err := w.GetStatus(w.ctx, me)
	if err != nil || s.Level != status.Trouble || s.Reasons[0].Code != status.RedisSilent || len(s.Warnings) != 1 {
		t.Errorf("without Redis: %v, %+v", err, s)
	}
	report, err := w.Examine(w.ctx, me, DoctorRequest{})
	if err != nil || report.Results[0].Name != "redis-reachable" || report.Results[0].Severity != "error" {
		t.Errorf("without Redis, doctor says %v, %+v", err, report.Results)
	}
}

// What one node has computed is what all show, while it is new.
func TestGetStatus_ShowsWhatOneNodeComputes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = leading(0, nil, "default")
	write := func(age time.Duration) {
		of := status.Status{At: w.now().Add(-age), Level: status.Attention, Sentence: "Of another node."}
		testkit.Must(t, w.store.WriteStatus(w.ctx, textOf(t, of)))
		w.statuses.shown = fresh.Value[status.Status]{}
	}
	expect := func(want string) {
		t.Helper()
		s, err := w.GetStatus(w.ctx, me)
		if err != nil || s.Sentence != want {
			t.Errorf("got %q, %v, want %q", s.Sentence, err, want)
		}
	}
	const own = "All well: 1 node lives, no slot is taken, no task waits."
	expect(own) // nobody has computed one
	write(0)
	expect("Of another node.")
	write(5 * time.Second) // it asks for a newer one, which does not come
	expect("Of another node.")
	write(time.Minute) // nobody computes it any more
	expect(own)
	testkit.Must(t, w.store.WriteStatus(w.ctx, "no JSON"))
	w.statuses.shown = fresh.Value[status.Status]{}
	expect(own)
}

// Where no leader computes the status, one node does for the viewers of all.
func TestGetStatus_KeepsWhatAStandInComputes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.open(w.db)
	w.nodes, other.nodes = leading(0, nil, "default"), fleet{}
	first, err := w.GetStatus(w.ctx, me)
	testkit.Must(t, err)
	second, err := other.GetStatus(w.ctx, me)
	if err != nil || !second.StandIn || !second.At.Equal(first.At) || second.Sentence != first.Sentence {
		t.Errorf("the other node computes another one: %+v, %v, want %+v", second, err, first)
	}
	first.At = first.At.Add(-2 * statusFresh)
	testkit.Must(t, w.store.WriteStatus(w.ctx, textOf(t, first)))
	other.statuses.shown = fresh.Value[status.Status]{}
	third, err := other.GetStatus(w.ctx, me)
	if err != nil || !third.StandIn || !third.At.After(first.At) || third.Figures.Nodes != 0 {
		t.Errorf("nobody computes another one: %+v, %v", third, err)
	}
}

// A leader that comes while another node computes the status knows more.
func TestStandIn_LeavesTheStatusOfALeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = leading(0, nil, "default")
	for _, c := range []struct {
		read, kept string
		know       bool // this node has the lists of nodes and of queues
		want       string
	}{
		{"", "", true, ""}, {"old", "old", true, ""}, {"old", "of a leader", true, "of a leader"}, {"", "old", true, "old"},
		{"old", "old", false, "old"},
	} {
		testkit.Must(t, w.store.WriteStatus(w.ctx, c.kept))
		standing := w.open(w.db)
		if c.know {
			standing.nodes = w.nodes
		}
		found := standing.standIn(w.ctx, status.Status{}, c.read, true)
		kept, err := w.store.ReadStatus(w.ctx)
		if want := cmp.Or(c.want, textOf(t, found)); err != nil || kept != want {
			t.Errorf("%+v: kept %s, %v, want %s", c, kept, err, want)
		}
	}
}

func textOf(t *testing.T, s status.Status) string {
	t.Helper()
	text, err := json.Marshal(s)
	testkit.Must(t, err)
	return string(text)
}

// The node that computes the status does so when it begins, and again as soon as somebody asks.
func TestKeepStatus_ComputesWhenAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = leading(0, nil, "default")
	asked := make(chan struct{})
	var kept sync.WaitGroup
	defer kept.Wait()
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	kept.Go(func() { w.keepStatus(ctx, asked) })
	asked <- struct{}{} // it has computed the first one
	first, _, err := w.readStatus(w.ctx)
	testkit.Must(t, err)
	asked <- struct{}{} // and the second one
	second, _, err := w.readStatus(w.ctx)
	testkit.Must(t, err)
	if first.At.IsZero() || !second.At.After(first.At) {
		t.Errorf("first of %s, then of %s", first.At, second.At)
	}
}

// A look at few schedules is quick: the status then says the same as their pages.
func TestStatus_LooksQuicklyAtFewSchedules(t *testing.T) {
	t.Parallel()
	watched := situation{watched: true}
	for _, c := range []struct {
		how  situation
		took time.Duration
		want time.Duration
	}{
		{watched, 0, statusInterval},
		{watched, 100 * time.Millisecond, 5 * time.Second},
		{watched, 101 * time.Millisecond, fresh.Always}, // keepTroubled looks
		{situation{}, 0, fresh.Always},
		{situation{alone: true}, time.Second, 50 * time.Second},
	} {
		if got := c.how.looking(c.took).Lifetime; got != c.want {
			t.Errorf("%+v, after a look of %s: the next one after %s, want %s", c.how, c.took, got, c.want)
		}
	}
}

// A look at many schedules takes long. The status tells what the one before has found.
func TestStatus_WaitsForNoLookAtTheSchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = leading(0, nil, "default")
	w.statuses.troubled.Read(w.ctx, func(context.Context) (troubled, error) {
		return troubled{
			schedules: []status.Schedule{{ID: "nightly", Failures: 3}}, left: []string{"one is unreadable"},
			at: clock.Now().Add(-10 * time.Minute), took: time.Second, more: 7,
		}, nil
	})
	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		w.statuses.troubled.Read(w.ctx, func(context.Context) (troubled, error) {
			close(begun)
			<-end
			return troubled{}, nil
		})
	}()
	_ = testkit.Receive(t, begun, "the look")
	var f status.Facts
	var u unread
	read := make(chan error, 1)
	go func() { read <- w.readSchedules(w.ctx, situation{watched: true}, &f, &u) }()
	testkit.Must(t, testkit.Receive(t, read, "what is known"))
	if len(f.Schedules) != 1 || f.Schedules[0].ID != "nightly" || len(u.texts) != 1 {
		t.Errorf("%+v, %q, want the schedule, and what is unreadable", f.Schedules, u.texts)
	}
	notes := strings.Join(f.Notes, "; ")
	if !strings.Contains(notes, "10 minutes ago; 7 further schedules") {
		t.Errorf("got %q, want how old that is, and that there are more", f.Notes)
	}
	close(end)
	<-ended
}

// While nobody reads the status, one takes two commands: how Redis is, and whether anything waits.
func TestStatus_CostsLittleWhileNobodyReadsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = leading(0, nil, "default")
	before := w.judge(w.ctx, status.Status{}, situation{})
	var reads counter
	w.db.AddHook(&reads)
	if s := w.judge(w.ctx, before, situation{}); s.Level != status.AllWell || reads.Load() > 2 {
		t.Errorf("%d calls, alone %q, for %+v", reads.Load(), reads.alone(), s)
	}
}

func TestTroubled_KeepsTheWorst(t *testing.T) {
	t.Parallel()
	const more = 1500
	var all troubled
	for i := range troubledLength + more {
		all.add(status.Schedule{Failures: i + 1})
	}
	all.cut()
	if n := len(all.schedules); n != troubledLength || all.more != more || all.schedules[n-1].Failures != more+1 {
		t.Errorf("%d schedules, down to %d failures, and %d more", n, all.schedules[n-1].Failures, all.more)
	}
}

func TestKeepTroubled_LooksUntilItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(daily(nil))
	testkit.Must(t, w.db.HSet(w.ctx, w.key(nightly, "schedule"), "failures", 2).Err())
	ctx, stop := context.WithCancel(w.ctx)
	var kept sync.WaitGroup
	kept.Go(func() { w.keepTroubled(ctx) })
	testkit.Eventually(t, "it has looked", func() bool {
		found, _ := w.statuses.troubled.Last()
		return len(found.schedules) == 1
	})
	stop()
	kept.Wait()
}

// A hundred viewers cost what one does.
func TestGetStatus_IsReadOnceForManyViewers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = leading(0, nil, "default")
	of := status.Status{At: w.now(), Level: status.AllWell, Sentence: "All well."}
	testkit.Must(t, w.store.WriteStatus(w.ctx, textOf(t, of)))
	var reads counter
	w.db.AddHook(&reads)
	var viewers sync.WaitGroup
	for range 100 {
		viewers.Go(func() { _, _ = w.GetStatus(w.ctx, me) })
	}
	viewers.Wait()
	if n := reads.Load(); n > 2 {
		t.Errorf("100 viewers made %d calls", n)
	}
}

// counter counts the calls of a client. Connections greet the server by themselves, which does not count.
type counter struct {
	atomic.Int64
	names sync.Map // of the commands that came alone
}

func (*counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "hello" {
			c.Add(1)
			c.names.Store(cmd.Name(), cmd.Args())
		}
		return next(ctx, cmd)
	}
}

// alone says which commands came alone.
func (c *counter) alone() (commands []string) {
	c.names.Range(func(_, args any) bool { commands = append(commands, fmt.Sprint(args)); return true })
	return commands
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() != "client" {
			c.Add(1)
		}
		return next(ctx, cmds)
	}
}

// What cannot be read makes no reason, and is named. The rest is told.
func TestStatus_NamesWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = leading(0, nil, "default")
	testkit.Must(t, w.queues.Add(w.ctx, "default"))
	w.put(daily(nil))
	w.waiting("a", "default")
	for _, key := range []string{
		"asynq:queues", "asynq:{default}:pending", w.partitionKey(nightly, "schedules"), w.partitionKey(nightly, "examined"),
		w.partitionKey(nightly, "backlog"), w.key(nightly, "schedule"),
	} {
		before, err := w.db.Dump(w.ctx, key).Result()
		testkit.Must(t, w.db.Del(w.ctx, key).Err())
		testkit.Must(t, w.db.SetBit(w.ctx, key, 1, 1).Err())
		if s := w.judged(); len(s.Warnings) == 0 && key != "dts:{1}:examined" {
			t.Errorf("of %s, the status says nothing: %+v", key, s)
		}
		testkit.Must(t, w.db.Del(w.ctx, key).Err())
		if err == nil {
			testkit.Must(t, w.db.Restore(w.ctx, key, 0, before).Err())
		}
	}
	if s := w.judged(); len(s.Warnings) > 0 {
		t.Errorf("all is mended: %v", s.Warnings)
	}
}

func TestStatus_TellsWhyAQueueIsPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.waiting("a", "mails")
	w.nodes = leading(0, nil, "mails")
	testkit.Must(t, w.PauseQueue(w.ctx, ann, "mails", "the mail server moves"))
	if r := w.expectStatus(status.QueuePaused); !strings.Contains(r.Detail, "the mail server moves") {
		t.Errorf("%s", r.Detail)
	}
}

// A schedule that pauses itself is in the next status, and out of the next one after somebody resumed it, however long
// ago the last look at all schedules was.
func TestStatus_HearsOfAScheduleAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(daily(nil))
	w.statuses.troubled.Read(w.ctx, w.findTroubled)
	refs, led := make(chan task.Ref, 1), make(chan struct{}, 1)
	ignore := func(int) {}
	listener := w.store.Partitions.NewListener(partition.Callbacks{
		Connected: func() {}, Freed: func() {}, Schedules: ignore, Outbox: ignore, Rows: ignore, Bulk: func() {},
		Status: func() {},
		Wheel:  func(int) { led <- struct{}{} }, Stale: func(int, []int) {}, Room: func(string) {},
		Look: func(ref task.Ref) { refs <- ref },
	})
	listener.Lead(0)
	ctx, stop := context.WithCancel(w.ctx)
	var kept sync.WaitGroup
	defer kept.Wait()
	defer stop()
	kept.Go(func() { _ = listener.Run(ctx) })
	kept.Go(func() { w.keepChanged(ctx, refs) })
	testkit.Receive(t, led, "the leader hears")
	paused := func(want bool) {
		t.Helper()
		testkit.Eventually(t, "the status follows", func() bool {
			s := w.judge(w.ctx, status.Status{}, situation{watched: true})
			return want == slices.ContainsFunc(s.Reasons, func(r status.Reason) bool { return r.Code == status.PausedItself })
		})
	}
	key := w.key(nightly, "schedule")
	note := "paused by itself: 3 tasks in a row failed"
	testkit.Must(t, w.db.HSet(w.ctx, key, "paused", w.now().UnixMilli(), "note", note).Err())
	tick := task.Ref{Namespace: nightly.Namespace, ID: nightly.ID + "@20260101T000000Z"}
	w.store.Tasks.WarnIfPaused(w.ctx, tick, true)
	paused(true)
	_, err := w.ResumeSchedule(w.ctx, me, nightly.ID)
	testkit.Must(t, err)
	paused(false)
}

// Tasks that have waited for slots of limits are counted apart: no worker can begin them.
func TestStatus_CountsWhatWaitsUnderLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = leading(0, nil, "mails")
	w.waiting("a", "mails")
	k := w.store.Keys.Partition(0)
	lane := lua.Lane{Queue: "mails", Limits: "key:a"}.Name()
	testkit.Must(t, w.db.SAdd(w.ctx, string(k.Backlog()), lane).Err())
	testkit.Must(t, w.db.ZAdd(w.ctx, string(k.Ready(lane)), z(1, "default:b"), z(2, "default:c")).Err())
	if f := w.judged().Figures; f.Waiting == nil || *f.Waiting != 3 || f.Limited != 2 {
		t.Errorf("%+v, want 3 that wait, and 2 of them under limits", f)
	}
}
