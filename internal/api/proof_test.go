package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/bulks"
	"github.com/dts-sched/dts/internal/store/doctor"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// pathValues are what stands for the parameters of a path, by the beginning of the path.
var pathValues = map[string]map[string]string{
	"/v1/tasks/":     {"id": "ended"},
	"/v1/schedules/": {"id": "nightly"},
	"/v1/locks/":     {"name": "door"},
	"/v1/nodes/":     {"node": "n1"},
	"/v1/bulk/":      {"bulk": "b1"},
	"/v1/runs/":      {"id": "flow"},
	"/v1/workflows/": {"id": "etl"},
}

// queryValues are what stands for the parameters of a query, by name; "": the parameter does not change what is read.
var queryValues = map[string]string{
	"namespace": "", "state": "scheduled,running,failed", "queue": "default", "type": "http", "owner": "ops", "node": "n1",
	"schedule": "nightly", "limit": "2", "cursor": "", "label": "team=x", "paused": "false", "count": "3", "after": "",
	"since": "2020-01-01T00:00:00Z", "until": "", "gaps": "true", "from": "2020-01-01T00:00:00Z", "to": "", "hours": "1",
	"check": "task-unreadable", "partition": "0", "follow": "true", "task": "ended", "cron": "@daily", "timezone": "",
	"fields": "labels,finished_at", "about": "task,schedule,queue,node",
	"format": "json", // the other forms are no JSON
}

// reads are the requests that read, for each operation of the document: one without parameters, and one for each of the
// parameters of its query. A parameter without a value above has its example in the document.
func reads(t *testing.T) (paths []string) {
	t.Helper()
	doc, err := strictDocument()
	testkit.Must(t, err)
	for path, item := range doc.Paths.Map() {
		if item.Get == nil {
			continue
		}
		for begins, values := range pathValues {
			for name, value := range values {
				if strings.HasPrefix(path, begins) {
					path = strings.ReplaceAll(path, "{"+name+"}", value)
				}
			}
		}
		parameters := ParametersOf(item, item.Get)
		for _, p := range parameters {
			if name := "{" + p.Value.Name + "}"; strings.Contains(path, name) {
				path = strings.ReplaceAll(path, name, exampleOf(t, p.Value))
			}
		}
		queries := queriesOf(t, parameters)
		if item.Get.OperationID == "examine" { // of damage, it has a test of its own
			queries = nil
			for _, check := range doctor.Checks {
				if check.Name != "latency" { // what it finds is how busy this machine is
					queries = append(queries, "?check="+check.Name)
				}
			}
		}
		for _, query := range queries {
			paths = append(paths, path+query)
		}
	}
	slices.Sort(paths)
	return paths
}

// exampleOf is the example that the document has of a parameter.
func exampleOf(t *testing.T, p *openapi3.Parameter) string {
	t.Helper()
	for _, example := range []any{p.Example, p.Schema.Value.Example} {
		if example != nil {
			return fmt.Sprint(example)
		}
	}
	t.Fatalf("nothing stands for the parameter %s: give it an example in openapi.yaml", p.Name)
	return ""
}

func queriesOf(t *testing.T, parameters openapi3.Parameters) []string {
	t.Helper()
	queries := []string{""}
	for _, p := range parameters {
		if p.Value.In != "query" {
			continue
		}
		value, ok := queryValues[p.Value.Name]
		if !ok {
			value = exampleOf(t, p.Value)
		}
		if p.Value.Name == "since" && p.Value.Schema.Value.Format == "" { // a duration, and no time
			value = "24h"
		}
		if value != "" {
			queries = append(queries, "?"+p.Value.Name+"="+url.QueryEscape(value))
		}
	}
	return queries
}

// nthFails is a hook by which the n-th command or pipeline fails.
type nthFails struct {
	mu     sync.Mutex
	left   int // commands until that one; 0: none fails
	failed bool
}

var errCut = errors.New("the test cuts the connection")

// arm has the n-th command from now on fail; 0: none.
func (f *nthFails) arm(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.failed = n, false
}

// has reports whether a command has failed.
func (f *nthFails) has() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

func (f *nthFails) next() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return nil
	}
	if f.left--; f.left > 0 {
		return nil
	}
	f.failed = true
	return errCut
}

func (f *nthFails) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *nthFails) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := f.next(); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (f *nthFails) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := f.next(); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}

// quietNodes reads the list of nodes only when it is asked for it: the view would be read at some time or other.
type quietNodes struct{ *cluster.Observer }

func (quietNodes) View() cluster.View { return cluster.View{} }

// startFull is a rig with something of all that DTS keeps. Commands of its server fail as its hook says.
func startFull(t *testing.T) (*rig, *nthFails) {
	t.Helper()
	server := redistest.Start(t)
	b, _ := startBackendOn(t, server)
	db, fails := server.DB(t), &nthFails{}
	db.AddHook(fails)
	store := openStore(t, db)
	testkit.Must(t, store.Advance(t.Context(), func(context.Context) ([]cluster.Node, error) { return nil, nil }))
	observer := cluster.NewObserver(cluster.Options{
		DB: db, Key: store.Keys.Nodes(), Cordons: store.Keys.Cordons(), Channel: store.Keys.Members(),
	})
	t.Cleanup(observer.Close)
	queues := queue.New(queue.Options{DB: db})
	useCases := control.New(control.Options{
		Store: store, Queues: queues, Nodes: quietNodes{observer}, Cordons: observer, Events: b.events,
	})
	r := startRigOn(t, b, useCases, func(o *rigOptions) { o.Heartbeat = 20 * time.Millisecond })
	r.fill()
	return r, fails
}

// fill writes something of all that DTS keeps.
func (r *rig) fill() {
	r.t.Helper()
	made := func(method, path, body string) {
		r.t.Helper()
		if got := r.call(method, path, body); got.status >= http.StatusBadRequest {
			r.t.Fatalf("%s %s: %d %s", method, path, got.status, got.body)
		}
	}
	long := strings.Repeat("x", 2*task.InlinePayloadLimit)
	for _, id := range []string{"waiting", "queued", "running", "ended"} {
		made("POST", "/v1/tasks", `{"id":"`+id+`","type":"http","owner":"ops","delay":"1h","payload":"`+long+`"}`)
	}
	made("POST", "/v1/tasks", `{"id":"twice","type":"http"}`)
	r.end("twice", task.Failed, "no")
	made("POST", "/v1/tasks/twice/retry", "")
	r.end("twice", task.Failed, "no again")
	r.claim("queued")
	r.log("running", "one", "two")
	testkit.Must(r.t, r.runs["running"].Save(r.ctx, json.RawMessage(`{"row":1}`)))
	r.log("ended", "one", "two", "three")
	r.end("ended", task.Succeeded, "")
	for _, every := range []string{"1h", "2h"} {
		made("PUT", "/v1/schedules/nightly",
			`{"every":"`+every+`","overlap":"allow","owner":"ops","labels":{"team":"x"},"task":{"type":"http"}}`)
	}
	made("POST", "/v1/schedules/nightly/trigger", "")
	made("POST", "/v1/locks/door/acquire", `{"holder":"me","ttl":"1h"}`)
	made("PUT", "/v1/queues/default/limit", `{"limit":1000}`)
	made("PUT", "/v1/limits/key:*", `{"slots":5}`)
	r.openQueue("default")
	r.createFlow("flow")
	r.plan("flow", true)
	for _, deadline := range []string{"1h", "2h"} {
		made("PUT", "/v1/workflows/etl", `{"deadline":"`+deadline+`","steps":[{"id":"load","task":{"type":"noop"}}]}`)
	}
	_, err := openStore(r.t, r.db).Bulks.Create(r.ctx, bulks.Bulk{
		ID: "b1", Action: "retry", Filter: tasks.Filter{Namespace: "default"}, State: bulks.Done,
	})
	testkit.Must(r.t, err)
	beat := fmt.Sprintf(`%d {"sequence":1,"host":"h","ip":"127.0.0.1","version":"v","roles":["api"],`+
		`"state":"alive","partitions":[0],"queues":{"default":1},"started_at":"2026-01-02T15:04:05Z",`+
		`"beat_ms":3600000}`, time.Now().UnixMilli())
	testkit.Must(r.t, r.db.HSet(r.ctx, "dts:nodes", "n1", beat).Err())
}

// seen is what a client sees of an answer: the status, and the body or, of a stream, the names of its events.
type seen struct {
	status int
	body   string
	rows   int // of the lists in it
}

// changing is what changes from one request to the next: times, how long something has waited or takes, how much memory
// is used, and when and how often a forecast has ticks. Other counts stay.
var changing = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+|[0-9]{8}T[0-9.]+Z|` +
	`([0-9]+(\.[0-9]+)?(ns|µs|ms|m|s|h))+|"[a-z_]*(seconds|_ms|usage|sequence|bytes|used|keys)":[0-9.e+-]+|` +
	`"(delayed_)?per_minute":\[[^]]*\]|"total":[0-9]+|[0-9.]+ [kKMG]?i?B`)

// tells reports whether an answer says that something is missing.
func (s seen) tells() bool {
	words := []string{`"warnings":[`, `"damage":"`, `"severity":"error"`, problemEvent, "dropped\n"}
	has := func(word string) bool { return strings.Contains(s.body, word) }
	return s.status >= http.StatusBadRequest || slices.ContainsFunc(words, has)
}

// read makes a request, and checks the form of the answer; the transport of the rig holds it against the document.
func (r *rig) read(path string) seen {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodGet, r.url+path, nil)
	testkit.Must(r.t, err)
	resp, err := r.http.Do(req)
	testkit.Must(r.t, err)
	defer func() { _ = resp.Body.Close() }()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), edge.StreamType) {
		return r.readStream(path, resp.Body)
	}
	raw, err := io.ReadAll(resp.Body)
	testkit.Must(r.t, err)
	if resp.StatusCode >= http.StatusBadRequest {
		if p := (answer{resp.StatusCode, resp.Header, raw}).problem(r.t); p.Code == "" || p.Title == "" {
			r.t.Errorf("%s answered %d %s", path, resp.StatusCode, raw)
		}
		return seen{status: resp.StatusCode, body: string(raw)}
	}
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		r.t.Errorf("%s answered %d with no JSON object: %v\n%s", path, resp.StatusCode, err, raw)
	}
	s := seen{status: resp.StatusCode, body: changing.ReplaceAllString(string(raw), "0")}
	for name, list := range v {
		if list, ok := list.([]any); ok && name != "warnings" {
			s.rows += len(list)
		}
	}
	return s
}

// readStream reads a stream to its end, or until it is silent for a heartbeat. Whatever ends it is its last event.
func (r *rig) readStream(path string, body io.Reader) seen {
	r.t.Helper()
	text := readTo(body, ": alive\n\n")
	events := client.NewStream(strings.NewReader(text))
	check, s := r.http.Transport.(*checker), seen{status: http.StatusOK}
	last := ""
	for m, err := events.Next(); err == nil; m, err = events.Next() {
		last = m.Name
		s.body += m.Name + "\n"
		schema := map[string]string{"log": "LogLine", "end": "Task", "dropped": "Dropped", problemEvent: "Problem"}[m.Name]
		if err := check.value(schema, m.Data); err != nil {
			r.t.Errorf("%s: the event %s does not fit: %v\n%s", path, m.Name, err, m.Data)
		}
		if m.Name == "log" {
			s.rows++
		}
	}
	if !strings.HasSuffix(text, ": alive\n\n") && last != "end" && last != problemEvent {
		r.t.Errorf("%s: the stream ends without a word:\n%s", path, text)
	}
	return s
}

// readTo reads up to and including a text, or to the end.
func readTo(from io.Reader, text string) string {
	var all strings.Builder
	for part := make([]byte, 4096); !strings.HasSuffix(all.String(), text); {
		n, err := from.Read(part)
		all.Write(part[:n])
		if err != nil {
			break
		}
	}
	return all.String()
}

// A handler that loses an error on its way answers 200 with less than there is. It is tried for each command that a
// request sends.
func TestReads_FailOrAreWholeIfACommandFails(t *testing.T) {
	t.Parallel()
	r, fails := startFull(t)
	for _, path := range reads(t) {
		whole := r.read(path)
		if whole.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, whole.status, whole.body)
		}
		for n, failed := 1, true; failed; n++ {
			fails.arm(n)
			got := r.read(path)
			failed = fails.has()
			fails.arm(0)
			if got != whole && !got.tells() {
				t.Errorf("%s, as command %d fails: %d\n%s\nwhile all is well:\n%s", path, n, got.status, got.body, whole.body)
			}
		}
	}
}

// damage is one that somebody can do to a key.
type damage struct {
	name  string
	do    func(ctx context.Context, db redis.Cmdable, key string) error
	tells bool // an answer that lacks something says so; else what is there now may be what was meant
}

var wrongType = damage{"has the wrong type", func(ctx context.Context, db redis.Cmdable, key string) error {
	kind, err := db.Type(ctx, key).Result()
	if err == nil {
		err = db.Del(ctx, key).Err()
	}
	switch {
	case err != nil:
		return err
	case kind == "string":
		return db.RPush(ctx, key, "x").Err()
	}
	return db.Set(ctx, key, "x", 0).Err()
}, true}

var gone = damage{name: "is gone", do: func(ctx context.Context, db redis.Cmdable, key string) error {
	return db.Del(ctx, key).Err()
}}

// garbage has another text in place of each value, or beside the members.
func garbage(text string) damage {
	do := func(ctx context.Context, db redis.Cmdable, key string) error {
		kind, err := db.Type(ctx, key).Result()
		if err != nil {
			return err
		}
		switch kind {
		case "hash":
			values, err := db.HGetAll(ctx, key).Result()
			for field := range values {
				values[field] = text
			}
			return errors.Join(err, db.HSet(ctx, key, values).Err())
		case "zset":
			return db.ZAdd(ctx, key, redis.Z{Score: 1e12, Member: text}, redis.Z{Score: 0, Member: "default:" + text}).Err()
		case "set":
			return db.SAdd(ctx, key, text).Err()
		case "list":
			return errors.Join(db.LPush(ctx, key, text).Err(), db.RPush(ctx, key, text).Err())
		case "stream":
			return db.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: "9-9", Values: []string{text, text}}).Err()
		}
		return db.Set(ctx, key, text, redis.KeepTTL).Err()
	}
	return damage{name: fmt.Sprintf("has %q in it", text), do: do}
}

// keyDamages begin with those of the short form.
var keyDamages = []damage{
	wrongType, garbage("{"), gone, garbage("{}"), garbage("17"), garbage("default:a"),
	garbage("running x x x x x x x 777"),
	garbage(`1767366245120{"type":"a b"}` + "\n{}"), garbage(`{"rules":[{"cron":"x"}],"number":1,"outcome":"x"}`),
}

// otherReads are the queries that read something that the same path without a query does not.
var otherReads = []string{"follow=true", "state=scheduled,running,failed", "schedule=nightly", "gaps=true"}

// withoutRedis is the one read that asks Redis nothing, and takes half a second with the race detector.
const withoutRedis = "/openapi.json"

// ofTheMoment is the one read whose answer may be a second old, and changes as time passes. A test of package control
// damages what it needs.
const ofTheMoment = "/v1/status"

// Whatever somebody, or a loss, has done to a key: other rows are shown, and an answer that lacks something says so.
// The short form reads only what needs the key.
func TestReads_FailOrSayWhatCannotBeRead(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	r, _ := startFull(t)
	keys, err := r.db.Keys(r.ctx, "*").Result()
	testkit.Must(t, err)
	slices.Sort(keys)
	whole, sent, redis := make(map[string]seen), make(map[string]commands), newMonitor(r)
	for _, path := range reads(t) {
		_, query, _ := strings.Cut(path, "?")
		compared := path != "/v1/events" && path != withoutRedis && path != ofTheMoment
		if compared && (query == "" || slices.Contains(otherReads, query)) {
			sent[path] = redis.during(func() { whole[path] = r.read(path) })
		}
	}
	for _, key := range keys {
		if key == "dts:meta" || r.db.TTL(r.ctx, key).Val() > 0 && key != "dts:{0}:lock:default:door" {
			continue // nodes look after the one themselves, and the others end
		}
		inPartition := strings.HasPrefix(key, "dts:{")
		for _, d := range keyDamages[:testkit.Amount(2, len(keyDamages))] {
			r.whileDamaged(key, d, func() {
				for _, path := range slices.Sorted(maps.Keys(whole)) {
					if !testkit.Long() && inPartition && !sent[path].name(key) {
						continue // the damage cannot change it; of other keys, a node may have a copy
					}
					got, want := r.read(path), whole[path]
					missing := got.rows < want.rows || d.tells && got != want
					if missing && !got.tells() && d.name != gone.name {
						t.Errorf("%s, as %s %s: %d\n%s\nwhile all is well:\n%s", path, key, d.name, got.status, got.body, want.body)
					}
				}
			})
		}
	}
}

// whileDamaged calls do while a key is damaged.
func (r *rig) whileDamaged(key string, d damage, do func()) {
	r.t.Helper()
	before, err := r.db.Dump(r.ctx, key).Result()
	absent := errors.Is(err, redis.Nil)
	if !absent {
		testkit.Must(r.t, err)
	}
	testkit.Must(r.t, d.do(r.ctx, r.db, key))
	defer func() {
		testkit.Must(r.t, r.db.Del(r.ctx, key).Err())
		if !absent {
			testkit.Must(r.t, r.db.Restore(r.ctx, key, 0, before).Err())
		}
	}()
	do()
}
