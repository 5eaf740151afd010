package queue

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// If asynq changes its format, this test fails: it is why the version of asynq is pinned.
func TestEnqueue_WritesWhatAsynqsClientWrites(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ timeout, rounded time.Duration }{
		"whole seconds": {time.Minute, time.Minute}, "rounded up": {1500 * time.Millisecond, 2 * time.Second}, "a day": {24 * time.Hour, 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, asynqs := newTransport(t), newTransport(t)
			d := aDelivery("a@20260102T150405Z")
			d.Timeout = c.timeout
			ours.enqueue(d)
			payload, err := json.Marshal(written{reference{d.Ref.Namespace, d.Ref.ID, d.Attempt}, d.ClaimedAt.UnixMilli()})
			testkit.Must(t, err)
			_, err = asynq.NewClientFromRedisClient(asynqs.db.UniversalClient).EnqueueContext(t.Context(), asynq.NewTask(d.Type, payload),
				asynq.TaskID(d.String()), asynq.Queue(d.Queue), asynq.MaxRetry(deliveryRetries), asynq.Timeout(c.rounded+deliverySlack),
				asynq.Retention(handledRetention))
			testkit.Must(t, err)
			if diff := cmp.Diff(withoutSince(t, asynqs), withoutSince(t, ours)); diff != "" {
				t.Errorf("Redis (-asynq's client +ours):\n%s", diff)
			}
		})
	}
}

// withoutSince is all of Redis, without the time since which a delivery waits, and without what DTS notes beside it.
func withoutSince(t *testing.T, x *transport) map[string]any {
	t.Helper()
	key := string(lua.AsynqQueue("default").Delivery("default:a@20260102T150405Z:1"))
	testkit.Must(t, x.db.Del(t.Context(), string(lua.AsynqQueue("default").Called())).Err())
	since, err := x.db.HGet(t.Context(), key, "pending_since").Int64()
	testkit.Must(t, err)
	if age := time.Since(time.Unix(0, since)); age < -time.Minute || age > time.Minute {
		t.Errorf("the delivery waits since %s ago", age)
	}
	testkit.Must(t, x.db.HSet(t.Context(), key, "pending_since", "0").Err())
	return redistest.Dump(t, x.db)
}

func TestMessage_IsDecodedAsItWasEncoded(t *testing.T) {
	t.Parallel()
	want := message{
		taskType: "http", payload: []byte("{}"), id: "a", queue: "q", retry: 10, timeout: 90 * time.Second, uniqueKey: "asynq:{q}:unique:x",
	}
	got, err := decode(string(want.encode()))
	testkit.Must(t, err)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(message{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMessage_CutShortIsRefused(t *testing.T) {
	t.Parallel()
	whole := string(messageOf(aDelivery("a"), "default").encode())
	for _, broken := range []string{whole[:len(whole)-1], whole[:7], "\xff"} {
		if _, err := decode(broken); err == nil {
			t.Errorf("%q was decoded", broken)
		}
		if _, err := withError(broken, "x", time.Now()); err == nil {
			t.Errorf("%q got an error", broken)
		}
	}
}

// written is the payload of a delivery.
type written struct {
	reference
	Claimed int64 `json:"claimed_ms"`
}

func TestPayload_IsAReferenceInJSON(t *testing.T) {
	t.Parallel()
	ref := task.Ref{Namespace: "team-a", ID: "nightly@20260102T150405.250Z"}
	want, err := json.Marshal(written{reference{ref.Namespace, ref.ID, 12}, 1767323045678})
	testkit.Must(t, err)
	if got := payloadOf(task.Delivery{Ref: ref, Attempt: 12, ClaimedAt: time.UnixMilli(1767323045678)}); string(got) != string(want) {
		t.Errorf("it is %s, want %s", got, want)
	}
}

func TestReference_IsReadFromAnyJSON(t *testing.T) {
	t.Parallel()
	for payload, ok := range map[string]bool{
		`{"namespace":"default","task":"a","attempt":1}`:                true,
		`{"namespace":"default","task":"a","attempt":1,"claimed_ms":7}`: true,
		`{ "attempt": 1, "task": "a", "namespace": "default" }`:         true,
		`{"namespace":"default","task":"a"}`:                            false,
		`{"namespace":"default","attempt":1}`:                           false,
		`{"namespace":"","task":"a","attempt":1}`:                       false,
		`{"namespace":"a:b","task":"a","attempt":1}`:                    false,
		`[]`: false, ``: false, `7`: false,
	} {
		for _, id := range []string{"default:a:1", "default:b:1", "4f2c"} {
			ref, attempt, err := message{id: id, payload: []byte(payload)}.reference()
			if ok != (err == nil) || err != nil && !errors.Is(err, errNoReference) {
				t.Errorf("%s, id %s: %v", payload, id, err)
			}
			if want := (task.Ref{Namespace: "default", ID: "a"}); ok && (ref != want || attempt != 1) {
				t.Errorf("%s, id %s: read as %v, attempt %d", payload, id, ref, attempt)
			}
		}
	}
}

// A field that this version of DTS does not know must survive, and invalid UTF-8 would make asynq refuse the message.
func TestWithError_ChangesNothingElse(t *testing.T) {
	t.Parallel()
	m := message{taskType: "http", payload: []byte("{}"), id: "a", queue: "q", retry: 10, timeout: time.Minute, uniqueKey: "k"}
	known := m.encode()
	known = appendText(known, 14, "group")
	known = protowire.AppendTag(known, 99, protowire.Fixed64Type)
	known = protowire.AppendFixed64(known, 7)
	first, err := withError(string(known), "boom", time.Unix(100, 0))
	testkit.Must(t, err)
	second, err := withError(string(first), "\xff again", time.Unix(200, 0))
	testkit.Must(t, err)
	var fields []string
	testkit.Must(t, eachField(second, func(field protowire.Number, value []byte, number uint64, _ []byte) {
		switch field {
		case fieldError:
			fields = append(fields, string(value))
		case fieldLastFailedAt:
			fields = append(fields, time.Unix(int64(number), 0).UTC().Format(time.TimeOnly))
		case 14, 99:
			fields = append(fields, "kept")
		}
	}))
	if diff := cmp.Diff([]string{"\uFFFD again", "00:03:20", "kept", "kept"}, fields); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got, err := decode(string(second))
	testkit.Must(t, err)
	m.failure = "\uFFFD again"
	if diff := cmp.Diff(m, got, cmp.AllowUnexported(message{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzMessage_NeverPanics(f *testing.F) {
	f.Add(string(messageOf(aDelivery("a"), "default").encode()))
	f.Fuzz(func(t *testing.T, encoded string) {
		m, err := decode(encoded)
		with, errWith := withError(encoded, "boom", time.Unix(1, 0))
		if (err == nil) != (errWith == nil) {
			t.Fatalf("decoded with %v, changed with %v", err, errWith)
		}
		if err != nil {
			return
		}
		if again, err := decode(string(with)); err != nil || again.id != m.id || again.queue != m.queue {
			t.Fatalf("decoded again: %+v, %v, want %+v", again, err, m)
		}
	})
}
