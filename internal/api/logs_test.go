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

func TestReadLogs_ReadsATailAndPagesBackwards(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.submit("a")
	r.log("a", "zero", "one", "two", "three", "Two again")
	for _, c := range []struct{ query, want string }{
		{"?tail=2", "three,Two again next 1-5 previous 1-4"},
		{"?before=1-4&limit=2", "one,two previous 1-2"},
		{"?before=1-2&limit=1000", "zero"},
		{"?tail=9", "zero,one,two,three,Two again next 1-5"},
		{"?grep=two", "two,Two again next 1-5"},
		{"?tail=1&grep=TWO&attempt=last&stream=stdout", "Two again next 1-5 previous 1-5"},
		{"?stream=stderr", " next 1-5"},
		{"?attempt=2&after=1-1", " next 1-1"},
	} {
		var page wire.LogPage
		testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/tasks/a/logs"+c.query, "").body, &page))
		var texts []string
		for _, l := range page.Lines {
			texts = append(texts, l.Text)
		}
		got := strings.Join(texts, ",")
		if page.NextCursor != nil {
			got += " next " + *page.NextCursor
		}
		if page.PreviousCursor != nil {
			got += " previous " + *page.PreviousCursor
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.query, got, c.want)
		}
	}
	for query, field := range map[string]string{
		"?tail=1&after=1-1": "tail", "?tail=1&before=1-2": "before", "?before=1-2&after=1-1": "before",
		"?before=1-2&follow=true": "before",
		"?attempt=first":          "attempt", "?stream=none": "stream", "?grep=": "grep", "?tail=0": "tail",
	} {
		p := r.call("GET", "/v1/tasks/a/logs"+query, "").problem(t)
		if p.Status != http.StatusBadRequest || !strings.Contains(p.Detail, field) {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

func TestFollowLogs_BeginsWithATail(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.submit("a")
	r.log("a", "a1", "b1", "a2", "a3", "b2")
	for query, header := range map[string]string{"tail=2&grep=A": "", "tail=9&grep=A": "1-2"} {
		var headers []string
		if header != "" { // as a client that takes the stream up again
			headers = []string{"Last-Event-ID", header}
		}
		l := r.listen("/v1/tasks/a/logs?follow=true&"+query, headers...)
		for _, want := range []string{"1-3", "1-4"} {
			if m := l.next(); m.ID != want {
				t.Errorf("%s: %s, want %s", query, m.ID, want)
			}
		}
		l.close()
	}
}
