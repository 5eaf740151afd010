package tasks_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

const (
	traceA = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	traceB = "00-11111111111111111111111111111111-2222222222222222-01"
)

// traced is a definition with a trace.
func traced(id, payload, trace string) task.Definition {
	return task.Definition{
		Ref: task.Ref{Namespace: "default", ID: id}, Type: "http", Delay: time.Hour,
		Payload: json.RawMessage(payload), Trace: trace,
	}
}

var payloads = map[string]string{
	"short": `{"a":1}`,
	"long":  `{"a":"` + strings.Repeat("x", 2*task.InlinePayloadLimit) + `"}`,
}

// again submits a task once more, and checks that it is the same.
func again(w *storetest.World, t *testing.T, d task.Definition) {
	t.Helper()
	if got := w.Tasks.Create(w.Ctx, []task.Definition{d})[0]; got.Err != nil || !got.Existed {
		t.Errorf("%s again in %q: existed %v, error %v", d.ID, d.Trace, got.Existed, got.Err)
	}
}

func TestCreate_TakesARepeatInAnotherTraceForTheSame(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for n, row := range []struct{ first, second string }{{traceA, traceB}, {traceB, ""}, {"", traceA}} {
		for name, payload := range payloads {
			d := traced(fmt.Sprint(name, n), payload, row.first)
			w.Create(d)
			for _, trace := range []string{row.first, row.second} {
				again(w, t, traced(d.ID, payload, trace))
			}
			if got := w.Get(d.Ref).Trace; got != row.first {
				t.Errorf("%s is in the trace %q, want that of the first submission", d.ID, got)
			}
			other := traced(d.ID, `{"a":2}`, row.first)
			if got := w.Tasks.Create(w.Ctx, []task.Definition{other})[0]; task.CodeOf(got.Err) != task.CodeTaskConflict {
				t.Errorf("%s, with other content in the same trace: %v, want a conflict", d.ID, got.Err)
			}
		}
	}
}

func TestCreate_TakesTwoTracesInOneCallForTheSame(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	got := w.Tasks.Create(w.Ctx, []task.Definition{
		traced("a", "{}", traceA), traced("a", "{}", traceB), traced("b", "{}", ""),
	})
	if got[0].Err != nil || got[0].Existed || got[1].Err != nil || !got[1].Existed || got[2].Err != nil {
		t.Errorf("got %+v", got)
	}
}

// A task without a trace is stored as it always was, and no key has anything more of it.
func TestCreate_StoresNothingMoreWithoutATrace(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	d := traced("plain", "{}", "").Normalize()
	w.Tasks.Create(w.Ctx, []task.Definition{d, traced("other", "{}", traceA)})
	k := w.KeysOf(d.Ref)
	def, err := codec.EncodeDefinition(d)
	testkit.Must(t, err)
	if record := w.DB.HGet(w.Ctx, string(k.Defs()), d.Ref.String()).Val(); record[13:] != def {
		t.Errorf("stored as %s, want %s", record[13:], def)
	}
	if w.DB.HExists(w.Ctx, string(k.Originals()), d.Ref.String()).Val() {
		t.Error("its SHA-1 is kept")
	}
}

func TestChange_KeepsTheTrace(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for name, payload := range payloads {
		d := traced(name, payload, traceA).Normalize()
		w.Create(d)
		before := w.Get(d.Ref).Definition
		after := before
		after.Queue = "slow"
		got, err := w.Tasks.Change(w.Ctx, before, after, tasks.NewDue{}, 0)
		testkit.Must(t, err)
		if got.Queue != "slow" || got.Trace != traceA || w.Get(d.Ref).Trace != traceA {
			t.Errorf("%s: queue %s, trace %q", name, got.Queue, got.Trace)
		}
		again(w, t, traced(name, payload, traceB))
	}
}

// A node of an earlier release reads the definition without its trace, is refused, and then calls again with what is
// stored, as it has the same content.
func TestChange_OfATracedTaskByAnEarlierRelease(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	d := traced("a", "{}", traceA).Normalize()
	w.Create(d)
	d.Trace = ""
	read, err := codec.EncodeDefinition(d)
	testkit.Must(t, err)
	wanted, err := codec.EncodeDefinition(func() task.Definition { e := d; e.Queue = "slow"; return e }())
	testkit.Must(t, err)
	k := w.KeysOf(d.Ref)
	call := lua.Change{
		Defs: k.Defs(), Member: d.Ref, Before: read, Original: codec.Digest(read), Def: wanted,
		Events: w.Keys.Events(), Wake: w.WakeOf(d.Ref),
	}
	if _, err := redisx.Run(w.Ctx, w.DB, call); !redisx.RefusedWith(err, lua.CodeChanged) {
		t.Fatalf("got %v, want CHANGED", err)
	}
	stored := w.DB.HGet(w.Ctx, string(k.Defs()), d.Ref.String()).Val()[13:]
	if !codec.SameContent(stored, d) {
		t.Fatalf("%s is another content", stored)
	}
	call.Before = stored
	_, err = redisx.Run(w.Ctx, w.DB, call)
	testkit.Must(t, err)
	if got := w.Get(d.Ref); got.Queue != "slow" || got.Trace != "" {
		t.Errorf("queue %s, trace %q", got.Queue, got.Trace)
	}
	again(w, t, traced("a", "{}", traceB))
}

func TestClaim_TellsTheTrace(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	d := traced("a", "{}", traceA)
	d.Delay = 0
	w.Create(d)
	if claimed := w.Claim(d.Ref); len(claimed) != 1 || claimed[0].Trace != traceA {
		t.Errorf("claimed %+v", claimed)
	}
	if run := w.Begin(d.Ref); run.Task.Trace != traceA {
		t.Errorf("the run has the trace %q", run.Task.Trace)
	}
}
