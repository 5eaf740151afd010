package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Each byte of these lines takes six in the answer.
func TestReadLogs_EndsAPageThatIsFull(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	r := startRig(t)
	r.submit("a")
	line := strings.Repeat("\x01", task.LogLineLimit)
	for range 10 {
		lines := make([]string, task.LogLimit/20)
		for i := range lines {
			lines[i] = line
		}
		r.log("a", lines...)
	}
	path, count, pages := "/v1/tasks/a/logs?limit=1000", 0, 0
	for more := true; more; pages++ {
		got, err := http.Get(r.url + path) // the test's own client takes long to check so much
		testkit.Must(t, err)
		body, err := io.ReadAll(got.Body)
		testkit.Must(t, errors.Join(err, got.Body.Close()))
		if got.StatusCode != http.StatusOK || len(body) > layout.PageBytes+200<<10 {
			t.Fatalf("%d, %d bytes", got.StatusCode, len(body))
		}
		var page wire.LogPage
		testkit.Must(t, json.Unmarshal(body, &page))
		count += len(page.Lines)
		path, more = "/v1/tasks/a/logs?limit=1000&after="+*page.NextCursor, page.More != nil && *page.More
	}
	if count != task.LogLimit/2 || pages < 3 {
		t.Errorf("%d lines in %d pages", count, pages)
	}
}

// A stream holds no turn: it would for as long as the task runs.
func TestReadLogs_TakesItsTurn(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.submit("a")
	for range control.PagesLimit {
		end, err := r.endpoints.Control.TakePage(t.Context())
		testkit.Must(t, err)
		defer end()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if got, err := r.ReadLogsWithResponse(ctx, "a", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a page was read without a turn: %v, %v", got, err)
	}
	r.listen("/v1/tasks/a/logs?follow=true").close()
}
