package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/redisx/embedded"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/doctor"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/telemetry"
	"github.com/dts-sched/dts/internal/testkit"
)

const day = 24 * time.Hour

// rhythm is how often the nodes of a voyage do what they do all the time. Weeks need a slow one: each renewal of a
// lease and each beat is a script, and a script on the embedded Redis costs as much real time whatever the pace.
type rhythm struct{ lease, beat time.Duration }

var (
	slow  = rhythm{lease: time.Hour, beat: 30 * time.Minute}
	brisk = rhythm{lease: time.Minute, beat: 20 * time.Second}
	quick = rhythm{lease: 7 * time.Second, beat: 2 * time.Second} // as dtsd has it
)

// takeover is how long a partition may be without a leader after a kill: until the node counts as dead, others have
// noticed, who look again a tenth of a beat later at the soonest, and its lease has run out, and a second for taking it.
func (r rhythm) takeover() time.Duration { return max(3*r.beat+r.beat/10, r.lease) + time.Second }

// gap is a time in which nobody may have led.
type gap struct{ from, until time.Time }

// voyage is a cluster that travels in time: its nodes, its worker and its Redis live in one bubble of testing/synctest,
// whose clock jumps to the next thing that happens once all of them wait.
type voyage struct {
	t      *testing.T
	rhythm rhythm
	redis  *embedded.Server
	db     *redisx.DB
	store  *store.Store
	worker *standIn
	nodes  []*traveller // that run
	gaps   []gap
	named  int
	made   []func() error // to be closed in the end
	cache  cacheSize      // of nodes that start; zero: the default
}

// travelling is taken by the one test that travels. Such a test never waits, so several at once would leave too little of
// the processors for the tests beside them, whose waits end by a real clock.
var travelling sync.Mutex

// travel runs a test from that moment on.
func travel(t *testing.T, from time.Time, r rhythm, test func(v *voyage)) {
	t.Helper()
	travelling.Lock()
	defer travelling.Unlock()
	synctest.Test(t, func(t *testing.T) {
		testkit.Must(t, clock.Sleep(t.Context(), clock.Until(from)))
		redis, err := embedded.StartHidden()
		testkit.Must(t, err)
		v := &voyage{t: t, rhythm: r, redis: redis}
		v.db = v.open(redis.Dial)
		v.store, err = store.Open(t.Context(), store.Options{DB: v.db, Partitions: 1, RunLease: 365 * day})
		testkit.Must(t, err)
		v.worker = v.employ()
		defer v.end()
		test(v)
	})
}

// open makes a client; it is closed in the end. Nobody ever has to wait for a connection: go-redis would measure such a
// wait with timers that all its clients share, and a timer must not leave its bubble.
func (v *voyage) open(dial dial) *redisx.DB {
	v.t.Helper()
	db, err := redisx.Open(v.t.Context(), redisx.Options{URL: v.redis.URL(), Dial: dial, PingAfter: 6 * time.Hour, PoolSize: 1000})
	testkit.Must(v.t, err)
	v.made = append(v.made, db.Close)
	return db
}

// end stops everything, examines what is left, and lets what the Redis clients still do by themselves come to its end.
func (v *voyage) end() {
	for _, n := range slices.Clone(v.nodes) {
		n.stop()
	}
	v.worker.leave()
	v.examine()
	for _, closeIt := range v.made {
		if err := closeIt(); err != nil {
			v.t.Error(err)
		}
	}
	v.redis.Close()
	v.pass(time.Minute)
}

// examine fails the test if anything in Redis does not fit together. What is said of the deployment does not count: nobody is there any more.
func (v *voyage) examine() {
	v.t.Helper()
	c := control.New(control.Options{Store: v.store, Queues: queue.New(queue.Options{DB: v.db}), Nodes: v.member("nobody", config.RoleAPI, v.rhythm.beat, v.db)})
	for r := (control.DoctorRequest{}); ; {
		report, err := c.Examine(context.Background(), caller, r)
		testkit.Must(v.t, err)
		for _, result := range report.Results {
			if result.OfData && result.Severity == doctor.Error {
				v.t.Errorf("in the end, %s finds %d: %q", result.Name, result.Found, result.Examples)
			}
		}
		if r.Cursor = report.NextCursor; r.Cursor == "" {
			return
		}
	}
}

// pass lets time go by.
func (v *voyage) pass(d time.Duration) { _ = clock.Sleep(context.Background(), d) }

// until lets time go by up to a moment; one that has passed is a mistake of the test.
func (v *voyage) until(at time.Time) {
	v.t.Helper()
	if clock.Until(at) < 0 {
		v.t.Fatalf("it is %s already, and the test wants to wait for %s", clock.Now().UTC(), at)
	}
	v.pass(clock.Until(at))
}

func (v *voyage) member(id, role string, beat time.Duration, db *redisx.DB) *cluster.Registry {
	return cluster.New(cluster.Options{
		DB: db, Key: v.store.Keys.Nodes(), Channel: v.store.Keys.Members(), ID: id, Beat: beat, Keep: 2 * day,
		Self: func() cluster.Node { return serving(role, 1000) },
	})
}

// traveller is a scheduler node on a voyage, with a way to Redis that can be cut.
type traveller struct {
	*Scheduler
	v       *voyage
	way     *way
	members *cluster.Registry
	cancel  context.CancelFunc // the scheduler
	leave   context.CancelFunc // the registry
	ended   chan error
	left    chan error
}

// start starts a scheduler node. The first of two leads: it has the smaller name.
func (v *voyage) start() *traveller {
	v.t.Helper()
	v.named++
	id := fmt.Sprintf("node-%04d", v.named)
	n := &traveller{v: v, way: newWay(v.redis), ended: make(chan error, 1), left: make(chan error, 1)}
	db := v.open(n.way.dial)
	s, err := store.Open(v.t.Context(), store.Options{DB: db})
	testkit.Must(v.t, err)
	n.members = v.member(id, config.RoleScheduler, v.rhythm.beat, db)
	n.Scheduler = New(Options{
		DB: db, Store: s, Queues: queue.New(queue.Options{DB: db}), Members: n.members, Node: id, LeaseTTL: v.rhythm.lease, Keep: partition.Keep{Tasks: 1000}, HandOver: 4,
		Metrics: telemetry.New(), Log: slog.New(slog.DiscardHandler),
	})
	n.contact = unbroken()
	n.pace = pace{
		maintenance: time.Hour, lookFirst: defaultPace.lookFirst, lookAgain: 10 * time.Minute, tend: time.Hour,
		ask: time.Minute, names: time.Hour, pack: time.Hour, lossy: time.Hour, peek: time.Hour, limits: time.Hour,
	}
	n.plan = newPlan(n.Scheduler) // of that pace
	if v.cache != (cacheSize{}) {
		n.cache = v.cache
	}
	var member, ctx context.Context
	member, n.leave = context.WithCancel(context.Background())
	ctx, n.cancel = context.WithCancel(context.Background())
	go func() { n.left <- n.members.Run(member) }()
	<-n.members.Ready()
	go func() { n.ended <- n.Run(ctx) }()
	<-n.Ready()
	v.nodes = append(v.nodes, n)
	return n
}

// stop ends the node in good order.
func (n *traveller) stop() {
	n.v.t.Helper()
	n.v.nodes = slices.DeleteFunc(n.v.nodes, func(other *traveller) bool { return other == n })
	n.members.SetDraining(true)
	n.cancel()
	testkit.Must(n.v.t, <-n.ended)
	n.leave()
	testkit.Must(n.v.t, <-n.left)
}

// kill ends the node as a crash does: from now on nothing of it arrives at Redis, so its lease runs out.
func (n *traveller) kill() {
	n.v.t.Helper()
	n.way.cut()
	n.stop()
}

// killed kills the leader, or finds it killed by a trap.
func (v *voyage) killed(n *traveller) {
	v.t.Helper()
	now := clock.Now()
	v.gaps = append(v.gaps, gap{now, now.Add(v.rhythm.takeover())})
	n.kill()
}

// trapped waits until the leader is about to run a script, and kills it then; it is lost, or its answer is.
func (v *voyage) trapped(n *traveller, script string, then fate) {
	v.t.Helper()
	n.way.lay(script, then)
	for waits := true; waits; {
		select {
		case <-n.way.dead:
			waits = false
		case <-time.After(v.rhythm.takeover()):
			waits = len(n.Led()) > 0 // else it had lost its lease, and did not know it yet
		}
	}
	synctest.Wait() // Redis may still run a script whose answer is lost
	v.killed(n)
}

// latest is when what is due at that time has to be under way: a moment later, or after the gap it falls in.
func (v *voyage) latest(due time.Time) time.Time {
	const moment = 50 * time.Millisecond
	for _, g := range v.gaps {
		if !due.Before(g.from.Add(-moment)) && due.Before(g.until) {
			return g.until.Add(moment)
		}
	}
	return due.Add(moment)
}

// outage stops all nodes for a while, and then starts as many new ones.
func (v *voyage) outage(d time.Duration) {
	v.t.Helper()
	end, many := clock.Now().Add(d), len(v.nodes)
	v.gaps = append(v.gaps, gap{clock.Now(), end})
	for _, n := range slices.Clone(v.nodes) {
		n.stop()
	}
	v.until(end)
	for range many {
		v.start()
	}
}

// leads waits until somebody leads.
func (v *voyage) leads() *traveller {
	v.t.Helper()
	for end := clock.Now().Add(v.rhythm.takeover() + time.Minute); clock.Until(end) > 0; v.pass(10 * time.Millisecond) {
		for _, n := range v.nodes {
			if len(n.Led()) == 1 {
				return n
			}
		}
	}
	v.t.Fatal("nobody leads")
	return nil
}
