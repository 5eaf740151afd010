package codec_test

import (
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestWithTrace_IsReadBackAndIsNoContent(t *testing.T) {
	t.Parallel()
	plain := task.Definition{Type: "noop", Queue: task.DefaultQueue}
	payload, label := plain, plain
	payload.Payload = []byte("{\"x\":1,\"trace " + traceparent + "\":0}\n")
	label.Labels = map[string]string{`,"trace ` + traceparent: `":0`}
	for name, d := range map[string]task.Definition{
		"every field": whole(), "type only": plain, "a like payload": payload, "a like label": label,
	} {
		def, err := codec.EncodeDefinition(d)
		testkit.Must(t, err)
		if got, err := codec.DecodeDefinition(d.Ref, def); err != nil || got.Trace != "" {
			t.Errorf("%s: without a trace, it has the trace %q, error %v", name, got.Trace, err)
		}
		stored := codec.WithTrace(def, traceparent)
		got, err := codec.DecodeDefinition(d.Ref, stored)
		if err != nil || got.Trace != traceparent || string(got.Payload) != string(d.Payload) {
			t.Errorf("%s: trace %q, payload %s, error %v", name, got.Trace, got.Payload, err)
		}
		// Nodes of all releases since d741e53 compare like this.
		if !codec.SameContent(stored, d) {
			t.Errorf("%s: the trace makes it another content:\n%s\n%s", name, stored, def)
		}
		if again, err := codec.EncodeDefinition(got); err != nil || again != def {
			t.Errorf("%s: the canonical form has changed to\n%s\n%s", name, again, def)
		}
	}
}

func TestWithTrace_AddsNothingButATraceparent(t *testing.T) {
	t.Parallel()
	const def = `{"type":"noop"}` + "\n{}"
	for _, trace := range []string{"", "x", strings.Repeat("x", 200)} {
		if got := codec.WithTrace(def, trace); got != def {
			t.Errorf("with the trace %q: %q", trace, got)
		}
	}
}

func TestWithTrace_AllocatesNothingWithoutOne(t *testing.T) {
	const def = `{"type":"noop","owner":"somebody","labels":{"a":"b"}}` + "\n{}"
	if n := testing.AllocsPerRun(100, func() { codec.WithTrace(def, "") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
