package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/client"
)

// acceptBatches answers every batch, and refuses tasks of the type "bad".
func acceptBatches(s *stub) {
	s.mux.HandleFunc("POST /v1/tasks/batch", func(w http.ResponseWriter, r *http.Request) {
		var b client.SubmissionBatch
		must(s.t, json.NewDecoder(r.Body).Decode(&b))
		var a client.BatchAnswer
		for _, sub := range b.Tasks {
			if sub.Type == "bad" {
				p := problem(400, client.Invalid, "type", "type: is bad")
				a.Results = append(a.Results, client.BatchResult{Status: 400, Error: &p})
				continue
			}
			t := aTask(*sub.ID, client.StateScheduled)
			a.Results = append(a.Results, client.BatchResult{Status: 201, Task: &t})
		}
		s.reply(w, 200, a)
	})
}

func TestSubmitFileTellsWhatBecameOfEachTask(t *testing.T) {
	s := startStub(t)
	acceptBatches(s)
	sh := s.pipe()
	sh.stdin = `{"type": "x", "id": "a"}

{"type": "bad"}
{"type": "x", "id": "c", "payload": {"p": "<&>"}}`
	sh.run(t, "task", "submit", "--file", "-").expect(t, 1,
		"1\ta\t201\t\n3\t\t400\ttype: is bad (invalid)\n4\tc\t201\t\n", "dtsctl: 1 of the tasks was refused\n")
	if got, want := s.last().body, `{"tasks":[{"type":"x","id":"a"},{"type":"bad"},{"type":"x","id":"c","payload":{"p":"<&>"}}]}`; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}

func TestSubmitFileCutsManyTasksIntoBatches(t *testing.T) {
	s := startStub(t)
	acceptBatches(s)
	file := filepath.Join(t.TempDir(), "tasks.jsonl")
	must(t, os.WriteFile(file, []byte(strings.Repeat(`{"type": "x", "id": "a"}`+"\n", 2001)), 0o600))
	got := s.pipe().run(t, "task", "submit", "-f", file, "-n", "ns")
	if got.code != 0 || strings.Count(got.out, "\n") != 2001 || !strings.HasSuffix(got.out, "\n2001\ta\t201\t\n") {
		t.Errorf("code %d, %q, ends with %q", got.code, got.err, got.out[max(0, len(got.out)-50):])
	}
	if lines := s.lines(); len(lines) != 3 || lines[2] != "POST /v1/tasks/batch?namespace=ns" {
		t.Errorf("asked %q", lines)
	}
}

func TestSubmitFileStopsWhereABatchIsRefused(t *testing.T) {
	s := startStub(t)
	s.on("POST /v1/tasks/batch", 400, problem(400, client.Invalid, "tasks[1].type", "tasks[1].type: is missing"))
	sh := s.pipe()
	sh.stdin = "\n{\"type\": \"x\"}\n{\"type\": \"y\"}\n"
	sh.run(t, "task", "submit", "-f", "-").expect(t, 1, "",
		"dtsctl: the tasks from line 2 on (tasks[0] is that line): tasks[1].type: is missing (invalid)\n")
}

func TestSubmitFileSendsNothingOfALineThatIsNotJSON(t *testing.T) {
	s := startStub(t)
	sh := s.pipe()
	sh.stdin = "{\"type\": \"x\"}\n{nonsense\n"
	got := sh.run(t, "task", "submit", "-f", "-")
	if got.code != 2 || !strings.HasPrefix(got.err, "dtsctl: --file: line 2 is not JSON\n") || len(s.lines()) != 0 {
		t.Errorf("%+v after %q", got, s.lines())
	}
}
