package flow_test

import (
	"encoding/json"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
)

func stored(namespace, id, definition string) wire.Workflow {
	return wire.Workflow{
		Namespace: namespace, ID: id, Revision: 3, Definition: json.RawMessage(definition),
		CreatedAt: wire.At(clitest.Now), UpdatedAt: wire.At(clitest.Now), UpdatedBy: new("me"),
	}
}

func TestExport_WritesWhatApplyTakes(t *testing.T) {
	s := clitest.Start(t)
	load := stored("default", "load",
		`{"labels":{"v":"1.10"},"steps":[{"id":"a","task":{"type":"noop","timeout":"5m"}},`+
			`{"id":"b","wait":{"signal":"b","timeout":"1h"}}]}`)
	s.On("GET /v1/workflows", 200, wire.WorkflowList{Workflows: []wire.Workflow{
		stored("x", "b", `{"steps":[{"id":"a","task":{"type":"noop"}}]}`), load,
	}})
	s.On("GET /v1/workflows/{id}", 200, load)
	s.Pipe().Run(t, "flow", "export", "load").Expect(t, 0, `---
workflows:
  - id: load
    labels:
      v: "1.10"
    steps:
      - id: a
        task:
          type: noop
          timeout: 5m
      - id: b
        wait:
          signal: b
          timeout: 1h
`, "")
	s.Pipe().Run(t, "flow", "export", "-A", "-o", "json").Expect(t, 0, `{"workflows":[`+
		`{"id":"load","namespace":"default","labels":{"v":"1.10"},`+
		`"steps":[{"id":"a","task":{"type":"noop","timeout":"5m"}},{"id":"b","wait":{"signal":"b","timeout":"1h"}}]},`+
		`{"id":"b","namespace":"x","steps":[{"id":"a","task":{"type":"noop"}}]}]}`+"\n", "")
	if line := s.Last().Line; line != "GET /v1/workflows?namespace=%2A&limit=500" {
		t.Errorf("it has asked for %s", line)
	}
	s = clitest.Start(t)
	s.On("GET /v1/workflows", 200, wire.WorkflowList{
		Workflows: []wire.Workflow{}, Warnings: []string{"workflow default:lost cannot be read"},
	})
	s.Pipe().Run(t, "-n", "x", "flow", "export", "--prefix", "p").Expect(t, 1, "---\nnamespace: x\nworkflows: []\n",
		"warning: workflow default:lost cannot be read\n")
	got := s.Pipe().Run(t, "flow", "export", "load", "-A")
	if got.Code != 2 {
		t.Errorf("ids and -A: %+v", got)
	}
}
