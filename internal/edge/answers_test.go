package edge

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestAnswers_AreBoundedInSum(t *testing.T) {
	t.Parallel()
	r := startRig(t, nil, func(o *Options) { o.TransferMemory = 1 << 20 })
	room := r.server.answers
	room.takeAnyway(other, 900<<10) // as of clients that do not read
	got := r.call("GET", "/large", "")
	p := got.problem(t)
	if p.Code != "overloaded" || got.header.Get("Retry-After") == "" || !strings.Contains(p.Detail, "transfer-memory") {
		t.Errorf("%+v", p)
	}
	if got := r.call("GET", "/small", ""); got.status != http.StatusOK {
		t.Errorf("a small answer: %d %s", got.status, got.body)
	}
	room.give(other, 900<<10)
	for range 20 { // each gives its room back
		if got := r.call("GET", "/large", ""); got.status != http.StatusOK || len(got.body) < largeSize {
			t.Fatalf("%d %.300s", got.status, got.body)
		}
	}
}

// Nothing of an answer is sent before all of it is text: afterwards, its status could not say that it failed.
func TestJSON_SendsNothingOfWhatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	sent := httptest.NewRecorder()
	c := echo.New().NewContext(httptest.NewRequest(http.MethodGet, "/", nil), sent)
	err := new(Server).JSON(c, http.StatusOK, json.RawMessage("@"))
	if err == nil || c.Response().Committed || sent.Body.Len() > 0 {
		t.Errorf("sent %d %s, and returned %v", sent.Code, sent.Body, err)
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

func TestAnswers_EndOneThatIsReadTooSlowly(t *testing.T) {
	t.Parallel()
	const whole = 300 * time.Millisecond
	d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	start := clock.Now()
	_, _ = paced{d, http.NewResponseController(d), start.Add(whole)}.Write(make([]byte, 3*writeStep))
	for _, until := range d.until {
		if until.After(start.Add(whole)) {
			t.Errorf("a part may take until %s after the start, want %s", until.Sub(start), whole)
		}
	}
	if len(d.until) != 3 {
		t.Errorf("%d deadlines", len(d.until))
	}
}

// Who does not read large answers to changes gets them nevertheless. CheckShare refuses further ones.
func TestAnswers_OfChangesAreOwed(t *testing.T) {
	t.Parallel()
	r := startRig(t, nil, func(o *Options) { o.TransferMemory = 1 << 20 })
	c := r.server.Echo().NewContext(httptest.NewRequest(http.MethodPost, "/large", nil), httptest.NewRecorder())
	c.Request().RemoteAddr = local.Addr().String() + ":1"
	room := r.server.answers
	for room.take(local, 100<<10) { // as reads do
	}
	if got := r.call("POST", "/large", ""); got.status != http.StatusOK || len(got.body) < largeSize {
		t.Errorf("a change, with slow readers at the address: %d, %d bytes", got.status, len(got.body))
	}
	if got := r.call("GET", "/large", ""); got.problem(t).Code != task.CodeOverloaded {
		t.Errorf("a read: %d", got.status)
	}
	testkit.Must(t, r.server.CheckShare(c))
	room.takeAnyway(local, 200<<10)
	err := r.server.CheckShare(c)
	if CodeOf(err) != task.CodeOverloaded || !strings.Contains(err.Error(), "read the answers") {
		t.Errorf("of an address that reads nothing: %v", err)
	}
}

// What an answer will take is counted once: when it is written, it has its place.
func TestReserve_CountsTheAnswerBefore(t *testing.T) {
	t.Parallel()
	reserved := make(chan int64, 1)
	var r *rig
	r = startRig(t, map[string]echo.HandlerFunc{"/reserved": func(c echo.Context) error {
		release, err := r.server.Reserve(c, largeSize)
		if err != nil {
			return err
		}
		defer release()
		reserved <- r.server.answers.holds()
		return r.server.JSON(c, http.StatusOK, strings.Repeat("x", largeSize))
	}}, func(o *Options) { o.TransferMemory = 2 * (largeSize + 1<<10) })
	if got := r.call("GET", "/reserved", ""); got.status != http.StatusOK || <-reserved != largeSize {
		t.Errorf("%d %.300s", got.status, got.body)
	}
	testkit.Eventually(t, "its room is free", func() bool { return r.server.answers.holds() == 0 })
	r.server.answers.takeAnyway(other, largeSize)
	p := r.call("GET", "/reserved", "").problem(t)
	if p.Code != task.CodeOverloaded || !strings.Contains(p.Detail, "smaller batches") {
		t.Errorf("%+v", p)
	}
}
