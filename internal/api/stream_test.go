package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// listener reads a stream of the server under test, and checks each event against the document.
type listener struct {
	*client.Stream
	t     *testing.T
	check *checker
	close func()
}

func (r *rig) listen(path string, headers ...string) *listener {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
	testkit.Must(r.t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.http.Do(req) //nolint:bodyclose // closed by l.close
	testkit.Must(r.t, err)
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != edge.StreamType {
		r.t.Fatalf("%s: status %d, Content-Type %q", path, resp.StatusCode, got)
	}
	l := &listener{Stream: client.NewStream(resp.Body), t: r.t, check: r.http.Transport.(*checker)}
	l.close = func() { cancel(); _ = resp.Body.Close() }
	r.t.Cleanup(l.close)
	return l
}

// next is the next event, whose data must fit the schema that the document names for it.
func (l *listener) next() client.Message {
	l.t.Helper()
	m, err := l.Next()
	testkit.Must(l.t, err)
	schema, ok := map[string]string{"log": "LogLine", "end": "Task", "dropped": "Dropped", problemEvent: "Problem"}[m.Name]
	if about, _, _ := strings.Cut(m.Name, "."); !ok && about != "task" {
		schema, ok = "Change", true
	}
	if !ok {
		schema = "Event"
	}
	if err := l.check.value(schema, m.Data); err != nil {
		l.t.Errorf("event %s does not fit %s: %v\n%s", m.Name, schema, err, m.Data)
	}
	return m
}

func (l *listener) wantEnd() {
	l.t.Helper()
	if m, err := l.Next(); !errors.Is(err, io.EOF) {
		l.t.Errorf("the stream goes on: %+v, %v", m, err)
	}
}

func event(kind, id string, change ...func(*task.Event)) task.Event {
	e := task.Event{Type: kind, Ref: ref(id), State: task.Running, Attempt: 1, Node: "n1", At: start, Queue: "default", TaskType: "http", Owner: "ops"}
	for _, f := range change {
		f(&e)
	}
	return e
}

func TestFollowEvents_SendsThemAsTheyHappen(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	l := r.listen("/v1/events")
	r.source.publish(event("task.running", "a"))
	r.source.publish(event(progressEvent, "a", func(e *task.Event) { e.Progress, e.Note = 0, "begins" }))
	r.source.publish(event("task.scheduled", "a", func(e *task.Event) { e.State, e.Error, e.DueAt = task.Scheduled, "exit 1", start }))
	for _, want := range []string{
		`{"type":"task.running","namespace":"default","task":"a","state":"running","attempt":1,"node":"n1","at":"2026-01-02T15:04:05.120Z","queue":"default","task_type":"http","owner":"ops"}`,
		`{"type":"task.progress","namespace":"default","task":"a","state":"running","attempt":1,"node":"n1","at":"2026-01-02T15:04:05.120Z","queue":"default","task_type":"http","owner":"ops","progress":0,"progress_note":"begins"}`,
		`{"type":"task.scheduled","namespace":"default","task":"a","state":"scheduled","attempt":1,"node":"n1","at":"2026-01-02T15:04:05.120Z","queue":"default","task_type":"http","owner":"ops","run_at":"2026-01-02T15:04:05.120Z","error":"exit 1"}`,
	} {
		m := l.next()
		if diff := cmp.Diff(asMap(t, want), asMap(t, string(m.Data))); diff != "" || m.Name != asMap(t, want)["type"] {
			t.Errorf("%s (-want +got):\n%s", m.Name, diff)
		}
	}
}

func TestFollowEvents_Filters(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	odd := func(change func(*task.Event)) task.Event { return event("task.running", "odd", change) }
	for query, sent := range map[string]task.Event{
		"":                         odd(func(e *task.Event) { e.Ref.Namespace = "other" }),
		"?":                        odd(func(e *task.Event) { e.Type = logEvent }),
		"?namespace=acme":          odd(func(*task.Event) {}),
		"?state=running":           odd(func(e *task.Event) { e.State = task.Failed }),
		"?state=scheduled,running": odd(func(e *task.Event) { e.State = task.Failed }),
		"?queue=default":           odd(func(e *task.Event) { e.Queue = "low" }),
		"?type=http":               odd(func(e *task.Event) { e.TaskType = "shell" }),
		"?owner=ops":               odd(func(e *task.Event) { e.Owner = "" }),
		"?node=n1":                 odd(func(e *task.Event) { e.Node = "n2" }),
		"?task=even":               odd(func(*task.Event) {}),
	} {
		l := r.listen("/v1/events" + query)
		r.source.publish(sent)
		r.source.publish(event("task.running", "even", func(e *task.Event) {
			if query == "?namespace=acme" {
				e.Ref.Namespace = "acme"
			}
		}))
		if m := l.next(); asMap(t, string(m.Data))["task"] != "even" {
			t.Errorf("%s let through %s", query, m.Data)
		}
		l.close()
	}
}

func TestFollowEvents_FollowsAllNamespaces(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	l := r.listen("/v1/events?namespace=*")
	for _, namespace := range []string{"default", "acme"} {
		r.source.publish(event("task.running", "a", func(e *task.Event) { e.Ref.Namespace = namespace }))
		if got := asMap(t, string(l.next().Data))["namespace"]; got != namespace {
			t.Errorf("namespace %v, want %s", got, namespace)
		}
	}
}

func TestFollowEvents_TellsOfLostEvents(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	l := r.listen("/v1/events")
	for want, lose := range map[string]func(tasks.EventListener){
		`{"count":0,"reason":"connection_lost"}`: func(l tasks.EventListener) { l.Connected() },
		`{"count":1,"reason":"unreadable"}`:      func(l tasks.EventListener) { l.Unreadable(errors.New("no JSON")) },
	} {
		r.source.call(lose)
		if m := l.next(); m.Name != "dropped" || string(m.Data) != want {
			t.Errorf("got %s %s, want %s", m.Name, m.Data, want)
		}
		r.source.publish(event("task.running", "a"))
		if m := l.next(); m.Name != "task.running" {
			t.Errorf("then %s %s", m.Name, m.Data)
		}
	}
}

// gatedWriter is the connection of a client that reads nothing before its gate is opened.
type gatedWriter struct {
	http.ResponseWriter
	waiting chan struct{} // has room for one: the first write waits at the gate
	gate    chan struct{}
	writes  int
}

func (w *gatedWriter) Write(p []byte) (int, error) {
	w.writes++
	select {
	case w.waiting <- struct{}{}:
	default:
	}
	<-w.gate
	return w.ResponseWriter.Write(p)
}

func (w *gatedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestFollowEvents_EndsTheStreamOfASlowReaderOnly(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	recorder := httptest.NewRecorder()
	w := &gatedWriter{ResponseWriter: recorder, waiting: make(chan struct{}, 1), gate: make(chan struct{})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		r.server.Echo().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/v1/events?queue=default", nil))
	}()
	<-w.waiting

	quick := r.listen("/v1/events")
	const lost, burst = 7, 100
	for i := range streamBuffer + lost {
		r.source.publish(event("task.running", "other", func(e *task.Event) { e.Queue = "other" }))
		r.source.publish(event("task.running", fmt.Sprint(i)))
		if (i+1)%burst > 0 && i+1 < streamBuffer+lost {
			continue
		}
		for range 2 * (i%burst + 1) {
			if m, err := quick.Next(); err != nil || m.Name != "task.running" {
				t.Fatalf("the quick reader got %s %s, %v", m.Name, m.Data, err)
			}
		}
	}
	close(w.gate)
	<-served

	slow := &listener{Stream: client.NewStream(recorder.Body), t: t, check: r.http.Transport.(*checker)}
	for i := range streamBuffer {
		if m := slow.next(); asMap(t, string(m.Data))["task"] != fmt.Sprint(i) {
			t.Fatalf("event %d is %s", i, m.Data)
		}
	}
	last := slow.next()
	said := asMap(t, string(last.Data))
	if last.Name != "dropped" || said["count"] != float64(lost) || said["reason"] != "slow_reader" ||
		said["detail"] != slowText {
		t.Errorf("the last event is %s %s", last.Name, last.Data)
	}
	slow.wantEnd()
	if w.writes > 50 { // what waits together goes out together
		t.Errorf("%d writes for %d events", w.writes, streamBuffer)
	}
}

// Both readers get the same events. The one that reads none must not have the kernel keep MBs for it.
func TestFollowEvents_DropsAReaderOfNothingEarly(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	idle := r.dial()
	testkit.Must(t, idle.(*net.TCPConn).SetReadBuffer(64<<10)) // by itself it has as many MB as the system likes
	_, err := io.WriteString(idle, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	testkit.Must(t, err)
	readUntil(t, idle, ": open") // and no further
	quick := r.listen("/v1/events")
	const burst = 100
	for !r.source.logged.Has("dropping a reader") {
		for range burst {
			r.source.publish(event("task.running", "a", func(e *task.Event) { e.Error = strings.Repeat("x", 400) }))
		}
		for range burst {
			if _, err := quick.Next(); err != nil {
				t.Fatal(err)
			}
		}
	}
	text := readUntil(t, idle, slowText)
	if n := len(text); n > 2<<20 {
		t.Errorf("%d bytes waited for a client that read nothing", n)
	}
}

// readUntil reads what a connection has up to a text.
func readUntil(t *testing.T, conn net.Conn, text string) string {
	t.Helper()
	testkit.Must(t, conn.SetReadDeadline(time.Now().Add(testkit.Limit)))
	var got strings.Builder
	for buf := make([]byte, 64<<10); !strings.Contains(got.String(), text); {
		n, err := conn.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			t.Fatalf("after %d bytes: %v", got.Len(), err)
		}
	}
	return got.String()
}

func TestStreams_AreBounded(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(*rigOptions){
		"max-streams-per-address": func(o *rigOptions) { o.StreamsPerAddr = 2 },
		"max-streams":             func(o *rigOptions) { o.MaxStreams = 2 },
	} {
		r := startRig(t, limit)
		r.submit("a")
		events := r.listen("/v1/events")
		r.listen("/v1/tasks/a/logs?follow=true")
		for _, path := range []string{"/v1/events", "/v1/tasks/a/logs?follow=true"} {
			got := r.call("GET", path, "")
			p := got.problem(t)
			told := strings.Contains(p.Detail, "("+name+")")
			if p.Code != "too_many_streams" || !told || got.header.Get("Retry-After") != "5" {
				t.Errorf("%s: %s: %+v", name, path, p)
			}
		}
		if got := r.call("GET", "/v1/tasks/a/logs", ""); got.status != http.StatusOK {
			t.Errorf("%s: a page: %d", name, got.status)
		}
		events.close()
		testkit.Eventually(t, "a place", func() bool {
			resp, err := r.http.Get(r.url + "/v1/events")
			testkit.Must(t, err)
			return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
		})
	}
}

func TestWaitingCalls_AreBoundedForEachAddress(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	fill := func(p *edge.Places) (leave func()) {
		for range waitsPerAddress {
			leave, _ = p.Enter(contextOf("127.0.0.1"))
		}
		return leave
	}
	for _, c := range []struct {
		path, body string
		leave      func()
	}{
		{"/v1/workers/w/take", `{"types":["a"],"wait":"1ms"}`, fill(r.endpoints.takes)},
		{"/v1/locks/l/acquire", `{"holder":"h","ttl":"10s","wait":"1ms"}`, fill(r.endpoints.locks)},
	} {
		if p := r.call("POST", c.path, c.body).problem(t); p.Code != "overloaded" {
			t.Errorf("%s: %+v", c.path, p)
		}
		c.leave()
		if got := r.call("POST", c.path, c.body); strings.Contains(string(got.body), `"overloaded"`) {
			t.Errorf("%s, with a place: %s", c.path, got.body)
		}
	}
}

func TestStream_IsKeptAliveAndOutlivesTheTimeForRequests(t *testing.T) {
	t.Parallel()
	r := startRig(t, func(o *rigOptions) {
		o.Heartbeat, o.ReadTimeout, o.RequestTimeout = 20*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	})
	req, err := http.NewRequest(http.MethodGet, r.url+"/v1/events", nil)
	testkit.Must(t, err)
	resp, err := r.http.Do(req)
	testkit.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	const beat = ": alive\n\n"
	opening := make([]byte, len(": open\n\nid: ABCDEFGH.0.-62135596800000\n\n"))
	_, err = io.ReadFull(resp.Body, opening)
	testkit.Must(t, err)
	for range 20 { // 400 ms
		got := make([]byte, len(beat))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != beat {
			t.Fatalf("got %q, %v", got, err)
		}
	}
}

func TestStream_ThatCannotBeFedIsAProblem(t *testing.T) {
	t.Parallel()
	r := startRig(t, func(o *rigOptions) { o.RequestTimeout = 20 * time.Millisecond })
	r.source.kill()
	if p := r.call("GET", "/v1/events", "").problem(t); p.Code != "unavailable" {
		t.Errorf("got %+v", p)
	}
	testkit.Eventually(t, "the feed is closed", func() bool { return !r.source.listenedTo() })
}

func TestStream_EndsWithItsClient(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.submit("a")
	r.listen("/v1/events").close()
	r.listen("/v1/tasks/a/logs?follow=true").close()
	testkit.Eventually(t, "both feeds are closed", func() bool { return !r.source.listenedTo() })
}

func (r *rig) submit(id string) {
	r.t.Helper()
	if got := r.call("POST", "/v1/tasks", `{"type":"shell","id":"`+id+`"}`); got.status != http.StatusCreated {
		r.t.Fatalf("status %d: %s", got.status, got.body)
	}
}

// write adds a line to the log of a task and publishes its event.
func (r *rig) write(id, text string) {
	r.log(id, text)
	r.source.publish(event(logEvent, id, func(e *task.Event) { e.Text = text }))
}

func TestReadLogs_AnswersPages(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.submit("a")
	if got := r.call("GET", "/v1/tasks/a/logs", ""); string(got.body) != "{\"lines\":[]}\n" {
		t.Errorf("an empty log: %s", got.body)
	}
	for i := range 5 {
		r.log("a", fmt.Sprint("line ", i))
	}
	var seen []string
	after := ""
	for range 4 {
		var page wire.LogPage
		testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/tasks/a/logs?limit=2"+after, "").body, &page))
		for _, l := range page.Lines {
			seen = append(seen, l.Text)
		}
		after = "&after=" + wire.Value(page.NextCursor)
	}
	if diff := cmp.Diff([]string{"line 0", "line 1", "line 2", "line 3", "line 4"}, seen); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestFollowLogs_EndsWithItsTask(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.submit("a")
	r.submit("b")
	r.log("a", "before")
	l := r.listen("/v1/tasks/a/logs?follow=true")
	if m := l.next(); m.Name != "log" || m.ID != "1-1" || asMap(t, string(m.Data))["text"] != "before" {
		t.Errorf("first: %+v", m)
	}
	r.write("b", "of another task")
	for i := range 3 {
		r.write("a", fmt.Sprint("line ", i))
	}
	for i := range 3 {
		if m := l.next(); m.ID != fmt.Sprint("1-", i+2) || asMap(t, string(m.Data))["text"] != fmt.Sprint("line ", i) {
			t.Errorf("line %d: %+v %s", i, m, m.Data)
		}
	}
	r.write("a", "last words")
	r.end("a", task.Succeeded, "")
	r.source.publish(event("task.succeeded", "a"))
	if m := l.next(); asMap(t, string(m.Data))["text"] != "last words" {
		t.Errorf("last: %s", m.Data)
	}
	if m := l.next(); m.Name != "end" || asMap(t, string(m.Data))["state"] != "succeeded" {
		t.Errorf("end: %+v %s", m, m.Data)
	}
	l.wantEnd()
}

func TestFollowLogs_OfAnEndedTaskEndsAtOnce(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.submit("a")
	lines := make([]string, 2*defaultLogLimit)
	for i := range lines {
		lines[i] = fmt.Sprint(i)
	}
	r.log("a", lines...)
	r.end("a", task.Failed, "boom")
	l := r.listen("/v1/tasks/a/logs?follow=true")
	for i := range lines {
		if m := l.next(); asMap(t, string(m.Data))["text"] != fmt.Sprint(i) {
			t.Fatalf("line %d is %s", i, m.Data)
		}
	}
	if m := l.next(); m.Name != "end" {
		t.Errorf("got %+v", m)
	}
	l.wantEnd()
}

func TestFollowLogs_ResumesAfterACursor(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.submit("a")
	r.log("a", "0", "1", "2")
	for path, header := range map[string]string{"?follow=true&after=1-2": "", "?follow=true": "1-2", "?follow=true&after=1-1": "1-2"} {
		var headers []string
		if header != "" {
			headers = []string{"Last-Event-ID", header}
		}
		l := r.listen("/v1/tasks/a/logs"+path, headers...)
		if m := l.next(); m.ID != "1-3" {
			t.Errorf("%s, header %q: goes on with %s", path, header, m.ID)
		}
		l.close()
	}
}

func TestFollowLogs_FindsLinesWithoutAnEvent(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	r := startRig(t)
	r.submit("a")
	l := r.listen("/v1/tasks/a/logs?follow=true")
	r.log("a", "quiet")
	if m := l.next(); m.ID != "1-1" {
		t.Errorf("got %+v", m)
	}
}

func TestFollowLogs_ReadsThePayloadAtTheEndOnly(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	body := `{"type":"shell","id":"a","payload":{"command":["true"],"stdin":"` + strings.Repeat("x", task.PayloadLimit/2) + `"}}`
	if got := r.call("POST", "/v1/tasks", body); got.status != http.StatusCreated {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	r.log("a", "first")
	sent := func() int {
		n, err := strconv.Atoi(r.db.InfoMap(t.Context(), "stats").Val()["Stats"]["total_net_output_bytes"])
		testkit.Must(t, err)
		return n
	}
	before := sent()
	l := r.listen("/v1/tasks/a/logs?follow=true")
	l.next()
	for range 3 {
		r.write("a", "more")
		l.next()
	}
	if n := sent() - before; n > task.PayloadLimit/4 {
		t.Errorf("Redis sent %d bytes for 4 lines", n)
	}
	r.end("a", task.Succeeded, "")
	r.source.publish(event("task.succeeded", "a"))
	if m := l.next(); m.Name != "end" || len(m.Data) < task.PayloadLimit/2 {
		t.Errorf("the stream ends with %s of %d bytes, want the whole task", m.Name, len(m.Data))
	}
}

func TestLogFollower_LooksWhenItsTaskHasNews(t *testing.T) {
	source := &stubSource{}
	useCases := control.New(control.Options{Events: source.startHub(t)})
	feed, err := useCases.FollowLogs(t.Context(), control.Caller{Namespace: "default"}, "a")
	testkit.Must(t, err)
	defer feed.Close()
	<-feed.Ready()
	f := logFollower{feed: feed, streams: func() int { return 0 }}
	for name, tell := range map[string]func(){
		"a line":                func() { source.publish(event(logEvent, "a")) },
		"its end":               func() { source.publish(event("task.succeeded", "a")) },
		"many lines":            func() { source.publish(event(logEvent, "a")); source.publish(event(logEvent, "a")) },
		"a lost Redis":          func() { source.call(func(l tasks.EventListener) { l.Connected() }) },
		"an event, not decoded": func() { source.call(func(l tasks.EventListener) { l.Unreadable(errors.New("no JSON")) }) },
	} {
		tell()
		testkit.Must(t, f.wait(t.Context(), nil, nil)) // without a timer, only the feed can end it
		source.publish(event(logEvent, "b"))
		if len(feed.C()) != 0 {
			t.Errorf("%s: it looks twice, or for another task", name)
		}
	}
}

func TestStream_EndsWhenTheServerStops(t *testing.T) {
	t.Parallel()
	r := startRig(t, func(o *rigOptions) { o.ShutdownGrace = 10 * time.Minute })
	r.submit("a")
	events, logs := r.listen("/v1/events"), r.listen("/v1/tasks/a/logs?follow=true")
	testkit.Must(t, r.stop())
	events.wantEnd()
	logs.wantEnd()
}

func TestFollowEvents_ResumesAfterAnEvent(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	stays := r.listen("/v1/events?task=none")
	defer stays.close()
	l := r.listen("/v1/events")
	r.source.publish(event("task.queued", "a"))
	m := l.next()
	l.close()
	r.source.publish(event("task.running", "a"))
	r.source.publish(event("task.running", "b"))
	l = r.listen("/v1/events?task=b", "Last-Event-ID", m.ID)
	if got := l.next(); got.Name != "task.running" || asMap(t, string(got.Data))["task"] != "b" || got.ID == m.ID {
		t.Errorf("got %+v %s", got, got.Data)
	}
	r.source.publish(event("task.succeeded", "b"))
	if got := l.next(); got.Name != "task.succeeded" {
		t.Errorf("then %+v", got)
	}
	l.close()
	l = r.listen("/v1/events", "Last-Event-ID", "OTHER.17.1767366245120")
	defer l.close()
	want := map[string]any{"count": 0.0, "reason": "not_kept", "since": "2026-01-02T15:04:05.120Z"}
	if got := l.next(); got.Name != "dropped" || !cmp.Equal(asMap(t, string(got.Data)), want) {
		t.Errorf("of another node: %+v %s", got, got.Data)
	}
	if p := r.call("GET", "/v1/events", "", "Last-Event-ID", "nonsense").problem(t); p.Status != http.StatusBadRequest {
		t.Errorf("of no event: %+v", p)
	}
}
