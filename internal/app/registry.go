package app

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
)

// buildRegistry builds what keeps the entry of this node in the registry.
func (a *App) buildRegistry() error {
	meter, err := cluster.NewMeter()
	if err != nil {
		return fmt.Errorf("measuring this process: %w", err)
	}
	a.metrics.Registry.MustRegister(machineCollector{&a.machine})
	started := clock.Now()
	a.registry = cluster.New(cluster.Options{
		DB: a.store.Vital, Key: a.store.Keys.Nodes(), Channel: a.store.Keys.Members(), ID: a.node, Beat: a.o.Config.Heartbeat,
		Log: a.o.Log, Self: func() cluster.Node { return a.describe(meter, started) }, Guests: a.guests,
		Rejoined: a.rejoin, WentBack: a.wentBack, Cordons: a.store.Keys.Cordons(), Seen: a.noteCordons,
	})
	return nil
}

// noteCordons keeps the workers of this node from taking tasks while it is cordoned, and asks what runs to move if it
// is drained. It keeps each worker by HTTP from taking tasks that is cordoned itself. The next heartbeat confirms that.
func (a *App) noteCordons(v cluster.View) {
	cordon := v.CordonOf(a.node, a.name())
	since := cordon.SinceMS()
	if a.worker != nil {
		a.worker.SetCordoned(since != 0)
		a.worker.SetMoving(cordon.IsDrain())
	}
	changed := a.obeys.Swap(since) != since
	if a.remote != nil {
		changed = a.remote.NoteCordons(v) || changed
	}
	if changed {
		a.registry.BeatNow()
	}
}

// describe is the entry of this node in the registry.
func (a *App) describe(meter *cluster.Meter, started time.Time) cluster.Node {
	usage, _ := meter.Read() // figures of the process that cannot be read are 0
	a.machine.Store(usage.Machine)
	n := cluster.Node{
		Name: a.name(), Host: cluster.Host(), Labels: a.o.Config.Labels, Machine: usage.Machine,
		IP: cmp.Or(a.o.Config.NodeIP, cluster.IP()), Version: a.o.Version, Roles: a.o.Config.Roles,
		Layouts: a.store.Serves(), NotesRows: true, StartedAt: started, CPU: usage.CPU, Memory: usage.Memory,
		PID:    os.Getpid(),
		Queues: map[string]int{}, Partitions: []int{},
	}
	if a.listener != nil {
		n.Listens = a.listens()
	}
	n.Obeys = a.obeys.Load()
	if a.worker != nil {
		n.Capacity, n.Running, n.Types = a.o.Config.Concurrency, a.worker.Running(), a.runs
		n.Tasks = a.worker.Tasks()
		n.Placed, n.Response = a.worker.Placed(), float64(a.worker.Response().Microseconds())/1000
		if held, is := a.worker.Cordoned(); is {
			n.Tasks = held
		} else {
			n.Obeys = 0
		}
		pools := a.o.Config.AllPools()
		if len(pools) > 1 {
			n.Largest = make(map[string]int)
		}
		for _, p := range pools {
			for name, weight := range p.Queues {
				n.Queues[name] = max(n.Queues[name], weight)
				if len(pools) > 1 {
					n.Largest[name] = max(n.Largest[name], p.Concurrency)
				}
			}
		}
	}
	if a.scheduler != nil {
		n.Partitions = a.scheduler.Led()
	}
	return n
}

// guests are the workers by HTTP that talk to this node.
func (a *App) guests() []cluster.Node {
	if a.remote == nil {
		return nil
	}
	return a.remote.Guests()
}
