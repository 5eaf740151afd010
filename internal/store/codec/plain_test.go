package codec

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// FuzzEncodeDefinition_WritesAsPackageJSONDoes compares the short way with the long one, which defines the form.
func FuzzEncodeDefinition_WritesAsPackageJSONDoes(f *testing.F) {
	f.Add("http", "default", "", "", int64(0), int64(0), 0)
	f.Add("http", "", "", "", int64(1), int64(0), 1)
	f.Add("mail", "slow", "tenant-7", "ada@example.com", int64(1_700_000_000_123), int64(90_061_001), 5)
	f.Add("m", "q", "k", `ada "the <first>" \& \u2028 é`, int64(-1), int64(-1500), -3)
	f.Add("\x00\x7f", "\xff", "é", "\n", int64(1)<<62, int64(1)<<62, 1<<40)
	f.Fuzz(func(t *testing.T, taskType, queue, fairKey, owner string, at, span int64, n int) {
		d := task.Definition{
			Type: taskType, Queue: queue, FairKey: fairKey, Owner: owner, Priority: n, FairWeight: n / 2,
			Delay: time.Duration(span), Timeout: time.Duration(span), Retention: time.Duration(span) / 3,
			StartBy: time.Duration(span) * 7, Retry: task.Retry{MaxAttempts: n, MaxElapsed: time.Duration(span) * 5},
			Payload: json.RawMessage(`{"a":1}`),
		}
		if at != 0 {
			d.RunAt = FromMS(at)
		}
		_, short := appendPlainHead(nil, &d)
		if plain := isPlain(taskType + queue + fairKey + owner); short != plain {
			t.Errorf("it takes the short way: %v, want %v", short, plain)
		}
		line, err := json.Marshal(headOf(d))
		if err != nil {
			t.Fatal(err)
		}
		want := string(line) + "\n" + string(d.Payload)
		if got, err := EncodeDefinition(d); err != nil || got != want {
			t.Errorf("got %q, %v\nwant %q", got, err, want)
		}
	})
}
