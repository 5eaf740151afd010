package noopexec

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

func execute(ctx context.Context, payload string) (string, error) {
	return Executor{}.Execute(ctx, executortest.NewRecorder(payload).Attempt)
}

func TestExecutor_SucceedsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		result, err := execute(t.Context(), `{}`)
		if result != "" || err != nil || time.Since(start) != 0 {
			t.Errorf("got %q, %v after %s", result, err, time.Since(start))
		}
	})
}

func TestExecutor_SleepsAndFailsAsThePayloadSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := execute(t.Context(), `{"sleep": "1m30s", "fail": "out of paper"}`)
		if err == nil || err.Error() != "out of paper" || time.Since(start) != 90*time.Second {
			t.Errorf("got %v after %s", err, time.Since(start))
		}
	})
}

func TestExecutor_CutsItsError(t *testing.T) {
	_, err := execute(t.Context(), `{"fail": "`+strings.Repeat("x", 2*task.ErrorLimit)+`"}`)
	if err == nil || len(err.Error()) > task.ErrorLimit || !strings.HasSuffix(err.Error(), task.ErrorMark) {
		t.Errorf("got %d bytes", len(err.Error()))
	}
}

func TestExecutor_GivesUpWhenTheContextEnds(t *testing.T) {
	cause := errors.New("cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := execute(ctx, `{"sleep": "1h"}`); !errors.Is(err, cause) {
		t.Errorf("error is %v", err)
	}
}

func TestParsePlan_RefusesAPayloadThatCannotWork(t *testing.T) {
	for name, c := range map[string]struct{ payload, field, message string }{
		"not an object":         {`[]`, "payload", "object"},
		"an unknown field":      {`{"slep": "1s"}`, "payload.slep", "not known: there is fail, sleep"},
		"a number of seconds":   {`{"sleep": 1}`, "payload.sleep", "a string"},
		"not a duration":        {`{"sleep": "soon"}`, "payload.sleep", `"soon" must be a duration`},
		"a negative duration":   {`{"sleep": "-1s"}`, "payload.sleep", "from 0 on"},
		"an error that is none": {`{"fail": true}`, "payload.fail", "a string"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := execute(t.Context(), c.payload)
			executortest.WantInvalid(t, err, c.field, c.message)
		})
	}
}
