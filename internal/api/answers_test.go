package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/testkit"
)

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
		end, err := r.endpoints.Control.TakePage(t.Context())
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

// owe leaves answers to changes unread, each a little more than 200 KiB, until pay is called or the test ends.
func (r *rig) owe(answers int) (pay func()) {
	r.t.Helper()
	body := fmt.Sprintf(`{"id":"owed","type":"http","delay":"1h","payload":"%s"}`, strings.Repeat("x", 200<<10))
	if got := r.call("POST", "/v1/tasks", body); got.status != http.StatusCreated {
		r.t.Fatalf("%d %.300s", got.status, got.body)
	}
	gate := make(chan struct{})
	var served sync.WaitGroup
	pay = sync.OnceFunc(func() { close(gate); served.Wait() })
	r.t.Cleanup(pay)
	for i := range answers {
		w := &gatedWriter{ResponseWriter: httptest.NewRecorder(), waiting: make(chan struct{}, 1), gate: gate}
		change := strings.NewReader(fmt.Sprintf(`{"queue":"queue-%d"}`, i))
		req := httptest.NewRequestWithContext(r.t.Context(), http.MethodPatch, "/v1/tasks/owed", change)
		req.RemoteAddr = "127.0.0.1:1"
		req.Header.Set("Content-Type", "application/json")
		served.Go(func() { r.server.Echo().ServeHTTP(w, req) })
		testkit.Receive(r.t, w.waiting, "an answer that nobody reads")
	}
	return pay
}

// goesOn are the changes that are not refused to an address that reads nothing: behind it may be somebody who holds a
// lock, or runs an attempt. The list is written by hand: a large answer that counts as small by mistake is not in it.
var goesOn = []string{
	"cancelTask", "moveTask", "reportProgress", "reportAttempt", "finishAttempt", "extendAttempts", "leaveWorker",
	"deleteSchedule", "triggerSchedule", "acquireLock", "renewLock", "releaseLock", "pauseQueue", "resumeQueue",
	"setQueueCapacity", "limitQueue", "setLimit", "deleteLimit", "pauseLimit", "resumeLimit",
	"forgetTask", "startBulk", "stopBulk",
	"deleteWorkflow",
}

// Who does not read large answers to changes gets them nevertheless, but no further ones.
func TestAnswers_RefuseLargeOnesToADebtor(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	r := startRig(t, func(o *rigOptions) { o.TransferMemory = 1 << 20 })
	r.submit("small")
	r.owe(3)
	doc, err := Document()
	testkit.Must(t, err)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if method == http.MethodGet {
				continue
			}
			body := ""
			if op.RequestBody != nil {
				body = "{}"
			}
			got := r.call(method, regexp.MustCompile(`{\w+}`).ReplaceAllString(path, "small"), body)
			refused := strings.Contains(string(got.body), "read the answers")
			if want := !slices.Contains(goesOn, op.OperationID); refused != want {
				t.Errorf("%s: refused %t, want %t: %d %.300s", op.OperationID, refused, want, got.status, got.body)
			}
		}
	}
}

func TestCancelTask_IsRefusedToADebtor(t *testing.T) {
	t.Parallel()
	r := startRig(t, func(o *rigOptions) { o.TransferMemory = 1 << 20 })
	pay := r.owe(3)
	p := r.call("DELETE", "/v1/tasks/owed", "").problem(t) // whose answer is the task
	if p.Code != "overloaded" || !strings.Contains(p.Detail, "read the answers") {
		t.Errorf("of an address that reads nothing: %+v", p)
	}
	pay()
	if got := r.call("DELETE", "/v1/tasks/owed", ""); got.status != http.StatusOK {
		t.Errorf("afterwards: %d %.300s", got.status, got.body)
	}
}

// A small body can ask for a large answer.
func TestBatch_ReservesRoomForItsAnswer(t *testing.T) {
	t.Parallel()
	r := startRig(t, func(o *rigOptions) { o.TransferMemory = 1 << 20 })
	zeros := `{"tasks":[` + strings.Repeat("0,", 299) + `0]}`
	if got := r.call("POST", "/v1/tasks/batch", zeros); got.status != http.StatusOK {
		t.Fatalf("%d %.300s", got.status, got.body)
	}
	for _, c := range []struct {
		address string
		bytes   int64
	}{{"192.0.2.1", 512 << 10}, {"192.0.2.2", 256 << 10}} { // of what is left, each may have a half
		testkit.Eventually(t, "room, when that answer is read", func() bool {
			_, err := r.server.Reserve(contextOf(c.address), c.bytes)
			return err == nil
		})
	}
	p := r.call("POST", "/v1/tasks/batch", zeros).problem(t)
	if p.Code != "overloaded" || !strings.Contains(p.Detail, "smaller batches") {
		t.Errorf("%+v", p)
	}
}
