package task_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestSubmitFile_TellsWhatBecameOfEachTask(t *testing.T) {
	s := clitest.Start(t)
	clitest.AcceptBatches(s)
	sh := s.Pipe()
	sh.Stdin = `{"type": "x", "id": "a"}

{"type": "bad"}
{"type": "x", "id": "c", "payload": {"p": "<&>"}}
{nonsense
["type"]
null
{"type": "x", "id": "h"}`
	sh.Run(t, "task", "submit", "--file", "-").Expect(t, 1, `1	a	201	
3		400	type: is bad (invalid)
4	c	201	
5		400	is not JSON: invalid character 'n' looking for beginning of object key string (invalid)
6		400	is not a JSON object (invalid)
7		400	is not a JSON object (invalid)
8	h	201	
`, `dtsctl: line 3: type: is bad (invalid)
dtsctl: line 5: is not JSON: invalid character 'n' looking for beginning of object key string (invalid)
dtsctl: line 6: is not a JSON object (invalid)
dtsctl: line 7: is not a JSON object (invalid)
3 of 7 tasks were accepted, 4 refused
`)
	if got, want := s.Last().Body, `{"tasks":[{"type":"x","id":"a"},{"type":"bad"},{"type":"x","id":"c","payload":{"p":"<&>"}},{"type":"x","id":"h"}]}`; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}

func TestSubmitFile_TellsPeopleWhatWasRefused(t *testing.T) {
	s := clitest.Start(t)
	clitest.AcceptBatches(s)
	sh := s.Terminal()
	sh.Stdin = `{"type": "x", "id": "a"}` + "\n" + `{"type": "bad"}`
	got := sh.Run(t, "task", "submit", "-f", "-")
	if got.Code != 1 || got.Out != "" || !strings.Contains(got.Err, "dtsctl: line 2: type: is bad (invalid)\n") ||
		!strings.HasSuffix(got.Err, "1 of 2 tasks were accepted, 1 refused\n") {
		t.Errorf("%+v", got)
	}
}

func TestSubmitFile_GivesProgramsAResultForEachLine(t *testing.T) {
	s := clitest.Start(t)
	clitest.AcceptBatches(s)
	sh := s.Pipe()
	sh.Stdin = `{"type": "x", "id": "a"}` + "\n{\n"
	got := sh.Run(t, "task", "submit", "-f", "-", "-o", "json")
	var answer wire.BatchAnswer
	testkit.Must(t, json.Unmarshal([]byte(got.Out), &answer))
	if got.Code != 1 || len(answer.Results) != 2 || answer.Results[0].Task.ID != "a" || answer.Results[1].Status != 400 ||
		!strings.HasPrefix(answer.Results[1].Error.Detail, "is not JSON") {
		t.Errorf("%+v", got)
	}
}

func TestSubmitFile_NamesTheFirstOfManyRefusedLines(t *testing.T) {
	s := clitest.Start(t)
	clitest.AcceptBatches(s)
	sh := s.Pipe()
	sh.Stdin = strings.Repeat(`{"type": "bad"}`+"\n", 50)
	got := sh.Run(t, "task", "submit", "-f", "-")
	if n := strings.Count(got.Err, "dtsctl: line "); n != 20 || !strings.HasSuffix(got.Err, "30 more lines were refused: the output says why\n0 of 50 tasks were accepted, 50 refused\n") {
		t.Errorf("%d lines named, %q", n, got.Err)
	}
}

func TestSubmitFile_GoesOnAfterALineThatIsTooLong(t *testing.T) {
	s := clitest.Start(t)
	clitest.AcceptBatches(s)
	sh := s.Pipe()
	sh.Stdin = `{"type": "x", "id": "` + strings.Repeat("y", 3<<20) + "\"}\n" + `{"type": "x", "id": "b"}`
	sh.Run(t, "task", "submit", "-f", "-").Expect(t, 1, "1\t\t400\tis longer than 1048576 bytes (invalid)\n2\tb\t201\t\n",
		"dtsctl: line 1: is longer than 1048576 bytes (invalid)\n1 of 2 tasks were accepted, 1 refused\n")
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

func TestSubmitFile_SaysWhatWasAcceptedBeforeAFailure(t *testing.T) {
	s := clitest.Start(t)
	batches := 0
	accept := clitest.BatchHandler(s)
	s.Handle("POST /v1/tasks/batch", func(w http.ResponseWriter, r *http.Request) {
		if batches++; batches == 2 {
			s.Reply(w, 503, clitest.Problem(503, wire.Unavailable, "", "Redis is nearly full"))
			return
		}
		accept(w, r)
	})
	sh := s.Pipe()
	sh.Stdin = strings.Repeat(`{"type": "x", "id": "a"}`+"\n", 1500)
	got := sh.Run(t, "task", "submit", "-f", "-")
	want := "1000 of 1000 tasks were accepted\ndtsctl: line 1001 and those after it: Redis is nearly full (unavailable)\n"
	if got.Code != 1 || got.Err != want || strings.Count(got.Out, "\n") != 1000 {
		t.Errorf("code %d, %q, want %q; %d lines", got.Code, got.Err, want, strings.Count(got.Out, "\n"))
	}
}

func TestSubmitFile_SendsNothingThatIsNoTask(t *testing.T) {
	s := clitest.Start(t)
	sh := s.Pipe()
	sh.Stdin = "{nonsense\n"
	got := sh.Run(t, "task", "submit", "-f", "-")
	if got.Code != 1 || !strings.HasPrefix(got.Err, "dtsctl: line 1: is not JSON") || len(s.Lines()) != 0 {
		t.Errorf("%+v after %q", got, s.Lines())
	}
	sh.Run(t, "task", "submit", "-f", "there-is-none").Expect(t, 2, "", "dtsctl: --file: open there-is-none: no such file or directory\nRun 'dtsctl task submit --help' for what it takes.\n")
}

// Editors of Windows put one in front of a text.
func TestSubmit_PassesOverAByteOrderMark(t *testing.T) {
	s := clitest.Start(t)
	clitest.AcceptBatches(s)
	s.On("POST /v1/tasks", http.StatusCreated, clitest.Task("a", wire.StateScheduled))
	sh := s.Pipe()
	sh.Stdin = "\ufeff" + `{"type":"x","id":"a"}`
	sh.Run(t, "task", "submit", "-f", "-").Expect(t, 0, "1\ta\t201\t\n", "1 of 1 tasks were accepted\n")
	sh.Run(t, "task", "submit", "--type", "x", "--payload", "@-").Expect(t, 0, "a\n", "")
	sh.Run(t, "task", "grpc", "h:1", "b.C/D", "--data", "@-").Expect(t, 0, "a\n", "")
}
