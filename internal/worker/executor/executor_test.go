package executor

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is an attempt with what it reported.
type recorder struct {
	Attempt
	mu       sync.Mutex
	lines    map[string][]string
	progress []int
	logged   chan string // every line, for tests that wait for one
}

func newRecorder(payload string) *recorder {
	r := &recorder{lines: map[string][]string{}, logged: make(chan string, 1000)}
	r.Attempt = Attempt{
		Ref:      task.Ref{Namespace: "acme", ID: "job-1"},
		Number:   3,
		Payload:  json.RawMessage(payload),
		Log:      r.log,
		Progress: func(percent int) { r.progress = append(r.progress, percent) },
	}
	return r
}

func (r *recorder) log(stream, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines[stream] = append(r.lines[stream], line)
	select {
	case r.logged <- line:
	default:
	}
}

func (r *recorder) waitForLine(t *testing.T) string {
	t.Helper()
	select {
	case line := <-r.logged:
		return line
	case <-time.After(10 * time.Second):
		t.Fatal("no line came")
		return ""
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := clock.Now().Add(10 * time.Second)
	for !holds() {
		if clock.Now().After(deadline) {
			t.Fatalf("after 10 s still not: %s", what)
		}
		_ = clock.Sleep(t.Context(), 5*time.Millisecond)
	}
}

func wantInvalid(t *testing.T, err error, fieldName, message string) {
	t.Helper()
	var invalid *InvalidPayloadError
	if !errors.As(err, &invalid) {
		t.Fatalf("error is %v, want an InvalidPayloadError", err)
	}
	if invalid.Field != fieldName || !strings.Contains(invalid.Message, message) {
		t.Errorf("error is %q, want one of %q with %q", invalid.Error(), fieldName, message)
	}
}

func TestTheIdempotencyKeyIsTheIDOfTheDelivery(t *testing.T) {
	if got := newRecorder("{}").IdempotencyKey(); got != "acme:job-1:3" {
		t.Errorf("key is %q", got)
	}
}

func TestARegistryListsItsTypesInOrder(t *testing.T) {
	r := Registry{"shell": NewShell(ShellOptions{}), "http": nil, "b": nil}
	if got := r.Types(); !slices.Equal(got, []string{"b", "http", "shell"}) {
		t.Errorf("types are %v", got)
	}
}

func TestAnInvalidPayloadErrorIsCut(t *testing.T) {
	_, err := NewShell(ShellOptions{}).Execute(context.Background(),
		newRecorder(`{"`+strings.Repeat("x", 100_000)+`": 1}`).Attempt)
	if err == nil || len(err.Error()) > task.ErrorLimit {
		t.Errorf("error has %d bytes", len(err.Error()))
	}
}
