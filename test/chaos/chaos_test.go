package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/test/process"
)

// The variables of the environment that say what TestChaos does; see the package.
const (
	seedVariable       = "SEED"
	faultVariable      = "FAULT"      // names, separated by commas, or anyFault
	deploymentVariable = "DEPLOYMENT" // names, separated by commas
	timeVariable       = "CHAOS_TIME" // how long rounds go on; 0s: until it is stopped
	roundsVariable     = "CHAOS_ROUNDS"
	parallelVariable   = "CHAOS_PARALLEL" // how many rounds go on at once; default: one for each processor
	keepVariable       = "CHAOS_KEEP"     // where to keep what explains a violation; default: the system's directory for temporary files
)

// anyFault stands for the names of all faults.
const anyFault = "any"

// binaries is where the programs are.
var binaries string

// skewed are the programs of two nodes of each fleet, whose clocks are wrong by so much.
var skewed = map[string]string{"5m": "", "-5m": ""}

// build builds the programs for a test.
func build(t *testing.T) {
	t.Helper()
	var err error
	if binaries, err = process.Build("../../cmd/dtsd", "../goworker"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(binaries) })
	for skew := range skewed {
		if skewed[skew], err = process.BuildSkewed(binaries, "../../cmd/dtsd", skew); err != nil {
			t.Fatal(err)
		}
	}
}

// Each promise holds, whatever happens.
func TestChaos(t *testing.T) {
	if os.Getenv(seedVariable)+os.Getenv(timeVariable)+os.Getenv(roundsVariable) == "" {
		testkit.OnlyLong(t) // nobody has asked for it
	}
	s := readSettings(t)
	build(t)
	begin := time.Now()
	figures := newFigures()
	var mu sync.Mutex
	n := 0
	next := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		n++
		return n - 1, s.another(n-1, begin) && (s.forever || !t.Failed())
	}
	var running sync.WaitGroup
	for range s.parallel {
		running.Go(func() {
			for n, ok := next(); ok; n, ok = next() {
				s.round(t, n, figures)
			}
		})
	}
	running.Wait()
	t.Log(figures)
}

// round is the nth round.
func (s settings) round(t *testing.T, n int, figures *figures) {
	seed, d := s.seed, s.deployments[n%len(s.deployments)]
	if !s.once {
		seed += uint64(n / len(s.deployments)) // each deployment has all seeds
	}
	t.Run(fmt.Sprintf("%s/%d", d.name, seed), func(t *testing.T) {
		t.Logf("SEED=%d DEPLOYMENT=%s %s=%s repeats this round", seed, d.name, faultVariable, strings.Join(s.faults, ","))
		o := &outcome{}
		defer func() { figures.add(d.name, o, !t.Failed()) }() // also of a round that FailNow ends
		play(t, seed, d, s.faults, o)
		if len(o.plan) == 1 {
			took, last := o.recovery()
			t.Logf("recovered after %s; the last tick that came late is %s: %v", took.Round(time.Millisecond), cmp.Or(last, "none"), o.calls[last])
		}
	})
}

type settings struct {
	seed        uint64
	once        bool // one round on each deployment, with this seed
	rounds      int  // 0: as long as time says
	parallel    int
	time        time.Duration
	forever     bool
	faults      []string
	deployments []namedDeployment
}

// another reports whether there is another round, after n since begin. Each deployment gets one at least.
func (s settings) another(n int, begin time.Time) bool {
	switch {
	case s.once:
		return n < len(s.deployments)
	case s.rounds > 0:
		return n < s.rounds
	case s.forever:
		return true
	}
	return n < len(s.deployments) || time.Since(begin) < s.time
}

// readSettings reads the environment. Without any variable there is one round on a Redis alone, always with the same faults.
func readSettings(t *testing.T) settings {
	t.Helper()
	s := settings{seed: 1, rounds: 1, parallel: runtime.GOMAXPROCS(0), deployments: deployments[:1]}
	set(t, timeVariable, time.ParseDuration, func(d time.Duration) {
		s.seed, s.rounds, s.time, s.forever, s.deployments = rand.Uint64N(1_000_000), 0, d, d == 0, deployments
	})
	set(t, seedVariable, parseSeed, func(seed uint64) { s.seed, s.once = seed, true })
	set(t, roundsVariable, strconv.Atoi, func(n int) { s.rounds, s.once = n, false }) // from the seed on
	set(t, parallelVariable, strconv.Atoi, func(n int) { s.parallel = n })
	set(t, deploymentVariable, parseDeployments, func(all []namedDeployment) { s.deployments = all })
	set(t, faultVariable, parseNames, func(names []string) { s.faults = names })
	return s
}

// set hands the value of a variable on, if it is there.
func set[T any](t *testing.T, variable string, parse func(string) (T, error), use func(T)) {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	value, err := parse(text)
	if err != nil {
		t.Fatalf("%s=%q is invalid: %v", variable, text, err)
	}
	use(value)
}

func parseSeed(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) }

func parseNames(text string) ([]string, error) { return strings.Split(text, ","), nil }

func parseDeployments(text string) (chosen []namedDeployment, err error) {
	for name := range strings.SplitSeq(text, ",") {
		i := slices.IndexFunc(deployments, func(d namedDeployment) bool { return d.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no deployment %q", name)
		}
		chosen = append(chosen, deployments[i])
	}
	return chosen, nil
}
