package test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

const (
	playedAtOnce = 24              // runs
	flowKills    = 4 * time.Second // between two deaths
)

// Promises 1 to 3 for runs of workflows. Runs of random workflows are cancelled, paused, resumed and run again, and
// their waiting steps get signals and answers, while leaders and workers are killed. Each ends as its audit says. No
// attempt of a step begins twice. Doctor finds nothing.
func TestFlows_EndAsTheirAuditSaysWhateverDies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		start       func(*testing.T) string
		short, long int // runs
	}{
		"standalone": {func(t *testing.T) string { return redistest.Start(t).URL() }, 20, 800},
		"Sentinel":   {func(t *testing.T) string { return redistest.StartSentinel(t).URL() }, 0, 600},
		"Cluster":    {func(t *testing.T) string { return redistest.StartCluster(t).URL() }, 0, 600},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := testkit.Amount(c.short, c.long)
			if runs == 0 {
				testkit.OnlyLong(t)
			}
			newFlowStage(t, c.start(t)).play(runs)
		})
	}
}

// flowStage is a fleet that runs workflows, and dies in parts.
type flowStage struct {
	t       *testing.T
	redis   string // its URL
	far     *flowHandlers
	control *control.Control
	door    *node // takes submissions, and lives
	roles   []string
	mortal  []*node // one for each of roles
	seed    uint64

	reruns, cancels, signalled, answered atomic.Int64

	mu     sync.Mutex
	played []*flowPlay
}

func newFlowStage(t *testing.T, redis string) *flowStage {
	t.Helper()
	s := &flowStage{t: t, redis: redis, seed: testkit.Seed(t), far: newFlowHandlers(t)}
	s.door = startNode(t, redis, "--roles", "api")
	s.roles = []string{"scheduler", "scheduler", "worker", "worker"}
	for _, role := range s.roles {
		s.mortal = append(s.mortal, startMortal(t, redis, role))
	}
	db, err := redisx.Open(t.Context(), redisx.Options{URL: redis})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	data, err := store.Open(t.Context(), store.Options{DB: db})
	testkit.Must(t, err)
	nodes := cluster.NewObserver(cluster.Options{DB: db, Key: data.Keys.Nodes()})
	s.control = control.New(control.Options{Store: data, Queues: queue.New(queue.Options{DB: db}), Nodes: nodes})
	return s
}

func startMortal(t *testing.T, redis, role string) *node {
	t.Helper()
	return startNode(t, redis, "--roles", role, "--lease-ttl", "3s")
}

// play plays runs while nodes die, and judges them.
func (s *flowStage) play(runs int) {
	s.t.Helper()
	var next atomic.Int64
	var players sync.WaitGroup
	for range min(playedAtOnce, runs) {
		players.Go(func() {
			for n := int(next.Add(1)); n <= runs && !s.t.Failed(); n = int(next.Add(1)) {
				p := newFlowPlay(s, n)
				p.play()
				s.mu.Lock()
				s.played = append(s.played, p)
				s.mu.Unlock()
			}
		})
	}
	s.t.Cleanup(players.Wait) // also if a node does not start
	over := make(chan struct{})
	go func() { players.Wait(); close(over) }()
	kills := s.killUntil(over)
	lost, ends := 0, map[task.State]int{}
	for _, p := range s.played {
		lost += p.judge()
		ends[p.state]++
	}
	s.t.Logf("%d runs ended: %v; %d reruns, %d cancels; %d nodes were killed, %d attempts lost; %d calls",
		len(s.played), ends, s.reruns.Load(), s.cancels.Load(), kills, lost, s.far.count())
	s.t.Logf("%d signals and %d answers were given", s.signalled.Load(), s.answered.Load())
	if s.signalled.Load() == 0 || s.answered.Load() == 0 {
		s.t.Error("no run waited for somebody")
	}
	expectNoError(s.t, s.door)
}

// killUntil kills one node after another, and starts another one in its place.
func (s *flowStage) killUntil(over chan struct{}) (kills int) {
	s.t.Helper()
	random := rand.New(rand.NewPCG(s.seed, 0))
	first, pause := testkit.Amount(time.Second, flowKills), testkit.Amount(2*time.Second, flowKills)
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-over:
			return kills
		case <-timer.C:
		}
		if kills < 2 || testkit.Long() { // one of each kind in the short form
			i := (2*kills + random.IntN(2)) % len(s.roles)
			s.mortal[i].kill()
			kills++
			s.mortal[i] = startMortal(s.t, s.redis, s.roles[i])
		}
		timer.Reset(pause)
	}
}
