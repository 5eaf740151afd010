package api

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/dts-sched/dts/internal/api/wire"
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
	r := startRig(t, func(o *rigOptions) { o.RequestTimeout = 50 * time.Millisecond })
	for range decodingLimit {
		r.endpoints.decoding <- struct{}{}
	}
	large := `{"type":"http","payload":"` + strings.Repeat("x", largeBody) + `"}`
	for path, body := range map[string]string{"/v1/tasks": large, "/v1/tasks/batch": `{"tasks":[` + large + `]}`} {
		if got := r.call("POST", path, body); got.status != http.StatusServiceUnavailable {
			t.Errorf("%s of a large body: %d %.300s", path, got.status, got.body)
		}
	}
	r = startRig(t)
	for range decodingLimit - 1 {
		r.endpoints.decoding <- struct{}{}
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
	var answer wire.BatchAnswer
	testkit.Must(t, json.Unmarshal(got.body, &answer))
	if len(answer.Results) != 2 || answer.Results[0].Status != http.StatusRequestEntityTooLarge ||
		answer.Results[1].Status != http.StatusCreated {
		t.Errorf("%.600s", got.body)
	}
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
