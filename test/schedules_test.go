package test

import (
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// Promise 2: a tick fires once, or a record says why not, while leaders crash and stop and definitions change all
// along. Three records are compared: the server's ledger, the handlers' own, which is kept outside of Redis, and the
// ticks that this test counts off by itself from the definitions it has put.
func TestSchedules_EveryTickIsAccountedForWhileLeadersComeAndGo(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	redis, far := redistest.Start(t), newRecorder(t)
	leader := []string{"--roles", "scheduler,worker", "--concurrency", "64"}
	a, b := startNode(t, redis.URL(), leader...), startNode(t, redis.URL(), leader...)
	f := newFleet(t, startNode(t, redis.URL(), "--roles", "api"), far, redis.DB(t), largeFleet)
	await(t, 30*time.Second, "both lead", func() bool {
		return len(f.api.partitions(a.id)) == 8 && len(f.api.partitions(b.id)) == 8
	})
	f.create()
	start := time.Now()
	t.Logf("%d schedules were created in %s", len(f.all), start.Sub(f.begin).Round(time.Millisecond))

	lives := make(chan error, 1)
	go func() { lives <- f.live(t.Context()) }()
	<-time.After(time.Until(start.Add(f.kill)))
	killed := time.Now()
	a.kill()
	startNode(t, redis.URL(), leader...)
	<-time.After(time.Until(start.Add(f.stop)))
	stopped := time.Now()
	b.stop()
	startNode(t, redis.URL(), leader...)
	if err := <-lives; err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Until(f.end))
	f.awaitEnd()
	t.Logf("everything had ended %s after the last tick", time.Since(f.end).Round(time.Millisecond))

	accounts := f.read()
	v := &verdict{t: t, end: f.end, far: far.byTask(), tasks: f.tasks(), api: f.api, outcomes: make(map[wire.TickOutcome]int)}
	for _, account := range accounts {
		v.check(account)
	}
	v.checkTotal(f)
	v.logFigures(accounts, f.changes, killed, stopped)
}

// awaitEnd waits until every schedule has ended, but for those that stay paused, and every task.
func (f *fleet) awaitEnd() {
	f.t.Helper()
	limit := 500
	await(f.t, 2*time.Minute, "all tasks have ended", f.api.idle)
	await(f.t, time.Minute, "all schedules have ended", func() bool {
		params := client.ListSchedulesParams{Limit: &limit}
		for {
			answer, err := f.api.ListSchedulesWithResponse(f.t.Context(), &params)
			if err != nil || answer.JSON200 == nil {
				f.t.Fatalf("listing schedules: %v", err)
			}
			if slices.ContainsFunc(answer.JSON200.Schedules, lives) {
				return false
			}
			if params.Cursor = answer.JSON200.NextCursor; params.Cursor == nil {
				return true
			}
		}
	})
	await(f.t, time.Minute, "the last tasks have ended", f.api.idle)
}

func lives(s wire.Schedule) bool {
	return s.EndedAt == nil && !s.Paused || s.Live > 0 || s.Waiting > 0
}
