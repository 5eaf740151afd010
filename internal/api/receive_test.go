package api

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// dial opens a connection on which a test says what it likes.
func (r *rig) dial() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	testkit.Must(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func head(path string, size int) string {
	return fmt.Sprintf(
		"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, size)
}

// statusOf reads the answer on a connection.
func statusOf(t *testing.T, conn net.Conn) (int, string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	testkit.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	return resp.StatusCode, string(body)
}

// The halves have been read by the server when it has answered a whole request that came with them in one packet.
func TestAdmission_CountsNoHalfRequests(t *testing.T) {
	t.Parallel()
	b, useCases := startBackend(t, func(o *control.Options) { o.MaxSubmissions = 1 })
	r := startRigOn(t, b, useCases)
	for _, path := range []string{"/v1/tasks", "/v1/tasks", "/v1/tasks/batch", "/v1/tasks/batch"} {
		conn := r.dial()
		_, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"+head(path, 100)+"{")
		testkit.Must(t, err)
		if status, _ := statusOf(t, conn); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
	for range 20 { // one of them comes after the halves
		if got := r.call("POST", "/v1/tasks", `{"type":"http"}`); got.status != http.StatusCreated {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
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
	r := startRig(t, func(o *Options) { o.ReadTimeout = 500 * time.Millisecond })
	conn := r.dial()
	_, err := io.WriteString(conn, head("/v1/tasks/batch", 1<<20)+strings.Repeat(" ", 2*readStep))
	testkit.Must(t, err)
	status, text := statusOf(t, conn)
	if status != http.StatusRequestTimeout || !strings.Contains(text, "body_too_slow") {
		t.Errorf("%d %s", status, text)
	}
}

// What is announced takes no room, and what has arrived gives it back with the end of the request.
func TestReceive_BoundsBodiesInSum(t *testing.T) {
	t.Parallel()
	var refused sync.Map
	r := startRig(t, func(o *Options) {
		o.TransferMemory, o.Refused = 512<<10, func(code string) { refused.Store(code, true) }
	})
	for range 10 {
		_, err := io.WriteString(r.dial(), head("/v1/tasks/batch", 8<<20)+"{")
		testkit.Must(t, err)
	}
	large := `{"type":"http","payload":"` + strings.Repeat("x", 200<<10) + `"}`
	if got := r.call("POST", "/v1/tasks", large); got.status != http.StatusCreated {
		t.Fatalf("beside bodies that were announced: %d %.300s", got.status, got.body)
	}
	free := func() bool { return r.server.bodies.holds() == 0 }
	testkit.Eventually(t, "the room of a request that has ended is free", free)
	r.server.bodies.takeAnyway(other, 500<<10)
	got := r.call("POST", "/v1/tasks", large)
	p := got.problem(t)
	helps := strings.Contains(p.Detail, "512KiB") && strings.Contains(p.Detail, "transfer-memory")
	if p.Code != "overloaded" || got.header.Get("Retry-After") != "1" || !helps {
		t.Errorf("%+v", p)
	}
	if _, counted := refused.Load("overloaded"); !counted {
		t.Error("the refusal is not counted")
	}
	if got := r.call("POST", "/v1/tasks", `{"type":"http"}`); got.status != http.StatusCreated {
		t.Errorf("a small body: %d %s", got.status, got.body)
	}
	r.server.bodies.give(other, 500<<10)
	if got := r.call("POST", "/v1/tasks", large); got.status != http.StatusCreated {
		t.Errorf("afterwards: %d %.300s", got.status, got.body)
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// No t.Parallel: allocations of other tests would count.
func TestParseJSON_TakesNoMoreMemoryThanItsText(t *testing.T) {
	doc, err := Document()
	testkit.Must(t, err)
	zeros := strings.Repeat("0,", 1<<19) + "0"
	names := &strings.Builder{}
	for i := range 20_000 {
		fmt.Fprintf(names, `,"k%d":0`, i)
	}
	for name, c := range map[string]struct{ schema, body string }{
		"items of a batch":       {"SubmissionBatch", `{"tasks":[` + zeros + `]}`},
		"a payload":              {"Submission", `{"type":"http","payload":[` + zeros + `]}`},
		"an array for an object": {"Submission", `{"type":"http","retry":[` + zeros + `]}`},
		"an array for a text":    {"Submission", `{"type":[` + zeros + `]}`},
		"an array for the body":  {"Submission", `[` + zeros + `]`},
		"delays":                 {"Submission", `{"type":"http","retry":{"delays":[` + zeros + `]}}`},
		"unknown fields":         {"Submission", `{"type":"http"` + names.String() + `}`},
		"labels": {
			"Submission", `{"type":"http","labels":{` + strings.TrimPrefix(names.String(), ",") + `}}`,
		},
		"exclusions of a schedule":   {"ScheduleDefinition", `{"exclude":[` + zeros + `]}`},
		"attempts that are extended": {"ExtendRequest", `{"attempts":[` + zeros + `]}`},
		"a checkpoint":               {"AttemptReport", `{"token":"x","checkpoint":[` + zeros + `]}`},
	} {
		schema := doc.Components.Schemas[c.schema]
		if schema == nil {
			t.Fatalf("no schema %s", c.schema)
		}
		raw := []byte(c.body)
		if got := allocated(func() { err = checkBody(schema.Value, raw) }); got > uint64(len(raw)) {
			t.Errorf("%s: %d bytes took %d (%v)", name, len(raw), got, err)
		}
	}
}

// No t.Parallel: allocations of other tests would count.
func TestParseJSON_RefusesDeepNestingCheaply(t *testing.T) {
	doc, err := Document()
	testkit.Must(t, err)
	batch := withoutItems(doc.Components.Schemas["SubmissionBatch"].Value, "tasks")
	arrays, objects := strings.Repeat("[", 1<<20), strings.Repeat(`{"a":`, 1<<18)
	long := strings.Repeat(`{"`+strings.Repeat("a", 10_000)+`":`, 99)
	for name, c := range map[string]struct{ schema, body, field string }{
		"arrays in a payload":    {"Submission", `{"payload":` + arrays, "payload"},
		"objects in a payload":   {"Submission", `{"payload":` + objects, "payload"},
		"long names":             {"Submission", `{"payload":` + long + "x", "payload"},
		"arrays for a text":      {"Submission", `{"type":` + arrays, "type"},
		"objects for a label":    {"Submission", `{"labels":{"a":` + objects, "labels.a"},
		"the payload of a tick":  {"ScheduleDefinition", `{"task":{"payload":` + arrays, "task.payload"},
		"a checkpoint":           {"AttemptReport", `{"checkpoint":` + arrays, "checkpoint"},
		"arrays for the body":    {"Submission", arrays, ""},
		"items of a batch":       {"", `{"tasks":[0,` + arrays, "tasks[1]"},
		"payloads of a batch":    {"", `{"tasks":[{"payload":` + objects, "tasks[0]"},
		"101 levels of an array": {"Submission", `{"payload":` + arrays[:101] + strings.Repeat("]", 101) + "}", "payload"},
	} {
		schema, options := batch, []jsontext.Options{jsontext.AllowDuplicateNames(true)}
		if c.schema != "" {
			schema, options = doc.Components.Schemas[c.schema].Value, nil
		}
		raw := []byte(c.body)
		got := allocated(func() { err = checkBody(schema, raw, options...) })
		var invalid *task.Error
		if !errors.As(err, &invalid) || invalid.Field != c.field {
			t.Errorf("%s: %.300v", name, err)
		}
		if got > 32*uint64(len(raw))+64<<10 {
			t.Errorf("%s: %d bytes took %d", name, len(raw), got)
		}
	}
}

func TestParseJSON_TakesWhatIsNested100Deep(t *testing.T) {
	doc, err := Document()
	testkit.Must(t, err)
	for _, body := range []string{
		`{"type":"http","payload":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
		`{"type":"http","payload":` + strings.Repeat(`{"a":[`, 50) + strings.Repeat("]}", 50) + `}`,
	} {
		testkit.Must(t, checkBody(doc.Components.Schemas["Submission"].Value, []byte(body)))
	}
}

// No t.Parallel: allocations of other tests would count.
func TestParseJSON_RefusesManyMembersCheaply(t *testing.T) {
	doc, err := Document()
	testkit.Must(t, err)
	names := &strings.Builder{}
	for i := range 120_000 {
		fmt.Fprintf(names, `,"%x":0`, i)
	}
	payload := `{"type":"http","payload":{` + names.String()[1:] + `}}`
	schema := doc.Components.Schemas["Submission"].Value
	got := allocated(func() { err = checkBody(schema, []byte(payload)) })
	if err == nil || !strings.Contains(err.Error(), "payload: is longer than the 262144 bytes") {
		t.Errorf("%v", err)
	}
	if got > 8*uint64(len(payload)) {
		t.Errorf("%d bytes took %d", len(payload), got)
	}
	blanks := strings.Repeat(" \n", 1<<10)
	spaced := `{"type":"http","payload":[` + strings.Repeat(`"a \"b ",`+blanks, 400) + `0]}`
	testkit.Must(t, checkBody(schema, []byte(spaced)))
}

// One body that has its turn takes up to 20 times its size, so the next one waits.
func TestDecoding_BoundsLargeBodiesAtOnce(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	r := startRig(t, func(o *Options) { o.RequestTimeout = 50 * time.Millisecond })
	for range decodingLimit {
		r.server.decoding <- struct{}{}
	}
	large := `{"type":"http","payload":"` + strings.Repeat("x", readStep) + `"}`
	for path, body := range map[string]string{"/v1/tasks": large, "/v1/tasks/batch": `{"tasks":[` + large + `]}`} {
		if got := r.call("POST", path, body); got.status != http.StatusServiceUnavailable {
			t.Errorf("%s of a large body: %d %.300s", path, got.status, got.body)
		}
	}
	r = startRig(t)
	for range decodingLimit - 1 {
		r.server.decoding <- struct{}{}
	}
	for path, body := range map[string]string{"/v1/tasks": large, "/v1/tasks/batch": `{"tasks":[` + large + `]}`} {
		if got := r.call("POST", path, body); got.status >= http.StatusBadRequest {
			t.Errorf("%s in its turn: %d %.300s", path, got.status, got.body)
		}
	}
	if got := r.call("POST", "/v1/tasks", `{"type":"http"}`); got.status != http.StatusCreated {
		t.Errorf("a small body: %d %.300s", got.status, got.body)
	}
}

func TestBatch_RefusesATaskLargerThanOneAlone(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	blanks := `{"type":"http","payload":{` + strings.Repeat(" ", 1<<20) + `}}`
	got := r.call("POST", "/v1/tasks/batch", `{"tasks":[`+blanks+`,{"type":"http"}]}`)
	var answer BatchAnswer
	testkit.Must(t, json.Unmarshal(got.body, &answer))
	if len(answer.Results) != 2 || answer.Results[0].Status != http.StatusRequestEntityTooLarge ||
		answer.Results[1].Status != http.StatusCreated {
		t.Errorf("%.600s", got.body)
	}
}

func TestConnections_AreBoundedForEachAddress(t *testing.T) {
	t.Parallel()
	r := startRig(t, func(o *Options) { o.MaxConnections = 2 })
	ask := func(conn net.Conn) (int, string) {
		_, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		testkit.Must(t, err)
		return statusOf(t, conn)
	}
	first, second := r.dial(), r.dial()
	for _, conn := range []net.Conn{first, second} {
		if status, text := ask(conn); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
	}
	third := r.dial()
	status, text := statusOf(t, third)
	if status != http.StatusTooManyRequests || !strings.Contains(text, "max-connections-per-address") {
		t.Errorf("the third one: %d %s", status, text)
	}
	if _, err := third.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("it stays open: %v", err)
	}
	if !r.logged.Has("refusing connections of an address") {
		t.Error("the log says nothing")
	}
	_ = first.Close()
	transport := &http.Transport{DisableKeepAlives: true}
	testkit.Eventually(t, "a connection that may stay", func() bool {
		resp, err := (&http.Client{Transport: transport}).Get(r.url + "/healthz")
		if err != nil { // it may be closed before it has sent the request
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
}

func TestConnectionBounds_LeaveFilesForTheRest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ perAddress, files, each, all int }{
		{16384, 1 << 20, 16384, 1 << 19}, {16384, 65536, 16384, 32768}, {16384, 1024, 256, 512}, {100, 1024, 100, 512},
		{0, 1024, 0, 512}, {16384, 0, 16384, 0}, {0, 0, 0, 0}, {16384, 3, 1, 1},
	} {
		if each, all := connectionBounds(c.perAddress, c.files); each != c.each || all != c.all {
			t.Errorf("%+v: %d connections of an address, and %d of all", c, each, all)
		}
	}
}

// A node without files could neither call Redis nor start a task.
func TestConnections_AreBoundedByTheOpenFiles(t *testing.T) {
	t.Parallel()
	var logged testkit.Log
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	l := limitConnections(inner, 0, 6, slog.New(slog.NewJSONHandler(&logged, nil)))
	t.Cleanup(func() { testkit.Must(t, l.Close()) })
	accepted := make(chan net.Conn, 9)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", inner.Addr().String())
		testkit.Must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	var open []net.Conn
	for range 3 {
		dial()
		open = append(open, testkit.Receive(t, accepted, "a connection"))
	}
	status, text := statusOf(t, dial())
	if status != http.StatusTooManyRequests || !strings.Contains(text, "3 connections, half of the 6 files") {
		t.Errorf("the fourth one: %d %s", status, text)
	}
	if !logged.Has("few clients can connect") || !logged.Has("refusing connections: they are half") {
		t.Error("the log does not say it")
	}
	testkit.Must(t, open[0].Close())
	dial()
	open = append(open, testkit.Receive(t, accepted, "a connection in the place of the first one"))
	for _, conn := range open[1:] {
		testkit.Must(t, conn.Close())
	}
}
