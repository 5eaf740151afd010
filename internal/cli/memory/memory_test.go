package memory_test

import (
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestMemory_PrintsALineForEachThing(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/memory", 200, wire.MemoryReport{
		Used: new(int64(5000)), Keys: new(int64(7)),
		Kinds:      []wire.MemoryOfKind{{Kind: "waiting", Bytes: 3000}},
		Namespaces: []wire.MemoryOfNamespace{{Name: "acme", Tasks: 4, TaskBytes: 2000, Schedules: 1, ScheduleBytes: 500}},
		Schedules: []wire.MemoryOfSchedule{{
			ID: "nightly", Namespace: "acme", Bytes: 900, OwnBytes: 300, HistoryBytes: 150, LedgerBytes: 50, TaskBytes: 400,
		}},
	})
	s.Pipe().Run(t, "memory").Expect(t, 0, "kind\t\twaiting\t3000\t\n"+
		"namespace\tacme\t\t2500\ttasks 4: 2000, schedules 1: 500\n"+
		"schedule\tacme\tnightly\t900\town 300, history 150, ledger 50, tasks 400\n", "")
	if got := s.Terminal().Run(t, "memory").Out; !strings.Contains(got, "2.4 KiB  tasks 4: 2 KiB, schedules 1: 500 B") {
		t.Errorf("got\n%s", got)
	}
}

func TestMemory_SaysWhyNothingIsKnown(t *testing.T) {
	s := clitest.Start(t)
	why := "an embedded Redis does not measure its keys"
	s.On("GET /v1/memory", 200, wire.MemoryReport{
		Unknown: &why, Kinds: []wire.MemoryOfKind{}, Namespaces: []wire.MemoryOfNamespace{},
		Schedules: []wire.MemoryOfSchedule{},
	})
	s.Pipe().Run(t, "memory").Expect(t, 0, "", "Nothing is known: "+why+"\n")
}
