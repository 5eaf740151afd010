package test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// While a worker has more to do in each queue than it can, its weights say how much of each it does.
func TestWeights_ShareAWorkerUnderOverload(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	const each = 500 // tasks of each queue
	weights := map[string]int{"critical": 6, "default": 3, "low": 1}
	redis, far := redistest.Start(t), newRecorder(t)
	api := startNode(t, redis.URL(), "--roles", "scheduler,api")
	for queue := range weights {
		tasks := make([]wire.Submission, each)
		for i := range tasks {
			tasks[i] = far.task(fmt.Sprintf("%s-%d", queue, i), "/ok?v="+queue)
			tasks[i].Queue = &queue
		}
		api.submit(tasks...)
	}
	startNode(t, redis.URL(), "--roles", "worker", "--concurrency", "4", "--queues", "critical=6,default=3,low=1")
	const counted, sum = 600, 10 // calls: the first queue of which nothing is left, critical, has some then
	await(t, time.Minute, "most tasks have run", func() bool { return far.count() >= counted })
	ran := map[string]int{}
	for _, call := range far.since(time.Time{})[:counted] {
		ran[call.version]++
	}
	t.Logf("of %d calls: %v", counted, ran)
	for queue, weight := range weights {
		if want := counted * weight / sum; ran[queue] < want*8/10 || ran[queue] > want*12/10 {
			t.Errorf("%d calls of %s, want about %d", ran[queue], queue, want)
		}
	}
	await(t, time.Minute, "the rest has run", api.idle)
	if n := len(api.all(wire.StateSucceeded)); n != len(weights)*each {
		t.Errorf("%d tasks have succeeded, want %d", n, len(weights)*each)
	}
}
