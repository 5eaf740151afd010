package control

import (
	"slices"
	"testing"

	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// One silent server of a cluster hides what it has, and nothing else.
func TestStatus_TellsOfTheOtherServers(t *testing.T) {
	t.Parallel()
	w := storetest.InCluster(t)
	lost := task.Ref{Namespace: "default", ID: "lost"}
	silent := w.ServerOf(lost)
	other := w.Elsewhere(silent, 1)[0]
	nodes := leading(0, nil, "default")
	nodes[0].Partitions = nil
	for p := range w.Layout.Partitions() {
		nodes[0].Partitions = append(nodes[0].Partitions, p)
	}
	c := New(Options{Store: w.Store, Nodes: nodes, Queues: queue.New(queue.Options{DB: w.DB})})
	due, err := w.Store.Now(w.Ctx, 0)
	testkit.Must(t, err)
	testkit.Must(t, w.DB.SAdd(w.Ctx, string(w.KeysOf(other).Backlog()), "mails").Err())
	waiting := z(float64(due.UnixMilli()-60_000), other.String())
	testkit.Must(t, w.DB.ZAdd(w.Ctx, string(w.KeysOf(other).Ready("mails")), waiting).Err())
	codes := func() (all []status.Code, redis status.Reason) {
		s := c.judge(w.Ctx, status.Status{}, situation{watched: true})
		for _, r := range s.Reasons {
			if all = append(all, r.Code); r.Kind == "redis" {
				redis = r
			}
		}
		return all, redis
	}

	silent.Pause()
	t.Cleanup(silent.Continue)
	_, _ = codes() // it notices the outage
	want := []status.Code{status.RedisSilent, status.QueueUnserved}
	got, r := codes()
	_, address, err := w.DB.ServerOf(w.Ctx, string(w.KeysOf(lost).States()))
	testkit.Must(t, err)
	if !slices.Equal(got, want) || r.ID != address || r.Since.IsZero() {
		t.Errorf("%v, %+v, want %v of server %s", got, r, want, address)
	}
	silent.Continue()
	testkit.Eventually(t, "all servers answer", func() bool {
		got, _ := codes()
		return slices.Equal(got, want[1:])
	})
}

// Each server of a cluster may refuse writes.
func TestStatus_TellsWhichServerRefusesWrites(t *testing.T) {
	t.Parallel()
	w := storetest.InCluster(t)
	ref := w.Elsewhere(w.Cluster.Primary(string(w.Keys.Partition(0).States())), 1)[0]
	c := New(Options{Store: w.Store, Nodes: leading(0, nil), Queues: queue.New(queue.Options{DB: w.DB})})
	w.ServerOf(ref).RefuseWrites()
	s := c.judge(w.Ctx, status.Status{}, situation{watched: true})
	i := slices.IndexFunc(s.Reasons, func(r status.Reason) bool { return r.Code == status.RedisReadOnly })
	_, address, err := w.DB.ServerOf(w.Ctx, string(w.KeysOf(ref).States()))
	if err != nil || i < 0 || s.Reasons[i].ID != address || s.Reasons[i].Since.IsZero() {
		t.Errorf("%+v, want the server %s", s.Reasons, address)
	}
}

func TestKeepTroubled_SeesSchedulesOfServersThatAnswer(t *testing.T) {
	t.Parallel()
	w := storetest.InCluster(t)
	common := w.Cluster.Primary(string(w.Keys.Partition(0).States())) // it has the status
	silent := w.ServerOf(w.Elsewhere(common, 1)[0])
	other := w.Elsewhere(silent, 1)[0]
	c := New(Options{Store: w.Store, Nodes: leading(0, nil, "default"), Queues: queue.New(queue.Options{DB: w.DB})})
	w.Put(daily(func(d *schedule.Definition) { d.Ref = other }))
	c.statuses.troubled.Read(w.Ctx, c.findTroubled)
	silent.Pause()
	t.Cleanup(silent.Continue)
	c.judge(w.Ctx, status.Status{}, situation{watched: true}) // it notices the outage
	testkit.Must(t, w.DB.HSet(w.Ctx, string(w.KeysOf(other).Schedule(other)), "failures", 2).Err())
	c.statuses.troubled.Read(w.Ctx, c.findTroubled)
	s := c.judge(w.Ctx, status.Status{}, situation{watched: true})
	if !slices.ContainsFunc(s.Reasons, func(r status.Reason) bool { return r.Code == status.Failing }) {
		_, err := c.statuses.troubled.Last()
		t.Errorf("the error is %v; reasons %+v, warnings %q", err, s.Reasons, s.Warnings)
	}
}
