package queue

import (
	"context"
	"fmt"
	"testing"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// Queues are on all servers of a cluster. The metrics show those that can be read.
func TestList_HasTheQueuesOfOtherServersWhileOneIsSilent(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.NoFailover())
	db := redistest.Open(t, cluster.URL())
	queues := New(Options{DB: db})
	silent := cluster.Other(string(lua.AsynqQueues)) // which names all queues
	var want []string
	for i := range 10 {
		d := aDelivery(fmt.Sprint(i))
		d.Queue = fmt.Sprint("queue", i)
		testkit.Must(t, queues.HandOver(t.Context(), []task.Delivery{d}, nil).Failure())
		if cluster.Primary(string(lua.AsynqQueue(d.Queue).Pending())) != silent {
			want = append(want, d.Queue)
		}
	}
	if len(want) == 0 || len(want) == 10 {
		t.Fatalf("the silent server has %d queues of 10", 10-len(want))
	}

	silent.Pause()
	t.Cleanup(silent.Continue)
	ctx, cancel := context.WithTimeout(t.Context(), collectTimeout)
	defer cancel()
	infos, err := queues.List(ctx)
	var got []string
	for _, i := range infos {
		got = append(got, i.Name)
		if i.Size != 1 || i.Pending != 1 {
			t.Errorf("%+v", i)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || task.CodeOf(err) != task.CodeUnavailable {
		t.Errorf("it has %v, %v, want %v and an error", got, err, want)
	}
}
