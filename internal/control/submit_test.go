package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestSubmitEach_RefusesOnlyTheInvalidOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	defs := []task.Definition{
		{Ref: task.Ref{ID: "good"}, Type: "http"},
		{Ref: task.Ref{ID: "not good"}, Type: "http"},
		{Type: "http"},
		{Ref: task.Ref{ID: "good"}, Type: "shell"},
	}
	got := w.submit(defs)
	if got[0].Err != nil || got[2].Err != nil || got[2].Task.ID == "" {
		t.Errorf("good ones: %v, %v", got[0].Err, got[2].Err)
	}
	var bad *task.Error
	if !errors.As(got[1].Err, &bad) || bad.Field != "id" {
		t.Errorf("bad id: %v", got[1].Err)
	}
	if task.CodeOf(got[3].Err) != task.CodeTaskConflict {
		t.Errorf("same id twice in a batch: %v", got[3].Err)
	}
}

func TestSubmit_UsesTheNamespaceOfTheCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := Caller{Namespace: "acme"}
	made, err := w.Submit(w.ctx, acme, task.Definition{Ref: task.Ref{ID: "a"}, Type: "http"})
	if err != nil || made.Task.Ref != acme.Ref("a") {
		t.Fatalf("%s, %v", made.Task.Ref, err)
	}
	answers, err := w.SubmitEach(w.ctx, acme, []task.Definition{
		{Ref: task.Ref{ID: "b"}, Type: "http"}, {Ref: task.Ref{Namespace: "other", ID: "b"}, Type: "http"},
	})
	testkit.Must(t, err)
	if answers[0].Task.Namespace != "acme" || answers[1].Task.Namespace != "other" {
		t.Errorf("%s and %s", answers[0].Task.Ref, answers[1].Task.Ref)
	}
	if _, err := w.GetTask(w.ctx, me, "a"); task.CodeOf(err) != task.CodeTaskNotFound {
		t.Errorf("found in another namespace: %v", err)
	}
}

func TestSubmit_ChecksThePayload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.types = task.Types{"http": {CheckPayload: func(context.Context, json.RawMessage) error { return task.Invalid("payload", "is empty") }}}
	if _, err := w.Submit(w.ctx, me, task.Definition{Type: "http"}); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("a task: %v", err)
	}
	_, err := w.PutSchedule(w.ctx, me, daily(nil), PutOptions{})
	var invalid *task.Error
	if !errors.As(err, &invalid) || invalid.Field != "task.payload" {
		t.Errorf("a schedule: %v", err)
	}
}

func TestPreviewEach_SaysWhatWouldComeOfItAndWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{}
	there := task.Definition{Ref: task.Ref{Namespace: "default", ID: "there"}, Type: "http"}
	w.submit([]task.Definition{there})
	other := there
	other.Owner = "somebody"
	defs := []task.Definition{{Ref: task.Ref{ID: "fresh"}, Type: "http", Queue: "reports"}, there, other, {}, {Ref: task.Ref{ID: "fresh"}, Type: "shell"}}
	before := redistest.Dump(t, w.db)
	previews, err := w.PreviewEach(w.ctx, me, defs)
	testkit.Must(t, err)
	if diff := cmp.Diff(before, redistest.Dump(t, w.db)); diff != "" {
		t.Errorf("it wrote (-before +after):\n%s", diff)
	}
	for i, answer := range w.submit(defs) {
		p := previews[i]
		if p.Existed != answer.Existed || task.CodeOf(p.Err) != task.CodeOf(answer.Err) || p.Task.State != answer.Task.State || len(p.Warnings) != len(answer.Warnings) {
			t.Errorf("task %d: the preview is %+v, the answer %+v", i, p, answer)
		}
	}
	if previews[0].Existed || len(previews[0].Warnings) != 1 || !previews[1].Existed || task.CodeOf(previews[2].Err) != task.CodeTaskConflict {
		t.Errorf("the previews are %+v", previews)
	}
}

// A client that repeats its request after the task was deleted is answered as before, and nothing runs again.
func TestSubmit_AnswersForATaskThatIsNotKeptAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := task.Definition{Ref: task.Ref{Namespace: "default", ID: "a"}, Type: "http"}
	w.submit([]task.Definition{d})
	_, err := w.CancelTask(w.ctx, me, "a", "")
	testkit.Must(t, err)
	leader := w.store.Partitions.At(w.store.PartitionOf(d.Ref)).Lead(fence)
	_, err = leader.Sweep(w.ctx, partition.Keep{Remember: time.Hour, Names: 10}, 10)
	testkit.Must(t, err)
	got, err := w.Submit(w.ctx, me, d)
	if err != nil || !got.Existed || got.Task.State != task.Cancelled || len(got.Warnings) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := w.GetTask(w.ctx, me, "a"); task.CodeOf(err) != task.CodeTaskNotFound {
		t.Errorf("reading it: %v", err)
	}
}

// Whoever sends thousands of small tasks with the id of a large one must not have that read for each of them.
func TestSubmitEach_ReadsEachTaskThatIsThereOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := strings.Repeat("x", task.PayloadLimit/2)
	first := func(id string) task.Definition {
		payload := json.RawMessage(`{"a":"` + text + `","b":1}`)
		return task.Definition{Ref: me.Ref(id), Type: "http", Payload: payload}
	}
	reworded := func(id string) task.Definition {
		d := first(id)
		d.Payload = json.RawMessage(`{"b":1,"a":"` + text + `"}`)
		return d
	}
	const large = 3 * repeatBytes / task.PayloadLimit // of half the limit: more than one portion
	var there, defs []task.Definition
	for i := range large {
		id := fmt.Sprint("large-", i)
		there, defs = append(there, first(id)), append(defs, reworded(id), reworded(id))
	}
	for range 300 { // what conflicts, by its payload and by something else
		small, other := first("large-0"), first("large-1")
		small.Payload, other.Owner = json.RawMessage(`{"a":"y"}`), "somebody"
		defs = append(defs, small, other)
	}
	w.submit(there)
	before := netOutput(w)
	answers := w.submit(defs)
	for i, a := range answers {
		same := i < 2*large
		if !same && task.CodeOf(a.Err) != task.CodeTaskConflict {
			t.Fatalf("answer %d is %.300v", i, a)
		}
		if same && (a.Err != nil || !a.Existed || !bytes.Equal(a.Task.Payload, there[i/2].Payload)) {
			t.Fatalf("answer %d is %.300v", i, a)
		}
	}
	// Each is read to be compared, and as the answer.
	if read := netOutput(w) - before; read > 3*large*len(text) {
		t.Errorf("Redis sent %d bytes for %d tasks of %d", read, large, len(text))
	}
}

// netOutput is how many bytes Redis has sent.
func netOutput(w *world) int {
	w.t.Helper()
	info, err := w.db.Info(w.ctx, "stats").Result()
	testkit.Must(w.t, err)
	_, rest, _ := strings.Cut(info, "total_net_output_bytes:")
	text, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.Atoi(text)
	testkit.Must(w.t, err)
	return n
}

// Nobody knows whether a submission conflicts while the task that is there cannot be read.
func TestSubmitEach_IsUnavailableIfItCannotCompare(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := task.Definition{Ref: me.Ref("a"), Type: "http", Payload: json.RawMessage(`{"a":1,"b":2}`)}
	for range 2 { // the second one reads it, so that Redis has the script
		w.submit([]task.Definition{d})
	}
	d.Payload = json.RawMessage(`{"b":2,"a":1}`)
	for readings := range 2 { // that succeed: none, and that of all but the payload
		db := w.server.DB(t)
		c := w.open(db)
		db.AddHook(&unreading{left: readings})
		answers, err := c.SubmitEach(w.ctx, me, []task.Definition{d, d})
		testkit.Must(t, err)
		for i, a := range answers {
			if task.CodeOf(a.Err) != task.CodeUnavailable {
				t.Errorf("after %d readings, answer %d is %v, want %s", readings, i, a.Err, task.CodeUnavailable)
			}
		}
	}
	if got, err := w.Submit(w.ctx, me, d); err != nil || !got.Existed {
		t.Errorf("when Redis is back: %v, %v", got, err)
	}
}

// Programs write the members of objects in another order from run to run, and some send defaults.
func TestSubmit_TakesAnotherWordingForTheSameTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("x", task.InlinePayloadLimit) // is stored apart
	for id, texts := range map[string][2]string{
		"short": {`{"a":1,"b":[2]}`, `{"b":[2],"a":1}`}, "long": {`{"a":"` + long + `","b":2}`, `{"b":2,"a":"` + long + `"}`},
	} {
		first := task.Definition{Ref: task.Ref{Namespace: "default", ID: id}, Type: "http", Payload: json.RawMessage(texts[0])}
		again, other := first, first
		again.Payload = json.RawMessage(texts[1])
		again.Retry = task.Task{Definition: first}.Policy()
		other.Payload = json.RawMessage(strings.Replace(texts[1], "2", "3", 1))
		answers := w.submit([]task.Definition{first, again, other})
		if answers[0].Existed || !answers[1].Existed || answers[1].Err != nil || string(answers[1].Task.Payload) != texts[0] {
			t.Errorf("%s: %.200v", id, answers[1])
		}
		if task.CodeOf(answers[2].Err) != task.CodeTaskConflict {
			t.Errorf("%s: other content: %v", id, answers[2].Err)
		}
		if got, err := w.Submit(w.ctx, me, again); err != nil || !got.Existed {
			t.Errorf("%s: by itself: %.200v, %v", id, got, err)
		}
	}
}
