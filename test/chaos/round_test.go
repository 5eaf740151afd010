package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/batch"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
	"github.com/dts-sched/dts/test/process"
)

const (
	warmUp          = 2 * time.Second // before the first fault
	harmFor         = 14 * time.Second
	calm            = 4 * time.Second       // after the last fault, still with work
	settle          = 2 * time.Minute       // until everything has ended
	roundLimit      = 6 * time.Minute       // for all of a round
	perRound        = 4                     // faults
	stallPace       = 50 * time.Millisecond // between two looks at the machine
	stalls          = time.Second           // by which a look is late if the machine stands still; the lease of a run is three times that
	violationsShown = 20                    // of a round; all of them are kept in a file
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
	redisHurt  sync.Mutex // held by the fault that concerns Redis
	past       past

	mu         sync.Mutex // of what follows, and of members while they join
	random     *rand.Rand // which node is asked
	violations []string
}

// violation notes that a promise was broken.
func (r *round) violation(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violations = append(r.violations, fmt.Sprintf(format, args...))
}

// play plays a round of one seed. only, if it has names, are the faults to choose from, and then there is one fault only. It notes
// in o what happened, as far as the round comes.
func play(t *testing.T, seed uint64, d namedDeployment, only []string, o *outcome) {
	ctx, cancel := context.WithTimeout(t.Context(), roundLimit)
	defer cancel()
	r := &round{t: t, ctx: ctx, seed: seed, random: rand.New(rand.NewPCG(seed, 1))}
	callers := batch.New(callersLimit, r.callersOf) // it looks at all sockets of all members, however many connections it is for
	openers := func(c net.Conn) []string {
		members, err := callers.Do(ctx, c)
		if err != nil {
			return nil
		}
		return members
	}
	var opener func(c net.Conn) string
	if seed%2 == 0 || slices.ContainsFunc(fleetFaults, func(f fault) bool { return f.needsNetwork && f.isIn(only) }) {
		opener = func(c net.Conn) string {
			if members := openers(c); len(members) > 0 {
				return members[0]
			}
			return "" // another server
		}
	}
	r.deployment = d.start(t, opener)
	r.handlers = startHandlers(openers)
	t.Cleanup(r.handlers.stop)
	r.db = r.deployment.db(t)
	defer r.end()
	r.startFleet(rand.New(rand.NewPCG(seed, 4)))
	o.plan = r.plan(seed, only, harmFor)
	for _, h := range o.plan {
		t.Log("plan: ", h)
	}
	w := &workload{round: r}
	unwatch := r.watchMachine()
	defer unwatch()
	r.harmWhile(w, o)
	begin := time.Now()
	if r.settled() {
		t.Logf("everything has ended %s after the workload", time.Since(begin).Round(time.Millisecond))
	} else {
		r.violation("not everything has ended %s after the workload", time.Since(begin).Round(time.Second))
	}
	if ctx.Err() != nil {
		r.violation("the round has not ended after %s", roundLimit)
		return
	}
	unwatch()
	r.judge(w)
	r.examine()
}

// callersLimit is the most connections that are looked for at once: all of them.
const callersLimit = 10_000

// callersOf returns for each connection to this process the members on which the one depends that opened it; nil if it is not known.
func (r *round) callersOf(conns []net.Conn) [][]string {
	sockets := make([]string, len(conns))
	for i, c := range conns {
		sockets[i], _ = process.SocketAt(c) // "" if the caller has gone
	}
	callers := make([][]string, len(conns))
	r.mu.Lock()
	members := slices.Clone(r.members)
	r.mu.Unlock()
	for _, m := range members {
		own := m.sockets()
		for i := range conns {
			if own[sockets[i]] {
				callers[i] = m.dependsOn()
			}
		}
	}
	return callers
}

// end ends the fleet, tells the violations, and keeps what explains a failure.
func (r *round) end() {
	r.endFleet()
	for _, v := range r.violations[:min(len(r.violations), violationsShown)] {
		r.t.Error(v)
	}
	if more := len(r.violations) - violationsShown; more > 0 {
		r.t.Errorf("and %d more violations", more)
	}
	if r.t.Failed() {
		r.keep()
	}
}

const allRoles = "scheduler,worker,api"

// startFleet starts three nodes, two of them with a wrong clock, a worker made with package dts, and a worker by HTTP. Either all nodes have all
// roles, or two of them share the roles between them.
func (r *round) startFleet(random *rand.Rand) {
	roles := []string{allRoles, allRoles, allRoles}
	if random.IntN(2) == 0 {
		roles = []string{allRoles, "scheduler", "worker,api"}
	}
	for i, program := range []string{"dtsd", skewed["5m"], skewed["-5m"]} {
		listen := fmt.Sprint("127.0.0.1:", redistest.FreePort(r.t)) // the same after a restart
		name := fmt.Sprint("node", i+1)
		m := r.startMember(name, program, "serve", "--concurrency", slotsOf(name), "--listen", listen, "--roles", roles[i],
			"--node-name", name, "--labels", labelsOf(name))
		m.serves = strings.Contains(roles[i], "api")
		if strings.Contains(roles[i], "scheduler") {
			r.past.leaders = append(r.past.leaders, m.name)
		}
	}
	const own = "goworker"
	r.startMember(own, own, "--node-name", own, "--concurrency", slotsOf(own), "--labels", labelsOf(own))
	through := r.members[0]
	web := &member{round: r, name: "webworker", program: "goworker", through: through}
	web.args = []string{"--server", through.url(), "--concurrency", slotsOf(web.name), "--labels", labelsOf(web.name)}
	r.join(web)
	web.start()
}

// startMember starts a program that reaches Redis by a way of its own.
func (r *round) startMember(name, program string, args ...string) *member {
	url, network := r.deployment.way(r.t, name)
	m := &member{round: r, name: name, program: program, args: append(append(args, r.deployment.flags()...), "--redis", url), network: network}
	r.join(m)
	m.start()
	if r.t.Failed() {
		r.t.FailNow()
	}
	return m
}

// join adds a member. Others than callersOf see the members only when all have joined.
func (r *round) join(m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members = append(r.members, m)
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

// harmWhile runs the workload, and the planned faults in it, and notes what happened.
func (r *round) harmWhile(w *workload, o *outcome) {
	r.awaitRuns(w)
	w.setLimits()
	random := rand.New(rand.NewPCG(r.seed, 3))
	start := time.Now().UTC().Truncate(time.Second).Add(2 * time.Second)
	r.schedules = newSchedules(random, start, start.Add(warmUp+harmFor+calm))
	for _, s := range r.schedules {
		w.put(s)
	}
	work, end := context.WithCancel(r.ctx)
	defer end()
	var running sync.WaitGroup
	running.Go(func() { w.drive(work, r.seed) })
	running.Go(func() { w.driveFlows(work, r.seed) })
	running.Go(func() { w.pause(work, r.seed) })
	running.Go(func() { w.contend(work) })
	running.Go(func() { w.changeLimit(work) })
	_ = clock.Sleep(r.ctx, warmUp)
	o.begin = time.Now()
	r.harm(r.ctx, o.plan)
	r.heal()
	_ = clock.Sleep(r.ctx, time.Until(start.Add(warmUp+harmFor+calm)))
	end()
	running.Wait()
	o.calls = r.handlers.byTask()
	for _, s := range r.schedules {
		if s.probes() {
			o.probe = append(o.probe, s)
		}
	}
}

// watchMachine notes, until stop, when the machine is so busy, by something else than the round, that it stands still for all: this process is on the
// way of all handlers and, by its proxies, of all members.
func (r *round) watchMachine() (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for from := time.Now(); clock.Sleep(ctx, stallPace) == nil; from = time.Now() {
			if until := time.Now(); until.Sub(from) > stallPace+stalls {
				r.t.Logf("the machine stood still for %s", until.Sub(from).Round(time.Millisecond))
				r.past.addHarm(harm{span: span{from, until}, name: "stall", away: true})
			}
		}
	})
	return func() { cancel(); running.Wait() }
}

// heal ends all faults.
func (r *round) heal() {
	r.liftLimit(r.ctx)
	for _, m := range r.members {
		for _, p := range m.network {
			p.Mend()
			p.Release()
		}
		m.signal(syscall.SIGCONT)
		if !m.checkAlive() {
			m.start()
		}
	}
}

// settled waits until no task is left that is to run, and no schedule that ticks; false if that takes too long.
func (r *round) settled() bool {
	ctx, cancel := context.WithTimeout(r.ctx, settle)
	defer cancel()
	for !r.hasEnded() {
		if clock.Sleep(ctx, 200*time.Millisecond) != nil {
			return false
		}
	}
	return true
}

func (r *round) hasEnded() bool {
	if r.lives() || r.owes() || r.lives() { // what followed meanwhile lives now
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

// lives reports whether a task has not ended, or nobody says.
func (r *round) lives() bool {
	live, ok := r.list(wire.StateScheduled, wire.StateQueued, wire.StateRunning)
	return !ok || len(live) > 0
}

// owes reports whether an outbox has something, or Redis does not say.
func (r *round) owes() bool {
	keys := lua.NewKeyspace("", 0)
	for i := range layout.DefaultPartitions {
		if n, err := r.db.ZCard(r.ctx, string(keys.Partition(i).Outbox())).Result(); n > 0 || err != nil {
			return true
		}
	}
	return false
}

// awaitRuns waits until all nodes take runs of workflows, and tasks that have follow-ups, limit keys and selectors: none
// does before it knows all others.
func (r *round) awaitRuns(w *workload) {
	const definition = `{"definition": {"steps": [{"id": "a", "task": {"type": "noop"}}]}}`
	run := wire.Submission{
		Type: task.WorkflowType, Payload: json.RawMessage(definition), OnEnd: w.onEnd(wire.FollowUpWhenEnded),
	}
	limited := wire.Submission{
		Type: "noop", LimitKey: ptr("a"), Cost: ptr(maxCost), Select: ptr("zone"), Slots: ptr(2),
	}
	for _, m := range r.members {
		for _, s := range []wire.Submission{run, limited} {
			for m.serves {
				a, err := m.client().SubmitTaskWithResponse(r.ctx, &client.SubmitTaskParams{DryRun: ptr(true)}, s)
				if err == nil && a.StatusCode() == http.StatusOK {
					break
				}
				if clock.Sleep(r.ctx, askAgain) != nil {
					r.t.Fatalf("%s takes no task of the type %s: %v", m.name, s.Type, err)
				}
			}
		}
	}
}

// endFleet ends all processes: cleanly, which must work after all that happened.
func (r *round) endFleet() {
	for _, m := range slices.Backward(r.members) {
		if m.current() == nil {
			continue
		}
		if r.t.Failed() || len(r.violations) > 0 {
			m.kill() // it is too late for the next check, and may take long
		} else {
			m.stop()
		}
		if m.raced() {
			r.violation("%s has a data race; its log tells more", m.name)
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
	files := map[string]string{"calls.txt": r.handlers.String(), "faults.txt": r.past.String(), "violations.txt": strings.Join(r.violations, "\n")}
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
	content, err := json.MarshalIndent(redistest.Dump(r.t, r.db), "", " ") // last: it ends the test if Redis does not answer
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "redis.json"), content, 0o600)
	}
	if err != nil {
		r.t.Errorf("keeping what is in Redis: %v", err)
	}
}
