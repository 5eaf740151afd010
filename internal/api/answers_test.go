package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/testkit"
)

// fillList submits tasks whose list is a large answer.
func (r *rig) fillList() {
	r.t.Helper()
	for i := range 4 {
		body := fmt.Sprintf(`{"id":"large-%d","type":"http","delay":"1h","payload":"%s"}`, i, strings.Repeat("x", 50<<10))
		if got := r.call("POST", "/v1/tasks", body); got.status != http.StatusCreated {
			r.t.Fatalf("%d %s", got.status, got.body)
		}
	}
}

// other is an address that no client of a test has.
var other = netip.MustParsePrefix("192.0.2.1/32")

func TestAnswers_AreBoundedInSum(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	r := startRig(t, func(o *Options) { o.TransferMemory = 1 << 20 })
	r.fillList()
	room := r.server.answers.room
	room.takeAnyway(other, 900<<10) // as of clients that do not read
	got := r.call("GET", "/v1/tasks", "")
	p := got.problem(t)
	if p.Code != "overloaded" || got.header.Get("Retry-After") == "" || !strings.Contains(p.Detail, "transfer-memory") {
		t.Errorf("%+v", p)
	}
	if got := r.call("GET", "/v1/tasks?limit=1", ""); got.status != http.StatusOK {
		t.Errorf("a small answer: %d %s", got.status, got.body)
	}
	room.give(other, 900<<10)
	for range 20 { // each gives its room back
		if got := r.call("GET", "/v1/tasks", ""); got.status != http.StatusOK || len(got.body) < 200<<10 {
			t.Fatalf("%d %.300s", got.status, got.body)
		}
	}
}

// Nothing of an answer is sent before all of it is text: afterwards, its status could not say that it failed.
func TestReply_SendsNothingOfWhatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	sent := httptest.NewRecorder()
	c := echo.New().NewContext(httptest.NewRequest(http.MethodGet, "/v1/tasks", nil), sent)
	err := new(answers).ok(c, Task{Payload: json.RawMessage("@")})
	if err == nil || c.Response().Committed || sent.Body.Len() > 0 {
		t.Errorf("sent %d %s, and returned %v", sent.Code, sent.Body, err)
	}
}

func TestGetTask_LeavesSignsAsTheyAre(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	got := r.call("POST", "/v1/tasks", `{"id":"a","type":"http","delay":"1h","payload":"a && b <c>"}`)
	for _, got := range []answer{got, r.call("GET", "/v1/tasks/a", "")} {
		if !strings.Contains(string(got.body), `"payload":"a && b <c>"`) {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
}

// A page holds its turn until it is text, and no longer: its reader may be slow.
func TestPages_AreReadFewAtATime(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for range control.PagesLimit + 1 {
		if got := r.call("GET", "/v1/tasks", ""); got.status != http.StatusOK {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	var ends []func()
	for range control.PagesLimit {
		end, err := r.server.options.Control.TakePage(t.Context())
		testkit.Must(t, err)
		ends = append(ends, end)
	}
	for name, read := range map[string]func(ctx context.Context) (any, error){
		"tasks":  func(ctx context.Context) (any, error) { return r.ListTasksWithResponse(ctx, nil) },
		"locks":  func(ctx context.Context) (any, error) { return r.ListLocksWithResponse(ctx, nil) },
		"queues": func(ctx context.Context) (any, error) { return r.ListQueuesWithResponse(ctx) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if got, err := read(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s were read without a turn: %v, %v", name, got, err)
		}
		cancel()
	}
	if got := r.call("GET", "/v1/tasks/none", ""); got.status != http.StatusNotFound {
		t.Errorf("what is no page: %d %s", got.status, got.body)
	}
	for _, end := range ends {
		end()
	}
	if got := r.call("GET", "/v1/tasks", ""); got.status != http.StatusOK {
		t.Errorf("afterwards: %d %s", got.status, got.body)
	}
}

// deadlines is a connection that notes what it was given time for.
type deadlines struct {
	*httptest.ResponseRecorder
	steps []int // bytes written since each deadline
	until []time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.steps, d.until = append(d.steps, 0), append(d.until, at)
	return nil
}

func (d *deadlines) Write(b []byte) (int, error) {
	d.steps[len(d.steps)-1] += len(b)
	return d.ResponseRecorder.Write(b)
}

func TestPaced_GivesTimeForEachPart(t *testing.T) {
	t.Parallel()
	d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	n, err := paced{d, http.NewResponseController(d), clock.Now().Add(time.Minute)}.Write(make([]byte, 2*writeStep+1))
	if want := []int{writeStep, writeStep, 1}; err != nil || n != 2*writeStep+1 || !slices.Equal(d.steps, want) {
		t.Errorf("%d bytes in steps of %v, %v; want %v", n, d.steps, err, want)
	}
}
