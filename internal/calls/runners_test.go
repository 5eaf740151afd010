package calls

import (
	"context"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

func TestRunners_StayForTheNextFunctions(t *testing.T) {
	t.Parallel()
	const limit = 8
	ctx, end := context.WithCancel(t.Context())
	r := NewRunners(ctx, limit)
	goOn, done := make(chan struct{}), make(chan struct{}, 2*limit)
	for range limit + 1 {
		r.Run(func() { <-goOn; done <- struct{}{} })
	}
	close(goOn)
	for range limit + 1 {
		testkit.Receive(t, done, "the end of a function")
	}
	testkit.Eventually(t, "some wait", func() bool { return r.idle.Load() == limit })
	others := make(chan int64, 1)
	r.Run(func() { others <- r.idle.Load() })
	if got := testkit.Receive(t, others, "one more"); got != limit-1 {
		t.Errorf("%d others wait, want %d: it has got a goroutine of its own", got, limit-1)
	}
	end()
}
