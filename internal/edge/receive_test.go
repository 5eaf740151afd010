package edge

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/testkit"
)

// slowBodies sends the first n bytes of bodies, and waits until they count.
func (r *rig) slowBodies(bodies, n int) {
	r.t.Helper()
	for range bodies {
		conn := r.dial()
		_, err := io.WriteString(conn, head(8<<20)+strings.Repeat(" ", n))
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
	r := startRig(t, nil, func(o *Options) { o.ReadTimeout = time.Minute }) // the bodies stay until the test ends
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
	r := startRig(t, nil, func(o *Options) { o.TransferMemory, o.ReadTimeout = 4<<20, time.Minute })
	r.slowBodies(3, 600<<10)
	testkit.Eventually(t, "they hold the share", func() bool { return r.server.bodies.holds() >= 3*(600<<10-firstRoom) })
	large := strings.Repeat(" ", 700<<10)
	got := r.call("POST", "/body", large)
	if p := got.problem(t); p.Code != "overloaded" || !strings.Contains(p.Detail, "transfer-memory") {
		t.Errorf("from the same address: %+v", p)
	}
	req, err := http.NewRequest("POST", r.url+"/body", strings.NewReader(large))
	testkit.Must(t, err)
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
	r := startRig(t, nil, func(o *Options) { o.TransferTimeout = 300 * time.Millisecond })
	conn := r.dial()
	_, err := io.WriteString(conn, head(8<<20))
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

// bodyInSteps is a body of which readStep bytes arrive at a time. It notes the deadlines between them.
type bodyInSteps struct {
	http.ResponseWriter
	rest  string
	until []time.Time
}

func (b *bodyInSteps) Read(p []byte) (int, error) {
	n := copy(p[:min(readStep, len(p))], b.rest)
	b.rest = b.rest[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (b *bodyInSteps) SetReadDeadline(at time.Time) error {
	b.until = append(b.until, at)
	return nil
}

func TestReceive_GivesLargeBodiesTimeWhileTheyArrive(t *testing.T) {
	t.Parallel()
	const steps, step, whole = 5, time.Minute, time.Hour
	b := &bodyInSteps{rest: strings.Repeat(" ", steps*readStep)}
	in := inflow{
		body: b, ctrl: http.NewResponseController(b), size: steps * readStep, most: 1 << 20, step: step, whole: whole,
		bodies: newBudget(4 << 20), client: other,
	}
	begun := clock.Now()
	raw, err := in.read()
	if err != nil || len(raw) != steps*readStep {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	if len(b.until) < steps-1 {
		t.Errorf("%d deadlines for %d steps", len(b.until), steps)
	}
	for _, until := range b.until {
		if until.Before(begun.Add(step)) || until.After(clock.Now().Add(step)) {
			t.Errorf("a step may take until %s after the begin, want %s from its begin", until.Sub(begun), step)
		}
	}
}

func TestReceive_EndsABodyThatStalls(t *testing.T) {
	t.Parallel()
	r := startRig(t, nil, func(o *Options) { o.ReadTimeout = 500 * time.Millisecond })
	conn := r.dial()
	_, err := io.WriteString(conn, head(1<<20)+strings.Repeat(" ", 2*readStep))
	testkit.Must(t, err)
	status, text := statusOf(t, conn)
	if status != http.StatusRequestTimeout || !strings.Contains(text, "body_too_slow") {
		t.Errorf("%d %s", status, text)
	}
}

// What is announced takes no room, and what has arrived gives it back with the end of the request.
func TestReceive_BoundsBodiesInSum(t *testing.T) {
	t.Parallel()
	r := startRig(t, nil, func(o *Options) { o.TransferMemory = 512 << 10 })
	for range 10 {
		_, err := io.WriteString(r.dial(), head(8<<20)+"{")
		testkit.Must(t, err)
	}
	large := strings.Repeat("x", 200<<10)
	if got := r.call("POST", "/body", large); got.status != http.StatusCreated {
		t.Fatalf("beside bodies that were announced: %d %.300s", got.status, got.body)
	}
	free := func() bool { return r.server.bodies.holds() == 0 }
	testkit.Eventually(t, "the room of a request that has ended is free", free)
	r.server.bodies.takeAnyway(other, 500<<10)
	got := r.call("POST", "/body", large)
	p := got.problem(t)
	helps := strings.Contains(p.Detail, "512KiB") && strings.Contains(p.Detail, "transfer-memory")
	if p.Code != "overloaded" || got.header.Get("Retry-After") != "1" || !helps {
		t.Errorf("%+v", p)
	}
	if got := r.call("POST", "/body", "small"); got.status != http.StatusCreated {
		t.Errorf("a small body: %d %s", got.status, got.body)
	}
	r.server.bodies.give(other, 500<<10)
	if got := r.call("POST", "/body", large); got.status != http.StatusCreated {
		t.Errorf("afterwards: %d %.300s", got.status, got.body)
	}
}

func TestReceive_DoesNotWaitForABody(t *testing.T) {
	t.Parallel()
	r := startRig(t, nil, func(o *Options) { o.ReadTimeout = 50 * time.Millisecond })
	conn := r.dial()
	_, err := io.WriteString(conn, head(100)+"{")
	testkit.Must(t, err)
	raw, err := io.ReadAll(conn)
	testkit.Must(t, err)
	if !strings.HasPrefix(string(raw), "HTTP/1.1 408") || !strings.Contains(string(raw), "did not arrive in time") {
		t.Errorf("got %s", raw)
	}
}
