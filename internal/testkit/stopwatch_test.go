package testkit

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestStopwatch_MeasuresTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := StartStopwatch(t)
		<-time.After(time.Minute)
		if got, lost := w.Elapsed(), w.Lost(); got != time.Minute || lost != 0 {
			t.Errorf("after a minute, it has run for %s, and lost %s", got, lost)
		}
	})
}

func TestStopwatch_LeavesOutWhenItWaitedForAProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w := &Stopwatch{start: start, begin: start}
		next := func(took time.Duration) { <-time.After(took); w.step(time.Now()) }
		next(stride + timerSlip)
		next(stride + time.Minute)
		next(stride)
		<-time.After(stride + time.Hour) // it has not woken up yet
		if got, want := w.Elapsed(), 4*stride+timerSlip; got != want {
			t.Errorf("it has run for %s, want %s", got, want)
		}
		if got, want := w.Lost(), time.Minute+time.Hour; got != want {
			t.Errorf("it has lost %s, want %s", got, want)
		}
	})
}
