//go:build unix

package shellexec

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/task"
)

func TestExecutor_SavesCheckpointsAndPassesThemOn(t *testing.T) {
	first := sh(t, `echo "before=$DTS_CHECKPOINT"; echo '::checkpoint {"row": 5}'; echo '::checkpoint 6'; echo ' ::checkpoint 7'; exit 1`)
	if _, err := run(t, first); err == nil {
		t.Fatal("it succeeded")
	}
	if want := []string{`{"row": 5}`, "6"}; !slices.Equal(first.Saved, want) {
		t.Errorf("saved are %q, want %q", first.Saved, want)
	}
	if want := []string{"before=", " ::checkpoint 7"}; !slices.Equal(first.Lines["stdout"], want) {
		t.Errorf("the log is %q, want %q", first.Lines["stdout"], want)
	}
	next := sh(t, `printf %s "$DTS_CHECKPOINT"`)
	next.Checkpoint = json.RawMessage(`{"row":5}`)
	if result, err := run(t, next); err != nil || result != `{"row":5}` {
		t.Errorf("the next attempt has %q, %v", result, err)
	}
}

// A checkpoint may be much longer than a line of the log, and the variable may hold the longest.
func TestExecutor_SavesTheLongestCheckpoint(t *testing.T) {
	longest := `"` + strings.Repeat("x", task.CheckpointLimit-2) + `"`
	r := sh(t, `printf '::checkpoint %s\nnext\n' "$DTS_CHECKPOINT"`)
	r.Checkpoint = json.RawMessage(longest)
	result, err := run(t, r)
	if err != nil || result != "next" || !slices.Equal(r.Saved, []string{longest}) {
		t.Errorf("result %q, %v; %d checkpoints", result, err, len(r.Saved))
	}
}

func TestExecutor_SaysThatACheckpointWasNotSaved(t *testing.T) {
	r := sh(t, `echo ::checkpoint {; echo done`)
	r.SaveSoon = func(json.RawMessage) error { return task.Invalid("checkpoint", "is not JSON") }
	want := []string{"::checkpoint: not saved: checkpoint: is not JSON"}
	if result, err := run(t, r); err != nil || result != "done" || !slices.Equal(r.Lines["stderr"], want) {
		t.Errorf("result %q, %v; stderr %q, want %q", result, err, r.Lines["stderr"], want)
	}
}

// A command that is told to stop may save how far it got.
func TestExecutor_SavesACheckpointAfterTheTimeIsOver(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	r := sh(t, `trap 'echo ::checkpoint 5; echo ::checkpoint 6; exit 1' TERM; echo ready; while :; do sleep 0.05; done`)
	ended := make(chan error, 1)
	go func() { _, err := New(Options{Grace: longGrace}).Execute(ctx, r.Attempt); ended <- err }()
	if line := r.WaitForLine(t); line != "ready" {
		t.Fatalf("the first line is %q", line)
	}
	cancel(errors.New("timeout"))
	if err := <-ended; err == nil || !slices.Equal(r.Saved, []string{"5", "6"}) {
		t.Errorf("it ended with %v; saved are %q", err, r.Saved)
	}
}
