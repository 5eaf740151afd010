package task_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/cli/printer"
)

func TestCancel_TriesAllTasks(t *testing.T) {
	s := clitest.Start(t)
	s.Handle("DELETE /v1/tasks/{id}", func(w http.ResponseWriter, r *http.Request) {
		switch id := r.PathValue("id"); id {
		case "done":
			s.Reply(w, 409, clitest.Problem(409, wire.TaskFinished, "", "the task has already ended"))
		case "runs":
			s.Reply(w, 200, clitest.Task(id, wire.StateRunning, func(t *wire.Task) { t.CancelRequestedAt = new(wire.At(clitest.Now)) }))
		default:
			s.Reply(w, 200, clitest.Task(id, wire.StateCancelled))
		}
	})
	args := []string{"task", "cancel", "a", "done", "runs"}
	s.Pipe().Run(t, args...).Expect(t, 1, "a\tcancelled\nruns\trunning\n", "dtsctl: done: the task has already ended (task_finished)\n")
	s.Terminal().Run(t, args...).Expect(t, 1, "a "+printer.Yellow+"cancelled"+printer.Reset+"\nruns "+printer.Cyan+"running"+printer.Reset+" asked to stop\n",
		"dtsctl: done: the task has already ended (task_finished)\n")
	s.Pipe().Run(t, "task", "cancel", "a", "b").Expect(t, 0, "a\tcancelled\nb\tcancelled\n", "")
	s.Pipe().Run(t, "task", "cancel", "a", "--note", "not wanted").Expect(t, 0, "a\tcancelled\n", "")
	if got := s.Last().Line; got != "DELETE /v1/tasks/a?note=not+wanted" {
		t.Error(got)
	}
	s.Pipe().Run(t, "task", "cancel", "done").Expect(t, 1, "", "dtsctl: the task has already ended (task_finished)\n")
}

func TestMove_AsksRunningTasks(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/tasks/{id}/move", 200, clitest.Task("a", wire.StateRunning, func(t *wire.Task) { t.MoveRequestedAt = new(wire.At(clitest.Now)) }))
	s.Pipe().Run(t, "task", "move", "a", "-n", "x").Expect(t, 0, "a\trunning\n", "")
	if got := s.Last().Line; got != "POST /v1/tasks/a/move?namespace=x" {
		t.Error(got)
	}
	s.Terminal().Run(t, "task", "move", "a").Expect(t, 0, "a "+printer.Cyan+"running"+printer.Reset+" asked to move\n", "")
}

func TestRetry_MakesTasksDueAgain(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/tasks/{id}/retry", 200, clitest.Task("a", wire.StateScheduled, func(t *wire.Task) { t.RunAt = wire.At(clitest.Now) }))
	s.Pipe().Run(t, "task", "retry", "a", "-n", "x").Expect(t, 0, "a\tscheduled\n", "")
	if got := s.Last().Line; got != "POST /v1/tasks/a/retry?namespace=x" {
		t.Error(got)
	}
	s.Terminal().Run(t, "task", "retry", "a").Expect(t, 0, "a scheduled due now\n", "")
}

func TestChange_SendsWhatIsToChange(t *testing.T) {
	s := clitest.Start(t)
	s.On("PATCH /v1/tasks/{id}", 200, clitest.Task("a", wire.StateScheduled))
	for want, args := range map[string][]string{
		`{"delay":"1h0m0s"}`:                    {"--delay", "1h"},
		`{"delay":"0s"}`:                        {"--delay", "0"},
		`{"run_at":"2026-02-03T03:05:00.000Z"}`: {"--at", "2026-02-03 04:05"},
		`{"payload":{"a":1},"queue":"q"}`:       {"--queue", "q", "--payload", `{"a": 1}`},
		`{"payload":null}`:                      {"--payload", "null"},
		`{"priority":9}`:                        {"--priority", "9"},
		`{"priority":0}`:                        {"--priority", "0"},
		`{"fair_key":""}`:                       {"--fair-key", ""},
		`{"fair_key":"k","fair_weight":3}`:      {"--fair-key", "k", "--fair-weight", "3"},
		`{"limit_key":"b,a"}`:                   {"--limit-key", "b,a"},
		`{"limit_key":""}`:                      {"--limit-key", ""},
		`{"cost":1}`:                            {"--cost", "1"},
		`{"slots":1}`:                           {"--slots", "1"},
		`{"select":"gpu"}`:                      {"--select", "gpu"},
		`{"select":""}`:                         {"--select", ""},
		`{"prefer":[]}`:                         {"--prefer", ""},
		`{"route":{}}`:                          {"--route", ""},
		`{"route":{"by":"any"}}`:                {"--route", "any"},
		`{"prefer":[{"select":"zone=eu","weight":10},{"select":"gpu","weight":1}],"route":{"by":"round"}}`: {
			"--prefer", "10:zone=eu", "--prefer", "gpu", "--route", "round",
		},
	} {
		s.Pipe().Run(t, append([]string{"task", "change", "a"}, args...)...).Expect(t, 0, "a\tscheduled\n", "")
		if got := s.Last(); got.Body != want || got.Line != "PATCH /v1/tasks/a" {
			t.Errorf("sent %s %s, want %s", got.Line, got.Body, want)
		}
	}
}

func TestChange_IsCalledUpdateToo(t *testing.T) {
	s := clitest.Start(t)
	s.On("PATCH /v1/tasks/{id}", 200, clitest.Task("a", wire.StateScheduled))
	s.Pipe().Run(t, "task", "update", "a", "--delay", "1s").Expect(t, 0, "a\tscheduled\n", "")
	if got := s.Pipe().Run(t, "task", "change", "--help").Out; !strings.Contains(got, "change, update") {
		t.Errorf("the help does not name the alias:\n%s", got)
	}
}
