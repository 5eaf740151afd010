package cli

import (
	"net/http"
	"testing"

	"github.com/dts-sched/dts/internal/api/client"
)

func TestCancelTriesAllTasks(t *testing.T) {
	s := startStub(t)
	s.mux.HandleFunc("DELETE /v1/tasks/{id}", func(w http.ResponseWriter, r *http.Request) {
		switch id := r.PathValue("id"); id {
		case "done":
			s.reply(w, 409, problem(409, client.TaskFinished, "", "the task has already ended"))
		case "runs":
			s.reply(w, 200, aTask(id, client.StateRunning, func(t *client.Task) { t.CancelRequestedAt = &now }))
		default:
			s.reply(w, 200, aTask(id, client.StateCancelled))
		}
	})
	args := []string{"task", "cancel", "a", "done", "runs"}
	s.pipe().run(t, args...).expect(t, 1, "a\tcancelled\nruns\trunning\n", "dtsctl: done: the task has already ended (task_finished)\n")
	s.terminal().run(t, args...).expect(t, 1, "a "+yellow+"cancelled"+reset+"\nruns "+cyan+"running"+reset+" asked to stop\n",
		"dtsctl: done: the task has already ended (task_finished)\n")
	s.pipe().run(t, "task", "cancel", "a", "b").expect(t, 0, "a\tcancelled\nb\tcancelled\n", "")
	s.pipe().run(t, "task", "cancel", "done").expect(t, 1, "", "dtsctl: the task has already ended (task_finished)\n")
}

func TestRetry(t *testing.T) {
	s := startStub(t)
	s.on("POST /v1/tasks/{id}/retry", 200, aTask("a", client.StateScheduled, func(t *client.Task) { t.RunAt = now }))
	s.pipe().run(t, "task", "retry", "a", "-n", "x").expect(t, 0, "a\tscheduled\n", "")
	if got := s.last().line; got != "POST /v1/tasks/a/retry?namespace=x" {
		t.Error(got)
	}
	s.terminal().run(t, "task", "retry", "a").expect(t, 0, "a scheduled due now\n", "")
}

func TestUpdateSendsWhatIsToChange(t *testing.T) {
	s := startStub(t)
	s.on("PATCH /v1/tasks/{id}", 200, aTask("a", client.StateScheduled))
	for want, args := range map[string][]string{
		`{"delay":"1h0m0s"}`:                {"--delay", "1h"},
		`{"delay":"0s"}`:                    {"--delay", "0"},
		`{"run_at":"2026-02-03T03:05:00Z"}`: {"--at", "2026-02-03 04:05"},
		`{"payload":{"a":1},"queue":"q"}`:   {"--queue", "q", "--payload", `{"a": 1}`},
		`{"payload":null}`:                  {"--payload", "null"},
	} {
		s.pipe().run(t, append([]string{"task", "update", "a"}, args...)...).expect(t, 0, "a\tscheduled\n", "")
		if got := s.last(); got.body != want || got.line != "PATCH /v1/tasks/a" {
			t.Errorf("sent %s %s, want %s", got.line, got.body, want)
		}
	}
}

func TestQueuesArePausedAndResumed(t *testing.T) {
	s := startStub(t)
	s.on("POST /v1/queues/{queue}/pause", 204, nil)
	s.on("POST /v1/queues/{queue}/resume", 404, problem(404, client.QueueNotFound, "", "no queue low"))
	s.pipe().run(t, "queue", "pause", "low").expect(t, 0, "", "")
	s.terminal().run(t, "queue", "pause", "low").expect(t, 0, "low paused\n", "")
	s.terminal().run(t, "queue", "pause", "low", "-o", "json").expect(t, 0, "", "")
	s.pipe().run(t, "queue", "resume", "low").expect(t, 1, "", "dtsctl: no queue low (queue_not_found)\n")
}
