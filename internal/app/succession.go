package app

import (
	"context"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/tasks"
)

const (
	// settleTime is how long a node lets another primary hear what all nodes know before it starts anything there: long enough for others to
	// find the primary as well, and not longer than dispatch may be interrupted.
	settleTime = tasks.DefaultRunLease / 2
	// reportTime is how much of that nodes wait for what others know. In the rest, they say what follows from what nobody has said.
	reportTime = settleTime * 2 / 3
	// restoreFor is how long after that a node restores what the primary lacks.
	restoreFor = time.Minute
	// losingFor is the time within which losses are told together.
	losingFor = time.Minute
)

// lossWindows returns whether Redis may have lost writes lately, and whether so lately that it may yet hear of them.
func lossWindows(s *redisx.Succession) (mayHaveLost, awaitsReports func() bool) {
	return func() bool { return s.Within(restoreFor) }, func() bool { return s.Within(reportTime) }
}

// followSuccession has every other primary that takes over hear what this node knows, until ctx ends.
func (a *App) followSuccession(ctx context.Context) error {
	a.succession.SetTelling(true)
	defer a.succession.SetTelling(false)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.succession.Changed():
		}
		a.o.Log.Warn("Redis has restarted or failed over: no work starts on that server until nodes have reported what runs and what has ended lately")
		if lost := a.tellPrimaries(ctx); lost > 0 {
			a.o.Log.Warn("restored ends of attempts that Redis had lost", "count", lost)
		}
	}
}

// tellPrimaries tells primaries that have taken over which attempts have ended lately, and which run here or in a worker by HTTP. It says so again
// until others may start work there, as what one node knows can follow from what another one says: an attempt that runs, from the end of the one
// before. If a primary does not answer yet, the time for that begins again when it does. It returns how many ends Redis had lost.
func (a *App) tellPrimaries(ctx context.Context) (lost int) {
	a.registry.BeatNow()
	var recording sync.WaitGroup
	recording.Go(func() { a.store.RecordLossesAgain(ctx) })
	defer recording.Wait()
	for begin, told := clock.Now(), false; ctx.Err() == nil; _ = clock.Sleep(ctx, settleTime/5) {
		ends, untold := a.report(ctx)
		lost += ends
		all, done := a.succession.Told(untold)
		if all && !told {
			told = true
			a.o.Log.Info("reported attempts to the new Redis primary", "after", clock.Since(begin))
		}
		if done {
			return lost
		}
	}
	return lost
}

// report tells Redis what has ended lately, and what runs here and in workers by HTTP. Runs that it could not tell of are told of by themselves later. It
// returns how many ends Redis had lost, and the addresses of the servers that could not be told something.
func (a *App) report(ctx context.Context) (lost int, untold map[string]bool) {
	lost, ended := a.store.Tasks.ReportAgain(ctx, a.succession.Last()) // meanwhile yet another one can have taken over
	var own, guests tasks.Failures
	var both sync.WaitGroup
	if a.worker != nil {
		both.Go(func() { own = a.worker.ExtendNow(ctx) })
	}
	if a.remote != nil {
		both.Go(func() { guests = a.remote.ExtendNow(ctx) })
	}
	both.Wait()
	untold = make(map[string]bool)
	for _, failed := range []tasks.Failures{ended, own, guests} {
		for partition, err := range failed {
			if isUntold(err) {
				untold[a.serverOf(ctx, partition)] = true
			}
		}
	}
	return lost, untold
}

// serverOf returns the address of the server of a partition, as far as the client knows that tells it what runs.
func (a *App) serverOf(ctx context.Context, partition int) string {
	_, address, _ := a.store.Vital.ServerOf(ctx, string(a.store.Keys.Partition(partition).States())) // which knows the servers: it has just asked them
	return address
}

// isUntold reports whether err shows that a primary could not be told: it did not answer, or is not ready. One that is full hears what nodes tell.
func isUntold(err error) bool {
	return redisx.Unanswered(err) || redisx.Passes(err) && !redisx.IsFull(err)
}

// noteReplicas says so if a failover can lose what Redis has acknowledged, or would leave a primary that refuses all writes.
func (a *App) noteReplicas(ctx context.Context) {
	if a.unhurried() {
		return
	}
	server, _, err := a.store.DB.ServerOf(ctx, string(a.store.Keys.Partition(0).States()))
	if err != nil {
		return
	}
	replication, err := redisx.ReadReplication(ctx, server)
	if err != nil {
		return
	}
	risk, why := replication.Risk()
	switch {
	case risk == redisx.RiskLoss && a.o.Config.Durability == (config.Durability{}):
		a.o.Log.Warn("a failover of Redis can lose tasks that were accepted, and run attempts and ticks twice: set --durability wait=1 or, unless Redis is a cluster, min-replicas-to-write 1 and min-replicas-max-lag 2 there",
			"replicas", replication.Replicas, "reason", why)
	case risk == redisx.RiskRefusalElsewhere:
		a.o.Log.Warn("after a failover Redis would refuse all writes: set min-replicas-to-write 0 in a cluster", "reason", why)
	}
}

// lossLog keeps a loss from being told once for each partition.
type lossLog struct {
	mu   sync.Mutex
	told time.Time
}

// noticeLoss logs and counts that Redis has lost writes of a partition, and evidence is one of them.
func (a *App) noticeLoss(partition int, l schedule.Loss, evidence string) {
	a.metrics.LostWrites.Inc()
	a.losses.mu.Lock()
	defer a.losses.mu.Unlock()
	if !a.losses.told.IsZero() && clock.Since(a.losses.told) < losingFor {
		return
	}
	a.losses.told = clock.Now()
	a.o.Log.Error("Redis has lost writes that it had acknowledged: tasks may be lost, and attempts and ticks may have run twice",
		"partition", partition, "from", l.From, "until", l.Until, "lost", evidence)
}
