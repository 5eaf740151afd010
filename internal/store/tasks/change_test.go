package tasks_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Payloads of more than task.InlinePayloadLimit bytes are stored apart.
func TestChange_FromAnyPayloadToAnyOther(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := storetest.New(t)
	edge := longPayload("e")[:task.InlinePayloadLimit-1]
	payloads := []json.RawMessage{
		json.RawMessage("{}"), append(edge, '"'), longPayload("x"), longPayload("y"), longPayload("y"), json.RawMessage("[1]"),
	}
	ref := task.Ref{Namespace: "default", ID: "a"}
	now := w.Create(task.Definition{Ref: ref, Delay: time.Hour, Payload: json.RawMessage("[0]")})
	whole := cmp.Comparer(func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) // not byte by byte, by reflection
	for i, payload := range payloads {
		after := now.Definition
		after.Payload, after.Owner = payload, string(rune('a'+i))
		got, err := w.Tasks.Change(w.Ctx, now.Definition, after, tasks.NewDue{}, 0)
		testkit.Must(t, err)
		again, err := w.Tasks.Change(w.Ctx, now.Definition, after, tasks.NewDue{}, 0) // as if the reply had been lost
		testkit.Must(t, err)
		if diff := cmp.Diff(got, again, whole); diff != "" {
			t.Errorf("change %d: the repeat returns (-first +repeat):\n%s", i, diff)
		}
		if diff := cmp.Diff(w.Get(ref), got, whole); diff != "" {
			t.Errorf("change %d: returned is (-Redis +returned):\n%s", i, diff)
		}
		if diff := cmp.Diff(after, got.Definition, whole); diff != "" {
			t.Errorf("change %d: the definition is (-want +got):\n%s", i, diff)
		}
		now = got
	}
	if n := w.DB.HLen(w.Ctx, string(w.KeysOf(ref).Payloads())).Val(); n != 0 {
		t.Errorf("%d long payloads are left of a task with a short one", n)
	}
}

func TestChange_OfWhatAnotherReleaseHasStored(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := task.Ref{Namespace: "default", ID: "a"}
	before := w.Create(task.Definition{Ref: ref, Delay: time.Hour, Owner: "me", Payload: longPayload("x")}).Definition
	rewrite(w, t, ref, `"delay":3600000,"owner":"me"`, `"owner":"me","priority":0,"delay":3600000`)
	testkit.Must(t, w.Requeue(before, "other", 0))
	if got := w.Get(ref); got.Queue != "other" || got.Owner != "me" || string(got.Payload) != string(before.Payload) {
		t.Errorf("it has become %+v", got)
	}
	if again := w.Tasks.Create(w.Ctx, []task.Definition{before})[0]; again.Err != nil || !again.Existed {
		t.Errorf("submitted again: existed is %v, %v", again.Existed, again.Err)
	}
}

// The next release may know more of a task: a change by this one loses nothing of it.
func TestChange_KeepsWhatAnotherReleaseKnows(t *testing.T) {
	t.Parallel()
	for name, payload := range map[string]json.RawMessage{"short": json.RawMessage(`{"a":1}`), "long": longPayload("x")} {
		w := storetest.New(t)
		ref := task.Ref{Namespace: "default", ID: "a"}
		before := w.Create(task.Definition{Ref: ref, Delay: time.Hour, Payload: payload}).Definition
		k, id := w.KeysOf(ref), ref.String()
		rewrite(w, t, ref, `"delay":3600000`, `"some_day":12345678901234567890,"delay":3600000,"at_most":{"a":[1]}`)
		stored := w.DB.HGet(w.Ctx, string(k.Defs()), id).Val()[13:]
		testkit.Must(t, w.Requeue(before, "other", 0))
		got, want := w.Get(ref), `,"at_most":{"a":[1]},"some_day":12345678901234567890}`+"\n"
		if record := w.DB.HGet(w.Ctx, string(k.Defs()), id).Val(); !strings.Contains(record, want) || got.Queue != "other" {
			t.Errorf("%s: Redis has %.300s", name, record)
		}
		if string(got.Payload) != string(payload) || got.Delay != time.Hour {
			t.Errorf("%s: it has a payload of %d bytes, and the delay %s", name, len(got.Payload), got.Delay)
		}
		head, _, _ := strings.Cut(stored, "\n")
		unknown := `"some_day":12345678901234567890,"delay":3600000,"at_most":{"a":[1]}`
		head = strings.Replace(head, unknown, `"delay":3600000`, 1)
		first := codec.Digest(strings.TrimSuffix(head, "}") + want + string(payload))
		if original := w.DB.HGet(w.Ctx, string(k.Originals()), id).Val(); original != first {
			t.Errorf("%s: the first definition counts as %s, want %s", name, original, first)
		}
		rewrite(w, t, ref, `"delay":3600000`, `"delay":7200000`) // somebody else
		if err := w.Requeue(got.Definition, "third", 0); task.CodeOf(err) != task.CodeChanged {
			t.Errorf("%s: after another change: %v, want %s", name, err, task.CodeChanged)
		}
	}
}

func TestChange_RefusesWhatSomebodyElseChanged(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := task.Ref{Namespace: "default", ID: "a"}
	before := w.Create(task.Definition{Ref: ref, Delay: time.Hour, Payload: longPayload("x")}).Definition
	theirs := before
	theirs.Payload = longPayload("y")
	_, err := w.Tasks.Change(w.Ctx, before, theirs, tasks.NewDue{}, 0)
	testkit.Must(t, err)
	if err := w.Requeue(before, "other", 0); task.CodeOf(err) != task.CodeChanged {
		t.Errorf("got %v, want %s", err, task.CodeChanged)
	}
	if got := w.Get(ref); got.Queue != before.Queue || string(got.Payload) != string(theirs.Payload) {
		t.Errorf("it is in the queue %s with a payload of %d bytes", got.Queue, len(got.Payload))
	}
}

func TestChange_MovesNoPayloadThatStays(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	received := func() int { return netBytes(t, w, "total_net_input_bytes") }
	before := w.Create(task.Definition{Ref: task.Ref{Namespace: "default", ID: "a"}, Delay: time.Hour, Payload: longPayload("x")}).Definition
	in, out := received(), sent(t, w)
	got, err := w.Tasks.Change(w.Ctx, before, before, tasks.NewDue{Delay: new(time.Minute)}, 0)
	if err != nil || len(got.Payload) != task.PayloadLimit {
		t.Fatalf("a payload of %d bytes, %v", len(got.Payload), err)
	}
	if in, out = received()-in, sent(t, w)-out; max(in, out) > task.PayloadLimit/8 {
		t.Errorf("Redis received %d bytes and sent %d, want some hundred", in, out)
	}
	after := before
	after.Payload = longPayload("y")
	in, out = received(), sent(t, w)
	_, err = w.Tasks.Change(w.Ctx, before, after, tasks.NewDue{}, 0)
	testkit.Must(t, err)
	if in, out = received()-in, sent(t, w)-out; in > task.PayloadLimit*5/4 || out > task.PayloadLimit/8 {
		t.Errorf("a new payload: Redis received %d bytes and sent %d, want the payload once", in, out)
	}
}
