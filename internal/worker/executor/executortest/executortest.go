// Package executortest helps to test executors.
package executortest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// Recorder is an attempt that records what its executor reports. Lines, Percents, Notes and Saved may be read once Execute has
// returned.
type Recorder struct {
	executor.Attempt
	Lines    map[string][]string // by stream
	Percents []int
	Notes    []string // of the same reports
	Saved    []string // the checkpoints

	mu     sync.Mutex
	logged chan string
}

// NewRecorder makes attempt 3 of task job-1 in namespace acme.
func NewRecorder(payload string) *Recorder {
	r := &Recorder{Lines: map[string][]string{}, logged: make(chan string, 1000)}
	r.Attempt = executor.Attempt{
		Ref:     task.Ref{Namespace: "acme", ID: "job-1"},
		Number:  3,
		Payload: json.RawMessage(payload),
		Log:     r.log,
		Progress: func(percent int, note string) {
			r.Percents, r.Notes = append(r.Percents, percent), append(r.Notes, note)
		},
		Token:    func() string { return "token-3" },
		Save:     func(_ context.Context, c json.RawMessage) error { r.Saved = append(r.Saved, string(c)); return nil },
		SaveSoon: func(c json.RawMessage) error { r.Saved = append(r.Saved, string(c)); return nil },
	}
	return r
}

func (r *Recorder) log(stream, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Lines[stream] = append(r.Lines[stream], line)
	select {
	case r.logged <- line:
	default: // nobody waits for so many
	}
}

// WaitForLine returns the next line of either stream, while Execute runs.
func (r *Recorder) WaitForLine(t *testing.T) string {
	t.Helper()
	select {
	case line := <-r.logged:
		return line
	case <-time.After(10 * time.Second):
		t.Fatal("the executor logs no line within 10 s")
		return ""
	}
}

// JSON is v as JSON.
func JSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// WantInvalid fails the test unless err is an InvalidPayloadError for the field, with the given text in its message.
func WantInvalid(t *testing.T, err error, field, text string) {
	t.Helper()
	var invalid *executor.InvalidPayloadError
	if !errors.As(err, &invalid) {
		t.Fatalf("error is %v, want an InvalidPayloadError", err)
	}
	if invalid.Field != field || !strings.Contains(invalid.Message, text) {
		t.Errorf("error is %q, want one of %q with %q", invalid.Error(), field, text)
	}
}

// DescriptorSet is a serialized set of files, in base64.
func DescriptorSet(t *testing.T, files ...protoreflect.FileDescriptor) string {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{}
	for _, f := range files {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	serialized, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(serialized)
}

// lateness is how long after the deadline the timer of a Late context fires.
const lateness = 100 * time.Millisecond

// late is a context whose timer is late.
type late struct {
	context.Context
	deadline time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.deadline, true }

// Late returns a context that ends because of cause, some time after its deadline, as on a busy machine.
func Late(t *testing.T, left time.Duration, cause error) context.Context {
	t.Helper()
	ctx, end := context.WithCancelCause(t.Context())
	timer := time.AfterFunc(left+lateness, func() { end(cause) })
	t.Cleanup(func() { timer.Stop() })
	return late{ctx, clock.Now().Add(left)}
}
