// Package testkit is what the tests of every package share: waiting for conditions and channels, looking for
// goroutines that were left behind, and the choice between the short and the long form of a test. It imports nothing
// of this module, so that the tests of every package can use it. Package redistest starts the Redis servers of tests.
package testkit

import (
	"context"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

// Limit is how long a test waits for anything that must happen, unless it says otherwise, by a [Stopwatch].
const Limit = 20 * time.Second

// pollInterval is how often Eventually checks its condition. Some conditions hold for some milliseconds only.
const pollInterval = 3 * time.Millisecond

// heapGrowth is the GOGC of tests. Their heaps are small, and what they allocate lives briefly: the collector of a test
// program takes less than half the time that it takes with the default of 100.
const heapGrowth = 400

// Main runs the tests of a package and fails if they leave a goroutine behind. Packages call it from TestMain. It
// silences the log of go-redis, which reports to stderr every server that a test stops on purpose. It sets GOGC, unless
// the environment does.
//
// A pool of go-redis that could not dial checks once a second whether it can again, and a client of a cluster that reads its map tries each
// server several times. These goroutines end up to some seconds after their client was closed, and are none that were left behind.
func Main(m interface{ Run() int }) {
	logging.Disable()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9.(*clusterStateHolder).LazyReload.func1"))
}

// Must fails the test at once if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually checks the condition until it holds, and fails the test if it does not within Limit. It is for what
// happens in Redis or in another process; use Receive for what can send a signal.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	Within(t, Limit, what, condition)
}

// Within is Eventually with another limit.
func Within(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	watch, stop := startStopwatch()
	defer stop()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for !condition() {
		if watch.Elapsed() >= limit {
			t.Fatalf("not within %s: %s", limit, what)
		}
		<-poll.C
	}
}

// Receive returns the next value of the channel, or the zero value if it is closed. It fails the test if there is
// none within Limit.
func Receive[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	watch, stop := startStopwatch()
	defer stop()
	for {
		deadline := time.NewTimer(Limit - watch.Elapsed())
		select {
		case v := <-c:
			deadline.Stop()
			return v
		case <-deadline.C:
			if watch.Elapsed() >= Limit {
				t.Fatalf("not received within %s: %s", Limit, what)
			}
		}
	}
}

// Cause waits until the context ends and returns why it did. It fails the test if the context does not end within
// Limit.
func Cause(t testing.TB, ctx context.Context, what string) error {
	t.Helper()
	Receive(t, ctx.Done(), what)
	return context.Cause(ctx)
}
