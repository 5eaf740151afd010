package namespace_test

import (
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
		{Name: "acme", LastSubmittedAt: wire.At(clitest.Now.Add(-time.Hour))}, {Name: "default", LastSubmittedAt: wire.At(clitest.Now)},
	}})
	s.Pipe().Run(t, "namespace", "list").Expect(t, 0, "acme\t2026-01-02T14:04:05.000Z\ndefault\t2026-01-02T15:04:05.000Z\n", "")
}
