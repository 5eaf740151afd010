package dtstest

import (
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/testkit"
)

func newWatch() *watch { return &watch{working: map[*dts.Task]struct{}{}} }

func TestWatch_ReportsHandlersThatHoldTheClock(t *testing.T) {
	t.Parallel()
	w := newWatch()
	w.begin(&dts.Task{ID: "a", Type: "email.send"})
	w.begin(&dts.Task{ID: "b", Type: "email.send"})
	reports := make(chan string, 1)
	w.run(20*time.Millisecond, nil, func(message string) { reports <- message })
	message := testkit.Receive(t, reports, "a report")
	if !strings.Contains(message, "task a of type email.send, or that of task b of type email.send") || !strings.Contains(message, "for 20ms") {
		t.Error(message)
	}
}

func TestWatch_IsQuietWhileTheClockMovesOrNoHandlerWorks(t *testing.T) {
	t.Parallel()
	w := newWatch()
	lookOften := func(what string, move func()) {
		for range 3 * looks {
			if move(); w.look() != nil {
				t.Fatal(what)
			}
		}
	}
	lookOften("no handler has begun", func() {})
	end := w.begin(&dts.Task{})
	lookOften("the clock moves", func() { w.moves++ })
	lookOften("other handlers begin and end", func() { w.begin(&dts.Task{ID: "other"})() })
	end()
	lookOften("the handler has ended", func() {})
}
