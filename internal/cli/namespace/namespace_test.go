package namespace_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestList_PrintsNamespaces(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/namespaces", 200, wire.NamespaceList{Namespaces: []wire.NamespaceEntry{
		{Name: "acme", LastSubmittedAt: wire.At(clitest.Now.Add(-time.Hour))},
		{Name: "default", LastSubmittedAt: wire.At(clitest.Now)},
	}})
	s.Pipe().Run(t, "namespace", "list").Expect(t, 0,
		"acme\t2026-01-02T14:04:05.000Z\ndefault\t2026-01-02T15:04:05.000Z\n", "")
}

func TestList_ShowsWhatNamespacesTake(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/namespaces", 200, wire.NamespaceList{Namespaces: []wire.NamespaceEntry{
		{Name: "acme", LastSubmittedAt: wire.At(clitest.Now)}, {Name: "small", LastSubmittedAt: wire.At(clitest.Now)},
	}})
	report := wire.MemoryReport{
		Kinds: []wire.MemoryOfKind{}, Schedules: []wire.MemoryOfSchedule{},
		Namespaces: []wire.MemoryOfNamespace{{Name: "acme", Tasks: 4, TaskBytes: 2000, Schedules: 1, ScheduleBytes: 500}},
	}
	s.On("GET /v1/memory", 200, report)
	const at = "2026-01-02T15:04:05.000Z"
	s.Pipe().Run(t, "namespace", "list", "--memory").Expect(t, 0,
		"acme\t"+at+"\t4\t1\t2500\nsmall\t"+at+"\t\t\t\n", "")
	var got struct {
		Namespaces []struct {
			Name            string
			LastSubmittedAt string `json:"last_submitted_at"`
			Memory          *wire.MemoryOfNamespace
		}
	}
	asJSON := s.Pipe().Run(t, "namespace", "list", "--memory", "-o", "json").Out
	testkit.Must(t, json.Unmarshal([]byte(asJSON), &got))
	n := got.Namespaces
	if len(n) != 2 || n[0].LastSubmittedAt != at || *n[0].Memory != report.Namespaces[0] || n[1].Memory != nil {
		t.Errorf("got %s", asJSON)
	}
}

func TestList_SaysWhyItDoesNotKnowWhatNamespacesTake(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/namespaces", 200, wire.NamespaceList{Namespaces: []wire.NamespaceEntry{
		{Name: "acme", LastSubmittedAt: wire.At(clitest.Now)},
	}})
	s.On("GET /v1/memory", 200, wire.MemoryReport{
		Unknown: new("an embedded Redis does not measure its keys"), Kinds: []wire.MemoryOfKind{},
		Namespaces: []wire.MemoryOfNamespace{}, Schedules: []wire.MemoryOfSchedule{},
	})
	s.Pipe().Run(t, "namespace", "list", "--memory").Expect(t, 0, "acme\t2026-01-02T15:04:05.000Z\t\t\t\n",
		"What they take is not known: an embedded Redis does not measure its keys\n")
}
