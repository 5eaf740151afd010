package test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

const (
	followed = 2 * time.Second         // how long work goes on that the replica has
	unknown  = 2500 * time.Millisecond // how long work goes on that the replica does not have
	single   = "single"                // begins the names of tasks with max_attempts 1
	settled  = 6 * time.Second         // after the failover: the silence of a schedule is judged from then on
)

// failover is a fleet of two nodes whose Redis fails over to a replica that does not have the newest writes.
type failover struct {
	t       *testing.T
	pair    *redistest.Pair
	options []redistest.Option // of all servers
	api     *node
	far     *recorder

	mu       sync.Mutex
	accepted []string       // the tasks that were accepted
	refused  map[string]int // submissions that were not, by code
}

// damage is what a failover has done.
type damage struct {
	lost      int // accepted tasks that do not exist any more
	lostBegun int // ... of which an attempt had begun
	stuck     int // tasks that have not ended
	twice     int // attempts that were begun twice, of tasks that somebody submitted
	twiceOnce int // ... of which with max_attempts 1
	doubled   int // ticks whose task ran twice
	proved    int // ... of schedules whose audit says that it is proved
	wrong     int // tasks that have failed though their only handler ended well
	silent    int // schedules that do not run any more
}

// newFailover starts a primary and a replica with those options, and nodes with those flags.
func newFailover(t *testing.T, options []redistest.Option, flags ...string) *failover {
	f := &failover{t: t, pair: redistest.StartPair(t, options...), options: options, far: newRecorder(t), refused: make(map[string]int)}
	f.api = startNode(t, f.pair.URL(), flags...)
	other := startNode(t, f.pair.URL(), flags...)
	await(t, 30*time.Second, "both nodes lead", func() bool {
		return len(f.api.partitions(f.api.id)) == 8 && len(f.api.partitions(other.id)) == 8
	})
	return f
}

// schedules are those of the test, with the path that their ticks call.
var failoverSchedules = map[string]wire.ScheduleDefinition{
	"quick-0": ticking("100ms", wire.OverlapAllow), "quick-1": ticking("200ms", wire.OverlapAllow), "quick-2": ticking("500ms", wire.OverlapAllow),
	"skip-0": ticking("200ms", wire.OverlapSkip), "skip-1": ticking("300ms", wire.OverlapSkip), "skip-2": ticking("500ms", wire.OverlapSkip),
}

func ticking(every string, overlap wire.Overlap) wire.ScheduleDefinition {
	return wire.ScheduleDefinition{Every: &every, Overlap: &overlap}
}

func (f *failover) putSchedules() {
	f.t.Helper()
	for id, d := range failoverSchedules {
		path := "/ok"
		if *d.Overlap == wire.OverlapSkip {
			path = "/slow"
		}
		payload, err := json.Marshal(map[string]string{"url": f.far.URL + path})
		testkit.Must(f.t, err)
		d.Task = wire.TaskTemplate{Type: "http", Payload: payload}
		answer, err := f.api.PutScheduleWithResponse(f.t.Context(), id, nil, d)
		testkit.Must(f.t, err)
		if answer.JSON201 == nil {
			f.t.Fatalf("schedule %s: %s %s", id, answer.Status(), answer.Body)
		}
	}
}

// work submits tasks of several kinds, one after the other, until ctx ends.
func (f *failover) work(ctx context.Context) {
	for n := 0; clock.Sleep(ctx, 10*time.Millisecond) == nil; n++ {
		s := f.far.task(fmt.Sprintf("many%04d", n), []string{"/ok", "/slow"}[n/2%2])
		if n%2 == 0 {
			s.ID = ptr(fmt.Sprintf("%s%04d", single, n))
			s.Retry = &wire.Retry{MaxAttempts: ptr(1)}
		}
		answer, err := f.api.SubmitTaskWithResponse(context.WithoutCancel(ctx), nil, s)
		f.mu.Lock()
		switch {
		case err != nil:
			f.refused["error"]++
		case answer.JSON201 != nil:
			f.accepted = append(f.accepted, *s.ID)
		default:
			f.refused[string(answer.ApplicationProblemJSONDefault.Code)]++
		}
		f.mu.Unlock()
	}
}

// run has the fleet work, lets Redis fail over, waits for the end of all tasks, and counts the damage.
func (f *failover) run() damage {
	f.putSchedules()
	ctx, stop := context.WithCancel(f.t.Context())
	var working sync.WaitGroup
	working.Go(func() { f.work(ctx) })
	testkit.Must(f.t, clock.Sleep(ctx, followed))
	f.pair.Detach()
	testkit.Must(f.t, clock.Sleep(ctx, unknown))
	stop()
	f.pair.FailOver()
	failed := time.Now()
	working.Wait()
	f.pair.AddReplica(f.options...)
	testkit.Must(f.t, clock.Sleep(f.t.Context(), settled))
	d := damage{}
	f.countSilent(&d, time.Now())
	for id := range failoverSchedules {
		_, err := f.api.PauseScheduleWithResponse(f.t.Context(), id, nil, wire.SchedulePause{})
		testkit.Must(f.t, err)
	}
	for range 100 {
		if f.api.idle() {
			break
		}
		testkit.Must(f.t, clock.Sleep(f.t.Context(), 100*time.Millisecond))
	}
	d.stuck = len(f.api.all("scheduled", "queued", "running"))
	f.countTasks(&d)
	f.countTicks(&d)
	f.t.Logf("%d tasks were accepted, others not: %v; %s after the failover: %+v", len(f.accepted), f.refused, time.Since(failed).Round(time.Second), d)
	return d
}

// countSilent counts the schedules of which no tick has run for a while.
func (f *failover) countSilent(d *damage, now time.Time) {
	newest := make(map[string]time.Time)
	for id, calls := range f.far.byTask() {
		if schedule, _, is := strings.Cut(id, "@"); is {
			newest[schedule] = slices.MaxFunc(append(calls, call{at: newest[schedule]}), func(a, b call) int { return a.at.Compare(b.at) }).at
		}
	}
	for id := range failoverSchedules {
		if now.Sub(newest[id]) > settled/2 {
			d.silent++
		}
	}
}

func (f *failover) countTasks(d *damage) {
	states := make(map[string]wire.Task)
	for _, t := range f.api.all("scheduled", "queued", "running", "succeeded", "failed", "cancelled") {
		states[t.ID] = t
	}
	record := f.far.byTask()
	for _, id := range f.accepted {
		if _, exists := states[id]; !exists {
			d.lost++
			if len(record[id]) > 0 {
				d.lostBegun++
				f.describe("was lost", id)
			}
		}
	}
	for id, calls := range record {
		if n := repeats(calls); n > 0 && !strings.Contains(id, "@") {
			d.twice += n
			if strings.HasPrefix(id, single) {
				d.twiceOnce += n
			}
			f.describe("ran twice", id)
		}
	}
	for id, t := range states {
		if t.State == wire.StateFailed && len(record[id]) == 1 && !record[id][0].broken {
			d.wrong++
			f.describe("failed wrongly", id)
		}
	}
}

// describe logs what is known of a task that was harmed.
func (f *failover) describe(how, id string) {
	answer, err := f.api.GetTaskWithResponse(f.t.Context(), id, nil)
	testkit.Must(f.t, err)
	f.t.Logf("%s %s: %s", id, how, answer.Body)
	for _, a := range f.api.attempts(id) {
		f.t.Logf("... %+v", a)
	}
	for _, c := range f.far.byTask()[id] {
		f.t.Logf("... %s: attempt %d was called; broken off: %v", c.at.UTC().Format("15:04:05.000"), c.attempt, c.broken)
	}
}

// repeats is how many calls were for an attempt that had begun before.
func repeats(calls []call) int {
	attempts := make(map[int]bool)
	for _, c := range calls {
		attempts[c.attempt] = true
	}
	return len(calls) - len(attempts)
}

func (f *failover) countTicks(d *damage) {
	bySchedule := make(map[string]int)
	for id, calls := range f.far.byTask() {
		if schedule, _, is := strings.Cut(id, "@"); is && repeats(calls) > 0 {
			f.describe("ran twice", id)
			bySchedule[schedule]++
			d.doubled++
		}
	}
	for id, doubled := range bySchedule {
		if f.audit(id).Proved {
			d.proved += doubled
		}
	}
}

func (f *failover) audit(id string) wire.AuditReport {
	answer, err := f.api.AuditScheduleWithResponse(f.t.Context(), id, nil)
	testkit.Must(f.t, err)
	if answer.JSON200 == nil {
		f.t.Fatalf("audit of %s: %s", id, answer.Body)
	}
	return *answer.JSON200
}

// audits counts the schedules whose audit fulfils a condition.
func (f *failover) audits(fulfils func(wire.AuditReport) bool) int {
	n := 0
	for id := range failoverSchedules {
		if fulfils(f.audit(id)) {
			n++
		}
	}
	return n
}

// What a failover to a replica that is behind loses is what Redis alone knew: tasks that no worker had begun. What living workers know goes on
// and runs once, and the audit names the time.
func TestFailover_ThatLosesWrites(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	f := newFailover(t, nil)
	d := f.run()
	if d.lost = 0; d != (damage{}) { // nothing was promised of tasks that nobody had begun
		t.Errorf("%+v", d)
	}
	if !f.api.said("Redis has lost writes that it had acknowledged") {
		t.Error("the node does not say that Redis has lost writes")
	}
	if n := f.audits(func(a wire.AuditReport) bool { return !a.Proved && len(a.LostWrites) == 1 }); n != len(failoverSchedules) {
		t.Errorf("%d of %d audits name the time of the loss", n, len(failoverSchedules))
	}
}

// With --durability wait=1, and with min-replicas-to-write 1, what was accepted survives, and no attempt that must be the only one begins twice.
func TestFailover_LosesNothingAcknowledgedWhereReplicasMustHaveIt(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	for name, c := range map[string]struct {
		redis   []redistest.Option
		flags   []string
		excused func(*damage) // sets to 0 what is not promised
		refused wire.ProblemCode
	}{
		"durability": {nil, []string{"--durability", "wait=1,200ms"}, func(d *damage) { d.twice, d.doubled = 0, 0 }, wire.NotReplicated},
		"min-replicas": {
			[]redistest.Option{redistest.With("--min-replicas-to-write", "1")}, nil, func(*damage) {}, wire.Unavailable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFailover(t, c.redis, c.flags...)
			d := f.run()
			if c.excused(&d); d != (damage{}) {
				t.Errorf("%+v", d)
			}
			if f.refused[string(c.refused)] == 0 {
				t.Errorf("submissions were refused so: %v, want some with %s", f.refused, c.refused)
			}
		})
	}
}
