package layout

import (
	"testing"
	"testing/synctest"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

func TestMemory_IsReadOnceInItsLifetime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var m memory
		reads := 0
		read := func() float64 { reads++; return float64(reads) }
		for range 3 {
			if got := m.inUse(read); got != 1 {
				t.Errorf("got %v", got)
			}
		}
		testkit.Must(t, clock.Sleep(t.Context(), memoryLifetime+1))
		if got := m.inUse(read); got != 2 {
			t.Errorf("after its lifetime it is %v", got)
		}
	})
}

// Redis may take long to answer. Whoever asks meanwhile goes by what was known.
func TestMemory_IsReadByOneCallerAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var m memory
		if got := m.inUse(func() float64 { return 0.3 }); got != 0.3 {
			t.Errorf("got %v", got)
		}
		testkit.Must(t, clock.Sleep(t.Context(), memoryLifetime+1))
		answer, got := make(chan float64), make(chan float64)
		go func() { got <- m.inUse(func() float64 { return <-answer }) }()
		synctest.Wait()
		if got := m.inUse(nil); got != 0.3 {
			t.Errorf("meanwhile it is %v", got)
		}
		answer <- 0.4
		if got := <-got; got != 0.4 {
			t.Errorf("the answer was %v", got)
		}
	})
}

func TestMemoryInUse_IsTheShareOfTheLimit(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	db := srv.DB(t)
	inUse := func() float64 { return (&Layout{DB: db, Keys: lua.NewKeyspace("", 0)}).MemoryInUse(t.Context(), 0) }
	if got := inUse(); got != 0 {
		t.Errorf("without a limit it is %v", got)
	}
	testkit.Must(t, db.ConfigSet(t.Context(), "maxmemory", "100mb").Err())
	if got := inUse(); got <= 0 || got > 0.5 {
		t.Errorf("of 100 MB an empty Redis uses %v", got)
	}
	testkit.Must(t, db.ConfigSet(t.Context(), "maxmemory", "1").Err())
	if got := inUse(); got < 1 {
		t.Errorf("of a byte it uses %v", got)
	}
	srv.Kill()
	if got := inUse(); got != 0 {
		t.Errorf("without an answer it is %v", got)
	}
}
