package api

import (
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestBudget_LeavesOthersAsMuchAsOneHolds(t *testing.T) {
	t.Parallel()
	for greedy, share := range map[int]int64{1: 500, 2: 333, 3: 250, 9: 100} {
		b := newBudget(1000)
		address := func(i int) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 32) }
		for range 1000 { // all take what they get
			for i := range greedy {
				b.take(address(i), 1)
			}
		}
		for i := range greedy {
			if got := b.held[address(i)]; math.Abs(float64(got-share)) > 1 {
				t.Errorf("beside %d others an address holds %d, want about %d", greedy-1, got, share)
			}
		}
		if !b.take(other, share/2) || b.take(other, share/2) {
			t.Errorf("beside %d who take all they may, another one does not get a half of their share", greedy)
		}
		b.give(other, share/2)
		for i := range greedy {
			b.give(address(i), b.held[address(i)])
		}
		if b.used != 0 || len(b.held) != 0 {
			t.Errorf("%d bytes are left, of %v", b.used, b.held)
		}
	}
}

// slowBodies sends the first n bytes of bodies, and waits until they count.
func (r *rig) slowBodies(bodies, n int) {
	r.t.Helper()
	for range bodies {
		conn := r.dial()
		_, err := io.WriteString(conn, head("/v1/tasks/batch", 8<<20)+strings.Repeat(" ", n))
		testkit.Must(r.t, err)
	}
}

func (b *budget) holds() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// A body of which a little more than the half has arrived does not count as a whole one.
func TestReceive_CountsABodyAsFarAsItHasArrived(t *testing.T) {
	t.Parallel()
	const arrived = 520 << 10
	r := startRig(t, func(o *Options) { o.ReadTimeout = time.Minute }) // the bodies stay until the test ends
	r.slowBodies(3, arrived)
	testkit.Eventually(t, "the bodies count", func() bool { return r.server.bodies.holds() >= 3*(arrived-firstRoom) })
	if got := r.server.bodies.holds(); got > 3*(arrived+readStep) {
		t.Errorf("3 bodies of which %d bytes have arrived count as %d", arrived, got)
	}
}

func TestReceive_OneAddressHoldsAShareOfTheBodies(t *testing.T) {
	t.Parallel()
	const another = "127.0.0.2"
	if l, err := net.Listen("tcp", another+":0"); err != nil {
		t.Skipf("this system has no second loopback address: %v", err)
	} else {
		testkit.Must(t, l.Close())
	}
	r := startRig(t, func(o *Options) { o.TransferMemory, o.ReadTimeout = 4<<20, time.Minute })
	r.slowBodies(3, 600<<10)
	testkit.Eventually(t, "they hold the share", func() bool { return r.server.bodies.holds() >= 3*(600<<10-firstRoom) })
	large := strings.Repeat(" ", 700<<10) + `{"type":"http"}`
	got := r.call("POST", "/v1/tasks", large)
	if p := got.problem(t); p.Code != "overloaded" || !strings.Contains(p.Detail, "transfer-memory") {
		t.Errorf("from the same address: %+v", p)
	}
	req, err := http.NewRequest("POST", r.url+"/v1/tasks", strings.NewReader(large))
	testkit.Must(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := from(another, t).Do(req)
	testkit.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusCreated {
		text, _ := io.ReadAll(resp.Body)
		t.Errorf("from another address: %d %s", resp.StatusCode, text)
	}
}

// from is a client at another loopback address.
func from(address string, t *testing.T) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// Each part comes in time, but the whole does not.
func TestReceive_EndsABodyThatTakesTooLong(t *testing.T) {
	t.Parallel()
	r := startRig(t, func(o *Options) { o.TransferTimeout = 300 * time.Millisecond })
	conn := r.dial()
	_, err := io.WriteString(conn, head("/v1/tasks/batch", 8<<20))
	testkit.Must(t, err)
	go func() {
		pace := time.NewTicker(20 * time.Millisecond)
		defer pace.Stop()
		for err == nil {
			<-pace.C
			_, err = io.WriteString(conn, strings.Repeat(" ", readStep))
		}
	}()
	status, text := statusOf(t, conn)
	if status != http.StatusRequestTimeout || !strings.Contains(text, "the whole body 300ms") {
		t.Errorf("%d %s", status, text)
	}
	testkit.Eventually(t, "its room is free", func() bool { return r.server.bodies.holds() == 0 })
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

// local is the address of the clients of a test.
var local = netip.MustParsePrefix("127.0.0.1/32")

// Who does not read large answers to changes gets them nevertheless, but no further ones. Behind the same address may
// be somebody who holds a lock, or runs an attempt: what has a small answer goes on.
func TestAnswers_RefuseLargeOnesToADebtor(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	calls := map[string]struct {
		call    string
		body    string
		refused bool
	}{
		"submitTask":       {"POST /v1/tasks", `{"type":"http"}`, true},
		"submitTasks":      {"POST /v1/tasks/batch", `{"tasks":[{"type":"http"}]}`, true},
		"changeTask":       {"PATCH /v1/tasks/small", `{"owner":"me"}`, true},
		"retryTask":        {"POST /v1/tasks/small/retry", "", true},
		"takeAttempts":     {"POST /v1/workers/w/take", `{"types":["x"]}`, true},
		"putSchedule":      {"PUT /v1/schedules/s", `{"every":"1h","task":{"type":"http"}}`, true},
		"pauseSchedule":    {"POST /v1/schedules/s/pause", `{}`, true},
		"resumeSchedule":   {"POST /v1/schedules/s/resume", "", true},
		"rollbackSchedule": {"POST /v1/schedules/s/rollback", `{"revision":1}`, true},
		"backfillSchedule": {
			"POST /v1/schedules/s/backfill", `{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"}`, true,
		},
		"repair":          {"POST /v1/doctor/repair", "", true},
		"cancelTask":      {"DELETE /v1/tasks/small", "", false},
		"reportProgress":  {"POST /v1/tasks/small/progress", `{"attempt":1,"progress":5}`, false},
		"reportAttempt":   {"POST /v1/tasks/small/attempts/1/report", `{"token":"t"}`, false},
		"finishAttempt":   {"POST /v1/tasks/small/attempts/1/finish", `{"token":"t","outcome":"succeeded"}`, false},
		"extendAttempts":  {"POST /v1/workers/w/extend", `{"attempts":[{"task":"small","attempt":1,"token":"t"}]}`, false},
		"leaveWorker":     {"DELETE /v1/workers/w", "", false},
		"deleteSchedule":  {"DELETE /v1/schedules/s", "", false},
		"triggerSchedule": {"POST /v1/schedules/s/trigger", "", false},
		"acquireLock":     {"POST /v1/locks/l/acquire", `{"holder":"h","ttl":"10s"}`, false},
		"renewLock":       {"POST /v1/locks/l/renew", `{"holder":"h","fence":1}`, false},
		"releaseLock":     {"POST /v1/locks/l/release", `{"holder":"h","fence":1}`, false},
		"pauseQueue":      {"POST /v1/queues/default/pause", "", false},
		"resumeQueue":     {"POST /v1/queues/default/resume", "", false},
		"limitQueue":      {"PUT /v1/queues/default/limit", `{"limit":5}`, false},
	}
	r := startRig(t, func(o *Options) { o.TransferMemory = 1 << 20 })
	r.submit("small")
	r.server.answers.room.takeAnyway(local, 600<<10)
	doc, err := Document()
	testkit.Must(t, err)
	for _, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			c, listed := calls[op.OperationID]
			if method == http.MethodGet {
				continue
			}
			if !listed {
				t.Errorf("%s is not listed", op.OperationID)
				continue
			}
			verb, path, _ := strings.Cut(c.call, " ")
			got := r.call(verb, path, c.body)
			if refused := strings.Contains(string(got.body), "read the answers"); refused != c.refused {
				t.Errorf("%s: refused %t, want %t: %d %.300s", op.OperationID, refused, c.refused, got.status, got.body)
			}
		}
	}
}

func TestAnswers_OweLargeOnesToChanges(t *testing.T) {
	t.Parallel()
	r := startRig(t, func(o *Options) { o.TransferMemory = 1 << 20 })
	room := r.server.answers.room
	for room.take(local, 100<<10) { // as reads do
	}
	payload := fmt.Sprintf(`{"id":"a","type":"http","delay":"1h","payload":"%s"}`, strings.Repeat("x", 100<<10))
	if got := r.call("POST", "/v1/tasks", payload); got.status != http.StatusCreated {
		t.Fatalf("with slow readers at the address: %d %.300s", got.status, got.body)
	}
	if got := r.call("GET", "/v1/tasks/a?", ""); got.problem(t).Code != "overloaded" {
		t.Errorf("a large read: %d", got.status)
	}
	room.takeAnyway(local, 200<<10)
	p := r.call("DELETE", "/v1/tasks/a", "").problem(t) // whose answer is the task
	if p.Code != "overloaded" || !strings.Contains(p.Detail, "read the answers") {
		t.Errorf("of an address that reads nothing: %+v", p)
	}
	room.give(local, 200<<10)
	if got := r.call("DELETE", "/v1/tasks/a", ""); got.status != http.StatusOK {
		t.Errorf("afterwards: %d %.300s", got.status, got.body)
	}
}

// A small body can ask for a large answer.
func TestBatch_ReservesRoomForItsAnswer(t *testing.T) {
	t.Parallel()
	r := startRig(t, func(o *Options) { o.TransferMemory = 1 << 20 })
	zeros := `{"tasks":[` + strings.Repeat("0,", 299) + `0]}`
	if got := r.call("POST", "/v1/tasks/batch", zeros); got.status != http.StatusOK {
		t.Fatalf("%d %.300s", got.status, got.body)
	}
	room := r.server.answers.room
	testkit.Eventually(t, "the room of the answer is free", func() bool { return room.holds() == 0 })
	room.takeAnyway(other, 600<<10)
	p := r.call("POST", "/v1/tasks/batch", zeros).problem(t)
	if p.Code != "overloaded" || !strings.Contains(p.Detail, "smaller batches") {
		t.Errorf("%+v", p)
	}
}
