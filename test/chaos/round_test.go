package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
)

const (
	warmUp          = 2 * time.Second // before the first fault
	harmFor         = 14 * time.Second
	calm            = 4 * time.Second // after the last fault, still with work
	settle          = 2 * time.Minute // until everything has ended
	perRound        = 4               // faults
	violationsShown = 20              // of a round; all of them are kept in a file
)

// round is one run of a fleet under faults.
type round struct {
	t          *testing.T
	ctx        context.Context
	seed       uint64
	deployment deployment
	db         *redisx.DB
	handlers   *handlers
	members    []*member
	schedules  []*ticking
	locking    locking
	redisHurt  sync.Mutex  // held by the fault that concerns Redis
	wasFull    atomic.Bool // Redis was, so that history went early
	lost       []span      // when Redis lost writes; of the fault that concerns Redis, until there is none
	jumps      []jump      // of the clock of Redis; the same

	mu         sync.Mutex
	random     *rand.Rand // which node is asked
	violations []string
}

// violation notes that a promise was broken.
func (r *round) violation(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violations = append(r.violations, fmt.Sprintf(format, args...))
}

// run runs a round of one seed. only, if it has names, are the faults to choose from, and then there is one fault only. It returns
// what happened and the record, for figures.
func run(t *testing.T, seed uint64, start func(*testing.T) deployment, only []string) *outcome {
	r := &round{
		t: t, ctx: t.Context(), seed: seed, deployment: start(t), handlers: startHandlers(), random: rand.New(rand.NewPCG(seed, 1)),
	}
	t.Cleanup(r.handlers.stop)
	r.db = r.deployment.db(t)
	defer r.endFleet()
	r.startFleet()
	plan := r.plan(rand.New(rand.NewPCG(seed, 2)), only, harmFor)
	for _, h := range plan {
		t.Log("plan: ", h)
	}
	w := &workload{round: r}
	o := r.harmWhile(w, plan)
	begin := time.Now()
	if !r.settled() {
		r.violation("not everything has ended %s after the last fault", settle)
	}
	t.Logf("everything has ended %s after the workload", time.Since(begin).Round(time.Millisecond))
	r.judge(w)
	r.examine()
	if len(r.violations) > 0 {
		r.keep()
	}
	for _, v := range r.violations[:min(len(r.violations), violationsShown)] {
		t.Error(v)
	}
	if more := len(r.violations) - violationsShown; more > 0 {
		t.Errorf("and %d more violations", more)
	}
	return o
}

// startFleet starts three nodes with all roles, two of them with a wrong clock, a worker made with package dts, and a worker by HTTP.
func (r *round) startFleet() {
	for i, program := range []string{"dtsd", skewed["5m"], skewed["-5m"]} {
		listen := fmt.Sprint("127.0.0.1:", redistest.FreePort(r.t)) // the same after a restart
		r.startMember(fmt.Sprint("node", i+1), program, "serve", "--concurrency", "12", "--listen", listen)
	}
	r.startMember("goworker", "goworker", "--concurrency", "12")
	web := &member{t: r.t, name: "webworker", program: "goworker", args: []string{"--server", r.members[0].url(), "--concurrency", "6"}}
	r.members = append(r.members, web)
	web.start()
}

// startMember starts a program that reaches Redis by a way of its own.
func (r *round) startMember(name, program string, args ...string) {
	url, network := r.deployment.way(r.t)
	m := &member{t: r.t, name: name, program: program, args: append(append(args, r.deployment.flags()...), "--redis", url), network: network, serves: strings.HasPrefix(program, "dtsd")}
	r.members = append(r.members, m)
	m.start()
	if r.t.Failed() {
		r.t.FailNow()
	}
}

// anyAPI is a client of one of the nodes, whether it lives or not.
func (r *round) anyAPI() *client.ClientWithResponses {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if m := r.members[r.random.IntN(len(r.members))]; m.serves {
			return m.client()
		}
	}
}

// outcome is what a round tells the figures.
type outcome struct {
	plan  []happening
	begin time.Time // of the time that the plan counts from
	calls map[string][]call
	probe []*ticking
}

// harmWhile runs the workload, and the faults in it.
func (r *round) harmWhile(w *workload, plan []happening) *outcome {
	random := rand.New(rand.NewPCG(r.seed, 3))
	start := time.Now().UTC().Truncate(time.Second).Add(2 * time.Second)
	r.schedules = newSchedules(random, start, start.Add(warmUp+harmFor+calm))
	for _, s := range r.schedules {
		w.put(s)
	}
	work, end := context.WithCancel(r.ctx)
	defer end()
	var running sync.WaitGroup
	running.Go(func() { w.run(work, r.seed) })
	running.Go(func() { w.rest(work, r.seed) })
	running.Go(func() { w.contend(work) })
	_ = clock.Sleep(r.ctx, warmUp)
	begin := time.Now()
	r.harm(r.ctx, plan)
	r.heal()
	_ = clock.Sleep(r.ctx, time.Until(start.Add(warmUp+harmFor+calm)))
	end()
	running.Wait()
	o := &outcome{plan: plan, begin: begin, calls: r.handlers.byTask()}
	for _, s := range r.schedules {
		if s.probes() {
			o.probe = append(o.probe, s)
		}
	}
	return o
}

// heal ends all faults.
func (r *round) heal() {
	r.empty(r.ctx)
	for _, m := range r.members {
		if m.network != nil {
			m.network.Mend()
			m.network.Release()
		}
		m.signal(syscall.SIGCONT)
		if !m.alive() {
			m.start()
		}
	}
}

// settled waits until no task is left that is to run, and no schedule that ticks.
func (r *round) settled() bool {
	ctx, cancel := context.WithTimeout(r.ctx, settle)
	defer cancel()
	for !r.rests() {
		if clock.Sleep(ctx, 200*time.Millisecond) != nil {
			return false
		}
	}
	return true
}

func (r *round) rests() bool {
	_, live := r.count(client.StateScheduled, client.StateQueued, client.StateRunning)
	if live > 0 {
		return false
	}
	for _, s := range r.schedules {
		state, ok := r.schedule(s)
		if !ok || state.EndedAt == nil || state.Live > 0 || state.Waiting > 0 {
			return false
		}
	}
	return true
}

// endFleet ends all processes: cleanly, which must work after all that happened.
func (r *round) endFleet() {
	for _, m := range slices.Backward(r.members) {
		if m.current() == nil {
			continue
		}
		if r.t.Failed() {
			m.kill()
		} else {
			m.stop()
		}
		if m.raced() {
			r.t.Errorf("%s has a data race:\n%s", m.name, m.current().Log())
		}
	}
}

// keep writes what explains a violation to a directory of its own.
func (r *round) keep() {
	parent := cmp.Or(os.Getenv(keepVariable), os.TempDir())
	if err := os.MkdirAll(parent, 0o755); err != nil {
		r.t.Errorf("keeping what happened: %v", err)
	}
	dir, err := os.MkdirTemp(parent, fmt.Sprintf("dts-chaos-%d-", r.seed))
	if err != nil {
		r.t.Errorf("keeping what happened: %v", err)
		return
	}
	r.t.Logf("the logs, the calls of the handlers and the violations are in %s; SEED=%d repeats the round", dir, r.seed)
	var text strings.Builder
	for task, calls := range r.handlers.byTask() {
		for _, c := range calls {
			fmt.Fprintf(&text, "%s %s attempt %d version %d until %s answered %q\n", c.begin.UTC().Format(time.StampMicro), task, c.attempt, c.version, c.end.UTC().Format(time.StampMicro), c.token)
		}
	}
	content, err := json.MarshalIndent(redistest.Dump(r.t, r.db), "", " ")
	if err != nil {
		r.t.Errorf("keeping what is in Redis: %v", err)
	}
	files := map[string]string{"redis.json": string(content), "calls.txt": text.String(), "violations.txt": strings.Join(r.violations, "\n")}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			r.t.Errorf("keeping what happened: %v", err)
		}
	}
	for _, m := range r.members {
		if err := m.keepLogs(dir); err != nil {
			r.t.Errorf("keeping the log of %s: %v", m.name, err)
		}
	}
}
