package tasks_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// sent is how many bytes Redis has sent so far.
func sent(t *testing.T, w *storetest.World) int {
	t.Helper()
	return netBytes(t, w, "total_net_output_bytes")
}

func netBytes(t *testing.T, w *storetest.World, field string) int {
	t.Helper()
	info, err := w.DB.InfoMap(w.Ctx, "stats").Result()
	testkit.Must(t, err)
	n, err := strconv.Atoi(info["Stats"][field])
	testkit.Must(t, err)
	return n
}

// longPayload is the longest payload, of that letter.
func longPayload(letter string) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat(letter, task.PayloadLimit-2) + `"`)
}

// What asks Redis for the number of bytes makes it send some kB.
func TestRead_MovesNoPayloadForStateAttemptsAndLog(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Create(task.Definition{Ref: task.Ref{Namespace: "default", ID: "long"}, Payload: longPayload("x")}).Ref
	testkit.Must(t, w.Begin(ref).Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", "boom"))
	for name, read := range map[string]func() error{
		"state":    func() error { _, err := w.Tasks.State(w.Ctx, ref); return err },
		"attempts": func() error { _, err := w.Tasks.Attempts(w.Ctx, ref); return err },
		"log":      func() error { _, err := w.Tasks.Logs(w.Ctx, ref, tasks.LogQuery{Limit: 10}); return err },
	} {
		before := sent(t, w)
		testkit.Must(t, read())
		if n := sent(t, w) - before; n > task.PayloadLimit/8 {
			t.Errorf("%s: Redis sent %d bytes", name, n)
		}
	}
}

func TestAttempts_SayWhyTheyFailed(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Create(task.Definition{Ref: task.Ref{Namespace: "default", ID: "a"}}).Ref
	testkit.Must(t, w.Begin(ref).Reattempt(w.Ctx, 0, task.OutcomeFailed, "first"))
	run := w.Begin(ref)
	reasons := func() []string {
		attempts, err := w.Tasks.Attempts(w.Ctx, ref)
		testkit.Must(t, err)
		var all []string
		for _, a := range attempts {
			all = append(all, fmt.Sprint(a.Number, " ", a.Error))
		}
		return all
	}
	if diff := cmp.Diff([]string{"1 first", "2 "}, reasons()); diff != "" {
		t.Errorf("while the second runs (-want +got):\n%s", diff)
	}
	testkit.Must(t, run.Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", "second"))
	if diff := cmp.Diff([]string{"1 first", "2 second"}, reasons()); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
}

func TestRead_OfATaskThatDoesNotExist(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := task.Ref{Namespace: "default", ID: "nobody"}
	for name, read := range map[string]func(task.Ref) error{
		"task":     func(ref task.Ref) error { _, err := w.Tasks.Get(w.Ctx, ref); return err },
		"state":    func(ref task.Ref) error { _, err := w.Tasks.State(w.Ctx, ref); return err },
		"attempts": func(ref task.Ref) error { _, err := w.Tasks.Attempts(w.Ctx, ref); return err },
		"log":      func(ref task.Ref) error { _, err := w.Tasks.Logs(w.Ctx, ref, tasks.LogQuery{Limit: 10}); return err },
	} {
		if err := read(ref); task.CodeOf(err) != task.CodeTaskNotFound {
			t.Errorf("%s: %v, want %s", name, err, task.CodeTaskNotFound)
		}
		if err := read(task.Ref{Namespace: "default", ID: "no name"}); task.CodeOf(err) != task.CodeInvalid {
			t.Errorf("%s of an invalid name: %v, want %s", name, err, task.CodeInvalid)
		}
	}
}
