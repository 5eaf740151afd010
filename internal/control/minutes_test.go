package control

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// countingWorld is a world whose ends count, and whose clock of Redis a test sets.
type countingWorld struct {
	*world
	clock time.Time
	tally *rollup.Tally
}

func newCountingWorld(t *testing.T) *countingWorld {
	t.Helper()
	w := &countingWorld{world: newWorld(t), clock: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}
	w.tally = rollup.NewTally(func() time.Time { return w.clock })
	w.counting(w.Control)
	w.beatTime = func() time.Time { return w.clock }
	return w
}

// write has node-a write what it has counted.
func (w *countingWorld) write() {
	w.t.Helper()
	rows := w.tally.Rows()
	testkit.Must(w.t, w.store.Minutes.Write(w.ctx, "node-a", rows))
	for _, r := range rows {
		w.tally.Written(r)
	}
}

// fail counts that many failures of tasks of a schedule.
func (w *countingWorld) fail(n int, schedule, text string) {
	for i := range n {
		w.tally.Ended(rollup.End{
			Task: task.Ref{Namespace: "default", ID: fmt.Sprintf("%s@%d", schedule, i)}, Attempt: 1, Queue: "mail", Type: "http",
			Outcome: task.OutcomeFailed, Error: strings.ReplaceAll(text, "?", fmt.Sprint(i)),
			To: []task.State{task.Failed, task.Scheduled}[i%2],
		})
	}
}

func TestListFailures_GroupsErrorsThatDifferByIDs(t *testing.T) {
	t.Parallel()
	w := newCountingWorld(t)
	w.fail(250, "nightly", "order ? is not there")
	w.fail(3, "hourly", "HTTP 503: busy")
	w.clock = w.clock.Add(time.Minute)
	w.fail(250, "hourly", "order ? is not there")
	w.write()
	got, err := w.ListFailures(w.ctx, me, FailureFilter{})
	testkit.Must(t, err)
	if len(got.Causes) != 2 || got.Causes[0].Count != 500 || got.Causes[0].Dead != 250 || got.Causes[1].Count != 3 {
		t.Fatalf("got %+v", got)
	}
	first := got.Causes[0]
	if first.Text != "order # is not there" || fmt.Sprint(first.Schedules) != "[hourly nightly]" ||
		first.Example.Task.ID != "hourly@249" {
		t.Errorf("the first cause is %+v", first)
	}
	if !first.First.Equal(w.clock.Add(-time.Minute)) || !first.Last.Equal(w.clock) {
		t.Errorf("from %s to %s", first.First, first.Last)
	}
	for name, row := range map[string]struct {
		who    Caller
		filter FailureFilter
		want   int
	}{
		"a schedule":        {me, FailureFilter{Schedule: "nightly"}, 250},
		"another queue":     {me, FailureFilter{Queue: "default"}, 0},
		"another namespace": {Caller{Namespace: "acme"}, FailureFilter{}, 0},
		"all namespaces":    {Caller{Namespace: EveryNamespace}, FailureFilter{}, 500},
		"a day":             {me, FailureFilter{Since: 24 * time.Hour}, 500},
		"the last minute":   {me, FailureFilter{Since: time.Minute}, 500},
	} {
		got, err := w.ListFailures(w.ctx, row.who, row.filter)
		n := 0
		if len(got.Causes) > 0 {
			n = got.Causes[0].Count
		}
		if err != nil || n != row.want {
			t.Errorf("%s: %d failures, %v; want %d", name, n, err, row.want)
		}
	}
	for queue, want := range map[string]int{"": 503, "mail": 503, "default": 0} {
		stats, failures, err := w.ReadHour(w.ctx, me, queue)
		n, ended := 0, 0
		for _, c := range failures.Causes {
			n += c.Count
		}
		for _, p := range stats.Periods {
			ended += p.Counts.Ended()
		}
		if err != nil || n != want || ended != want {
			t.Errorf("the hour of queue %q: %d failures, %d ends, %v; want %d", queue, n, ended, err, want)
		}
	}
	if _, err := w.ListFailures(w.ctx, me, FailureFilter{Since: 48 * time.Hour}); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("two days: %v, want invalid", err)
	}
}

func TestFinish_CountsAnEndOnce(t *testing.T) {
	t.Parallel()
	w := newCountingWorld(t)
	made := w.submit([]task.Definition{{Ref: task.Ref{ID: "a"}, Type: "http"}})[0].Task
	run := w.begun(made.Ref)
	for range 3 { // as after a lost answer
		testkit.Must(t, run.Finish(w.ctx, task.Failed, task.OutcomeFailed, "", "boom 1"))
	}
	q := w.tally.Rows()[0].Minute.Queues["default"]
	if q.Failed != 1 || q.Dead != 1 {
		t.Errorf("counted %+v, want one failure", q)
	}
}

// finishAt reports the failure of an attempt through a node, as a worker by HTTP does.
func (w *countingWorld) finishAt(node *Control, run *tasks.Run) {
	w.t.Helper()
	boom := AttemptEnding{Outcome: task.OutcomeFailed, Reason: "boom", Final: true}
	testkit.Must(w.t, node.FinishAttempt(w.ctx, me, run.Task.ID, run.Task.Attempt, run.Token(), boom))
}

// before is a hook of a client that calls do before it sends the first command with a text.
type before struct {
	text string
	do   func()
}

func (b *before) look(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if do := b.do; do != nil && strings.Contains(fmt.Sprint(cmd.Args()), b.text) {
			b.do = nil
			do()
		}
	}
}

func (b *before) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		b.look(cmd)
		return next(ctx, cmd)
	}
}

func (b *before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		b.look(cmds...)
		return next(ctx, cmds)
	}
}

// failures is how many failures all nodes have counted.
func (w *countingWorld) failures() (n int) {
	for _, r := range w.tally.Rows() {
		n += r.Minute.Total().Failed
	}
	return n
}

func TestFinishAttempt_CountsAnEndOnce(t *testing.T) {
	t.Parallel()
	for name, report := range map[string]func(w *countingWorld, first, second *Control, run *tasks.Run){
		"a repeat at another node": func(w *countingWorld, first, second *Control, run *tasks.Run) {
			w.finishAt(first, run)
			w.finishAt(second, run)
			w.finishAt(first, run)
		},
		"a repeat at the same moment": func(w *countingWorld, first, second *Control, run *tasks.Run) {
			db := w.server.DB(w.t)
			slow := w.counting(w.open(db))
			other := &before{run.Task.Run, func() { w.finishAt(first, run) }}
			db.AddHook(other)
			w.finishAt(slow, run)
			if other.do != nil {
				w.t.Error("only one node has reported")
			}
		},
		"a repeat in the node after a lost answer": func(w *countingWorld, first, second *Control, run *tasks.Run) {
			proxy := redistest.NewProxy(w.t, w.server.Addr())
			behind := w.counting(w.open(redistest.Open(w.t, proxy.URL())))
			proxy.DropAnswers(1)
			lost := tasks.End{Run: run, State: task.Failed, Outcome: task.OutcomeFailed, Reason: "boom"}
			if err := behind.store.Tasks.FinishEach(w.ctx, []tasks.End{lost})[0]; err == nil {
				w.t.Error("the first report was answered")
			}
			proxy.Mend()
			for range 2 {
				testkit.Must(w.t, behind.store.Tasks.FinishEach(w.ctx, []tasks.End{lost})[0])
			}
			w.finishAt(second, run)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newCountingWorld(t)
			made := w.submit([]task.Definition{{Ref: task.Ref{ID: "a"}, Type: "http"}, {Ref: task.Ref{ID: "b"}, Type: "http"}})
			good := w.begun(made[1].Task.Ref) // Redis knows the script then
			testkit.Must(t, good.Finish(w.ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
			run := w.begun(made[0].Task.Ref)
			report(w, w.Control, w.counting(w.open(w.db)), run)
			if n := w.failures(); n != 1 {
				t.Errorf("counted %d failures, want 1", n)
			}
		})
	}
}

// counting has a node count with the others.
func (w *countingWorld) counting(node *Control) *Control {
	node.store.Tasks.CountWith(w.tally)
	return node
}

// keep does n rounds of a keeper, one a minute.
func (w *countingWorld) keep(k *minuteKeeper, n int) {
	w.t.Helper()
	for range n {
		w.clock = w.clock.Truncate(time.Minute).Add(time.Minute + sampleAfter)
		k.round(w.ctx)
		if k.failing {
			w.t.Fatal("the round failed")
		}
	}
}

func TestKeepMinutes_ClosesMinutesWithWhatWaited(t *testing.T) {
	t.Parallel()
	w := newCountingWorld(t)
	w.clock = w.now() // what waits is due by the clock of Redis
	w.nodes = fleet{{ID: "node-a", Roles: []string{config.RoleWorker}, Running: 3, Capacity: 10}}
	made := w.submit([]task.Definition{{Ref: task.Ref{ID: "a"}, Type: "http", Queue: "mail"}})[0].Task
	w.claim(made.Ref)
	w.tally.Begun("mail", 20*time.Millisecond)
	w.write()
	start := w.clock.Truncate(time.Minute)
	k := &minuteKeeper{c: w.Control}
	w.keep(k, 2)
	if n := w.db.HLen(w.ctx, "dts:{0}:minutes").Val(); n != 1 {
		t.Fatalf("%d minutes are closed, want 1", n)
	}
	past, err := w.recentMinutes(w.ctx, 3)
	testkit.Must(t, err)
	recent := past.minutes
	m := recent[0]
	if q := m.Queues["mail"]; !m.At.Equal(start) || q.Begun != 1 || q.Waiting != 1 || m.Running != 3 ||
		m.Capacity != 10 || !m.Sampled {
		t.Errorf("the minute is %+v", m)
	}
	if len(recent) != 3 || recent[2].Total().Begun != 0 {
		t.Errorf("%d minutes, the last one is %+v", len(recent), recent[len(recent)-1])
	}
}

func TestKeepMinutes_CountsNothingTwice(t *testing.T) {
	t.Parallel()
	for name, circumstances := range map[string]func(w *countingWorld, k **minuteKeeper){
		"nothing happens": func(*countingWorld, **minuteKeeper) {},
		"a takeover":      func(w *countingWorld, k **minuteKeeper) { *k = &minuteKeeper{c: w.Control} },
		"two leaders":     func(w *countingWorld, _ **minuteKeeper) { w.keepNow(&minuteKeeper{c: w.Control}) },
		"Redis is away":   func(w *countingWorld, _ **minuteKeeper) { w.clock = w.clock.Add(40 * time.Minute) },
		"a node writes late": func(w *countingWorld, _ **minuteKeeper) {
			at := w.clock.Add(-10 * time.Minute).Truncate(time.Minute)
			late := rollup.Row{Minute: rollup.Minute{At: at, Length: rollup.Span,
				Queues: map[string]rollup.Queue{"mail": {Begun: 1000}}}}
			testkit.Must(w.t, w.store.Minutes.Write(w.ctx, "node-b", []rollup.Row{late}))
		},
		"the clock jumps ahead and back": func(w *countingWorld, k **minuteKeeper) {
			now := w.clock
			w.clock = now.Add(30 * 24 * time.Hour)
			w.keepNow(*k)
			w.clock = now
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newCountingWorld(t)
			k := &minuteKeeper{c: w.Control}
			for range 15 {
				w.tally.Begun("mail", time.Millisecond)
				w.write()
				w.keep(k, 1)
			}
			circumstances(w, &k)
			for range 5 {
				w.tally.Begun("mail", time.Millisecond)
				w.write()
				w.keep(k, 1)
			}
			stats, err := w.ReadStats(w.ctx, me, StatsFilter{})
			testkit.Must(t, err)
			if len(stats.Queues) != 1 || stats.Queues[0].Counts.Begun != 20 {
				t.Errorf("counted %+v, want 20 begins", stats.Queues)
			}
		})
	}
}

// keepNow does a round of a keeper at once.
func (w *countingWorld) keepNow(k *minuteKeeper) {
	w.t.Helper()
	k.round(w.ctx)
}

// A minute in which nothing happened costs a few commands, and writes nothing.
func TestKeepMinutes_CostsLittleWhileNothingHappens(t *testing.T) {
	t.Parallel()
	w := newCountingWorld(t)
	k := &minuteKeeper{c: w.Control}
	w.keep(k, 2)
	testkit.Must(t, w.db.ConfigResetStat(w.ctx).Err())
	w.keep(k, 5)
	total := 0
	for line := range strings.Lines(w.db.Info(w.ctx, "commandstats").Val()) {
		var calls int
		if name, figures, ok := strings.Cut(line, ":"); ok && strings.HasPrefix(name, "cmdstat_") &&
			!strings.HasPrefix(name, "cmdstat_config") {
			_, _ = fmt.Sscanf(figures, "calls=%d", &calls)
			total += calls
		}
	}
	if total > 5*3 {
		t.Errorf("%d commands in 5 minutes, want 3 a minute at most:\n%s", total, w.db.Info(w.ctx, "commandstats").Val())
	}
	if n := w.db.Exists(w.ctx, "dts:{0}:minutes", "dts:{0}:hours").Val(); n != 0 {
		t.Errorf("%d keys are written", n)
	}
}

func TestReadStats_CountsADayByHour(t *testing.T) {
	t.Parallel()
	w := newCountingWorld(t)
	k := &minuteKeeper{c: w.Control}
	for range 150 {
		w.tally.Begun("mail", 30*time.Millisecond)
		w.write()
		w.keep(k, 1)
	}
	stats, err := w.ReadStats(w.ctx, me, StatsFilter{Since: 24 * time.Hour, Queue: "mail"})
	testkit.Must(t, err)
	last := stats.Periods[len(stats.Periods)-1]
	if stats.Length != time.Hour || len(stats.Periods) != 25 || stats.Queues[0].Counts.Begun != 150 ||
		last.Counts.Begun != 30 {
		t.Errorf("%d periods of %s, %d begun, %d of them in the last one", len(stats.Periods), stats.Length,
			stats.Queues[0].Counts.Begun, last.Counts.Begun)
	}
	if late := stats.Queues[0].Counts.Late; late.Quantile(.99) != 30*time.Millisecond {
		t.Errorf("the lateness is %s", late.Quantile(.99))
	}
	stats, err = w.ReadStats(w.ctx, me, StatsFilter{})
	testkit.Must(t, err)
	if stats.Length != time.Minute || len(stats.Periods) != 61 || stats.Queues[0].Counts.Begun != 60 {
		t.Errorf("%d periods of %s, %d begun", len(stats.Periods), stats.Length, stats.Queues[0].Counts.Begun)
	}
}

func TestListQueues_TellsThePaceAndTheOldestTask(t *testing.T) {
	t.Parallel()
	w := newCountingWorld(t)
	w.clock = w.now().Truncate(time.Minute).Add(30 * time.Second)
	for range 90 {
		w.tally.Begun("mail", 30*time.Millisecond)
	}
	w.fail(3, "nightly", "boom")
	w.write()
	made := w.submit([]task.Definition{{Ref: task.Ref{ID: "a"}, Type: "http", Queue: "mail",
		RunAt: w.now().Add(-time.Hour)}})[0].Task
	w.claim(made.Ref)
	queues, err := w.ListQueues(w.ctx, me)
	testkit.Must(t, err)
	q := queues[0]
	if len(queues) != 1 || q.Pace.Begun != 60 || q.Pace.Bad != 2 || q.Pace.Late.Quantile(.99) != 30*time.Millisecond {
		t.Errorf("the queue is %+v", q)
	}
}

// A reading that is a minute old says how fast things went until then.
func TestStatusFacts_RateIsOfTheTimeOfReading(t *testing.T) {
	t.Parallel()
	w := newCountingWorld(t)
	w.clock = w.clock.Add(10 * time.Second)
	w.tally.Begun("mail", time.Millisecond)
	w.write()
	first := w.statusFacts(w.ctx, situation{}).Last
	w.clock = w.clock.Add(45 * time.Second)
	if got := w.statusFacts(w.ctx, situation{}).Last; first.Span != 4*time.Minute+10*time.Second || got != first {
		t.Errorf("first it is %+v, then %+v", first, got)
	}
}

// What waits without a name has no queue of its own, wherever queues are listed.
func TestWaiting_LeavesOutWhatHasNoName(t *testing.T) {
	t.Parallel()
	w := newCountingWorld(t)
	for _, queue := range []string{lua.Unnamed, "mail"} {
		testkit.Must(t, w.db.SAdd(w.ctx, "dts:{0}:backlog", queue).Err())
		testkit.Must(t, w.db.ZAdd(w.ctx, "dts:{0}:ready:"+queue, redis.Z{Score: 1, Member: "default:x-" + queue}).Err())
	}
	stats, err := w.ReadStats(w.ctx, me, StatsFilter{})
	testkit.Must(t, err)
	queues := w.statusFacts(w.ctx, situation{}).Queues
	if len(stats.Queues) != 1 || stats.Queues[0].Name != "mail" || len(queues) != 1 || queues[0].Name != "mail" {
		t.Errorf("stats %+v, status %+v, want queue mail", stats.Queues, queues)
	}
}

// The minute that lasts has what waits now, and nobody has looked at it yet.
func TestReadStats_TellsWhatWaitsNow(t *testing.T) {
	t.Parallel()
	w := newCountingWorld(t)
	for _, name := range []string{"mail", "reports"} {
		testkit.Must(t, w.db.SAdd(w.ctx, "dts:{0}:backlog", name).Err())
		testkit.Must(t, w.db.ZAdd(w.ctx, "dts:{0}:ready:"+name, redis.Z{Score: 1, Member: "default:x-" + name}).Err())
	}
	for name, want := range map[string]int{"": 2, "mail": 1} {
		stats, err := w.ReadStats(w.ctx, me, StatsFilter{Queue: name})
		testkit.Must(t, err)
		last := stats.Periods[len(stats.Periods)-1].Counts
		if last.Waiting != want || last.Oldest == 0 || stats.Periods[0].Counts.Waiting != 0 {
			t.Errorf("of %q, %d tasks wait for %s, want %d", name, last.Waiting, last.Oldest, want)
		}
	}
	if _, err := w.ReadStats(w.ctx, me, StatsFilter{Queue: "nosuch"}); task.CodeOf(err) != queue.CodeNotFound {
		t.Errorf("a queue that nobody knows: %v", err)
	}
	testkit.Must(t, w.queues.Add(w.ctx, "nosuch"))
	if _, err := w.ReadStats(w.ctx, me, StatsFilter{Queue: "nosuch"}); err != nil {
		t.Errorf("asynq lists it: %v", err)
	}
}
