package httpexec

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

func TestExecutor_SendsTheCheckpoint(t *testing.T) {
	long := `"` + strings.Repeat("x", checkpointHeaderLimit) + `"`
	for name, c := range map[string]struct {
		checkpoint          string
		header, headerBytes string
	}{
		"none":      {"", "", ""},
		"short":     {`{"row":5}`, `{"row":5}`, "9"},
		"not ASCII": {`"\u007fü😀"`, `"\u007f\u00fc\ud83d\ude00"`, "14"},
		"too long":  {long, "", "4098"},
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := serve(t)
			r := executortest.NewRecorder(executortest.JSON(t, object{"url": url}))
			if c.checkpoint != "" {
				r.Checkpoint = json.RawMessage(c.checkpoint)
			}
			if _, err := newExecutor(t).Execute(t.Context(), r.Attempt); err != nil {
				t.Fatal(err)
			}
			h := (<-requests).Header
			if h.Get("Dts-Checkpoint") != c.header || h.Get("Dts-Checkpoint-Bytes") != c.headerBytes {
				t.Errorf("the headers are %q and %q, want %q and %q", h.Get("Dts-Checkpoint"), h.Get("Dts-Checkpoint-Bytes"), c.header, c.headerBytes)
			}
		})
	}
}

func TestExecutor_SavesTheCheckpointOfAnAnswer(t *testing.T) {
	url := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Dts-Checkpoint", `{"row": 5}`)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	r := executortest.NewRecorder(executortest.JSON(t, object{"url": url}))
	if _, err := newExecutor(t).Execute(t.Context(), r.Attempt); err == nil || !slices.Equal(r.Saved, []string{`{"row": 5}`}) {
		t.Errorf("saved are %q; %v", r.Saved, err)
	}
	r.Save = func(context.Context, json.RawMessage) error { return errors.New("no") }
	_, err := newExecutor(t).Execute(t.Context(), r.Attempt)
	if want := []string{"the answer's Dts-Checkpoint was not saved: no"}; err == nil || !slices.Equal(r.Lines["stderr"], want) {
		t.Errorf("the log is %q, want %q; %v", r.Lines["stderr"], want, err)
	}
}
