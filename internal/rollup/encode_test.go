package rollup

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// busyMinute is a minute of so many queues and causes, whose texts compress badly.
func busyMinute(at time.Time, queues, causes int) Minute {
	random := rand.New(rand.NewPCG(1, uint64(at.Unix())))
	m := Minute{At: at, Length: Span, Queues: map[string]Queue{}, Running: 90, Capacity: 100, Sampled: true}
	for i := range queues {
		q := Queue{Begun: random.IntN(9999), Succeeded: random.IntN(9999), Failed: random.IntN(99),
			Waiting: random.IntN(9999)}
		q.Oldest = time.Duration(random.IntN(1e6)) * time.Millisecond
		for range 40 {
			q.Late.Observe(time.Duration(random.ExpFloat64() * float64(80*time.Millisecond)).Truncate(time.Millisecond))
		}
		m.Queues[fmt.Sprintf("team-%d.queue-%d", i%7, i)] = q
	}
	for i := range causes {
		text := ""
		for len(text) < 120 {
			text += fmt.Sprintf("%c%c%c ", 'a'+random.IntN(26), 'a'+random.IntN(26), 'a'+random.IntN(26))
		}
		m.Causes = append(m.Causes, Cause{
			Kind: Kind{Text: text, Queue: fmt.Sprintf("team-%d.queue-%d", i%7, i), Namespace: "default",
				Schedule: fmt.Sprintf("report-%d", i), Type: "http"},
			Count: 1000 - i, Dead: i, First: at.Add(time.Second), Last: at.Add(time.Minute - time.Millisecond),
			Example: Example{Task: task.Ref{Namespace: "default", ID: fmt.Sprintf("report-%d@20260102T150405Z", i)}, Attempt: 4},
		})
	}
	return m
}

func TestDecode_ReadsWhatEncodeWrites(t *testing.T) {
	t.Parallel()
	for _, m := range []Minute{
		busyMinute(noon, 100, 16), busyMinute(noon, 1, 1), {At: noon, Length: time.Hour,
			Queues: map[string]Queue{Rest: {Begun: 1}}},
	} {
		got, err := Decode(Encode(m, 1<<20))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("got %+v (%v)\nwant %+v", got, err, m)
		}
	}
}

func TestEncode_KeepsItsLimitAndTheSums(t *testing.T) {
	t.Parallel()
	m := busyMinute(noon, 100, 16)
	for _, limit := range []int{MinuteBytes, 4000, 1000, 300} {
		text := Encode(m, limit)
		got, err := Decode(text)
		if err != nil || len(text) > limit {
			t.Fatalf("limit %d: %d bytes, %v", limit, len(text), err)
		}
		if got.Total().Begun != m.Total().Begun || failures(got) != failures(m) {
			t.Errorf("limit %d: %d begun and %d failures, want %d and %d", limit, got.Total().Begun,
				failures(got), m.Total().Begun, failures(m))
		}
	}
}

func failures(m Minute) (n int) {
	for _, c := range m.Causes {
		n += c.Count
	}
	return n
}

func TestDecode_RefusesOtherVersionsAndDamage(t *testing.T) {
	t.Parallel()
	good := Encode(busyMinute(noon, 2, 2), MinuteBytes)
	for name, text := range map[string][]byte{
		"nothing": nil, "another version": append([]byte{version + 1}, good[1:]...), "cut": good[:len(good)/2],
		"no compression": {version, 7, 7, 7},
	} {
		_, err := Decode(text)
		if newer := name == "another version"; !errors.Is(err, ErrUnreadable) || errors.Is(err, ErrNewer) != newer {
			t.Errorf("%s: %v, want ErrUnreadable, or ErrNewer of another version", name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Encode(busyMinute(noon, 3, 3), MinuteBytes))
	f.Add(appendMinute(nil, busyMinute(noon, 2, 2)))
	f.Fuzz(func(t *testing.T, text []byte) {
		if m, err := Decode(text); err == nil {
			if _, err := Decode(Encode(m, 1<<20)); err != nil {
				t.Fatalf("what was decoded and encoded again: %v", err)
			}
		}
		r := &reader{rest: text} // what was compressed, too
		if m := r.minute(); !r.bad {
			_ = Merge(m.At, Span, MinuteCauses, m, m)
		}
	})
}
