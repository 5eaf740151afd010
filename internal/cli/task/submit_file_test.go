package task_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestSubmitFile_TellsWhatBecameOfEachTask(t *testing.T) {
	s := clitest.Start(t)
	clitest.AcceptBatches(s)
	sh := s.Pipe()
	sh.Stdin = `{"type": "x", "id": "a"}

{"type": "bad"}
{"type": "x", "id": "c", "payload": {"p": "<&>"}}`
	sh.Run(t, "task", "submit", "--file", "-").Expect(t, 1,
		"1\ta\t201\t\n3\t\t400\ttype: is bad (invalid)\n4\tc\t201\t\n", "dtsctl: 1 of the tasks was refused\n")
	if got, want := s.Last().Body, `{"tasks":[{"type":"x","id":"a"},{"type":"bad"},{"type":"x","id":"c","payload":{"p":"<&>"}}]}`; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}

func TestSubmitFile_CutsManyTasksIntoBatches(t *testing.T) {
	s := clitest.Start(t)
	clitest.AcceptBatches(s)
	file := filepath.Join(t.TempDir(), "tasks.jsonl")
	testkit.Must(t, os.WriteFile(file, []byte(strings.Repeat(`{"type": "x", "id": "a"}`+"\n", 2001)), 0o600))
	got := s.Pipe().Run(t, "task", "submit", "-f", file, "-n", "ns")
	if got.Code != 0 || strings.Count(got.Out, "\n") != 2001 || !strings.HasSuffix(got.Out, "\n2001\ta\t201\t\n") {
		t.Errorf("code %d, %q, ends with %q", got.Code, got.Err, got.Out[max(0, len(got.Out)-50):])
	}
	if lines := s.Lines(); len(lines) != 3 || lines[2] != "POST /v1/tasks/batch?namespace=ns" {
		t.Errorf("asked %q", lines)
	}
}

func TestSubmitFile_StopsAtABatchThatIsRefused(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/tasks/batch", 400, clitest.Problem(400, client.Invalid, "tasks[1].type", "tasks[1].type: is missing"))
	sh := s.Pipe()
	sh.Stdin = "\n{\"type\": \"x\"}\n{\"type\": \"y\"}\n"
	sh.Run(t, "task", "submit", "-f", "-").Expect(t, 1, "",
		"dtsctl: the tasks from line 2 on (tasks[0] is that line): tasks[1].type: is missing (invalid)\n")
}

func TestSubmitFile_SendsNothingIfALineIsNotJSON(t *testing.T) {
	s := clitest.Start(t)
	sh := s.Pipe()
	sh.Stdin = "{\"type\": \"x\"}\n{nonsense\n"
	got := sh.Run(t, "task", "submit", "-f", "-")
	if got.Code != 2 || !strings.HasPrefix(got.Err, "dtsctl: --file: line 2 is not JSON\n") || len(s.Lines()) != 0 {
		t.Errorf("%+v after %q", got, s.Lines())
	}
}
