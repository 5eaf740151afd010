package httpexec

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/address"
)

func TestExecutor_SaysWhichAnswersAreFinal(t *testing.T) {
	t.Parallel()
	for status, final := range map[int]bool{
		400: true, 401: true, 403: true, 404: true, 410: true, 422: true, 451: true,
		408: false, 409: false, 425: false, 429: false, 500: false, 501: false, 503: false, 302: false,
	} {
		url := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		_, err := execute(t, newExecutor(t), object{"url": url})
		if err == nil || executor.IsPermanent(err) != final {
			t.Errorf("HTTP %d: %v, final %v; want final %v", status, err, executor.IsPermanent(err), final)
		}
		_, err = execute(t, newExecutor(t), object{"url": url, "retry_codes": []any{404, "420-499"}})
		if again := status == 404 || status >= 420 && status <= 499; executor.IsPermanent(err) != (final && !again) {
			t.Errorf("HTTP %d with retry_codes: %v", status, err)
		}
	}
}

func TestExecutor_PutsOffWhatTheAnswerPutsOff(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"90m": "HTTP 200 OK: later", "0s": "the answer's Dts-Snooze is \"0s\", which must be a duration such as 5m: HTTP 200 OK: later",
		"soon": "the answer's Dts-Snooze is \"soon\", which must be a duration such as 5m: HTTP 200 OK: later",
	} {
		url := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Dts-Snooze", value)
			_, _ = w.Write([]byte("later"))
		})
		_, err := execute(t, newExecutor(t), object{"url": url})
		if err == nil || !strings.HasSuffix(err.Error(), want) || executor.IsPermanent(err) {
			t.Errorf("%s: %v, want %s", value, err, want)
		}
		if put := executor.IsPutOff(err); put != (value == "90m") || put && executor.Wait(err) != 90*time.Minute {
			t.Errorf("%s: put off %v, by %s", value, put, executor.Wait(err))
		}
	}
}

func TestExecutor_WaitsAsLongAsTheAnswerAsks(t *testing.T) {
	t.Parallel()
	date := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"7": 7 * time.Second, "0": 0, "-1": 0, "soon": 0, "": 0, "604800": 24 * time.Hour, "99999999999999999999": 24 * time.Hour,
		date.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second, date.Add(-time.Hour).Format(http.TimeFormat): 0,
	} {
		for _, status := range []int{429, 503, 500} {
			url := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Date"] = []string{date.Format(http.TimeFormat)}
				w.Header().Set("Retry-After", value)
				w.WriteHeader(status)
			})
			_, err := execute(t, newExecutor(t), object{"url": url})
			if got := executor.Wait(err); err == nil || got != want || executor.IsPermanent(err) || executor.IsSnooze(err) != (want > 0 && status != 500) {
				t.Errorf("HTTP %d with Retry-After %q: %v, wait %s; want %s", status, value, err, got, want)
			}
		}
	}
}

func TestExecutor_ExpectsTheAnswerToBeAsThePayloadSays(t *testing.T) {
	t.Parallel()
	const answer = `{"status": "done", "n": 1.0, "big": 9007199254740993, "nothing": null, "items": [{"id": 1}, {"id": 2}]}`
	at := func(path string, equals any) object { return object{"json": object{"path": path, "equals": equals}} }
	for name, c := range map[string]struct {
		expect object
		want   string // the error; "" for none
	}{
		"a part":                {object{"contains": `"done"`}, ""},
		"a missing part":        {object{"contains": "gone"}, `HTTP 200, but the answer does not contain "gone"`},
		"a pattern":             {object{"matches": `"status":\s*"do?ne"`}, ""},
		"a pattern of none":     {object{"matches": "^done$"}, `HTTP 200, but the answer does not match "^done$"`},
		"a value":               {at("$.status", "done"), ""},
		"a number":              {at("$.n", 1), ""},
		"a large number":        {at("$.big", json.Number("9007199254740993")), ""},
		"another large number":  {at("$.big", json.Number("9007199254740992")), "HTTP 200, but the answer has 9007199254740993 at $.big, want 9007199254740992"},
		"a fraction":            {at("$.n", 1.5), "HTTP 200, but the answer has 1 at $.n, want 1.5"},
		"null":                  {at("$.nothing", nil), ""},
		"an object":             {at("$.items[0]", object{"id": 1}), ""},
		"one of several values": {at("$.items[*].id", 2), ""},
		"another value":         {at("$.status", "failed"), `HTTP 200, but the answer has "done" at $.status, want "failed"`},
		"no value":              {at("$.state", "done"), `HTTP 200, but the answer has nothing at $.state, want "done"`},
		"both":                  {object{"contains": "done", "matches": "gone"}, `HTTP 200, but the answer does not match "gone"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, answer) })
			result, err := execute(t, newExecutor(t), object{"url": url, "expect": c.expect})
			switch {
			case c.want == "" && (err != nil || result != answer):
				t.Errorf("got %q, %v", result, err)
			case c.want != "" && (err == nil || err.Error() != c.want || executor.IsPermanent(err)):
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestExecutor_ExpectsJSONOfABoundedSize(t *testing.T) {
	t.Parallel()
	path := object{"json": object{"path": "$.a", "equals": 1}}
	for size, want := range map[int]string{
		10: "HTTP 200, but the answer is not JSON", expectLimit + 1: "HTTP 200, but the answer is longer than 1048576 bytes, which are read for payload.expect",
	} {
		url := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) })
		if _, err := execute(t, newExecutor(t), object{"url": url, "expect": path}); err == nil || err.Error() != want {
			t.Errorf("%d bytes: %v, want %s", size, err, want)
		}
	}
}

func TestExpect_BoundsTheValuesThatItDecodes(t *testing.T) {
	t.Parallel()
	e, err := parseExpect([]byte(`{"json": {"path": "$[*][*]", "equals": 1}}`))
	testkit.Must(t, err)
	const limit = "the answer has about 200003 values, at most 200000 are read for payload.expect.json"
	for name, c := range map[string]struct{ body, want string }{
		"as many as may be":       {"[" + strings.Repeat("[0],", 99_998) + "[1]]", ""},
		"too many":                {"[" + strings.Repeat("[0],", 100_000) + "[1]]", limit},
		"many, and no JSON":       {"[" + strings.Repeat("[0],", 100_000), "the answer is not JSON"},
		"a text with many ,[{":    {`[["\"` + strings.Repeat(",[{", 100_000) + `", 1]]`, ""},
		"a text that ends so: \\": {`[["\\"` + strings.Repeat(",[1]", 100_000) + `]]`, limit},
	} {
		err := e.check(t.Context(), c.body)
		if got := fmt.Sprint(cmp.Or(err, errors.New(""))); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestExpect_WaitsForItsTurn(t *testing.T) {
	e, err := parseExpect([]byte(`{"json": {"path": "$.a", "equals": 1}}`))
	testkit.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	testkit.Must(t, executor.Decode(t.Context(), 1<<30, func() error {
		if err := e.check(ctx, `{"a": 1}`); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an answer is decoded while there is no room: %v", err)
		}
		return nil
	}))
	testkit.Must(t, e.check(t.Context(), `{"a": 1}`))
}

// Only a 429 that says how long it lasts pauses the keys of a task, and only if the task wants that.
func TestExecutor_PausesTheKeyAfterA429(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status     int
		retryAfter string
		pause      any
		want       time.Duration
	}{
		{429, "30", "key", 30 * time.Second}, {429, "", "key", 0}, {429, "30", nil, 0}, {503, "30", "key", 0},
	} {
		url := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", c.retryAfter)
			w.WriteHeader(c.status)
		})
		payload := object{"url": url}
		if c.pause != nil {
			payload["pause"] = c.pause
		}
		_, err := execute(t, newExecutor(t), payload)
		if got := executor.Pause(err); got != c.want || executor.IsSnooze(err) != (c.retryAfter != "") {
			t.Errorf("%+v: %v pauses for %s", c, err, got)
		}
	}
	for text, pauses := range map[string]bool{
		`{"url":"http://a","pause":"key"}`: true, `{"url":"http://a"}`: false, `{"pause":"key"}`: false,
	} {
		if got := Describe(address.New()).PausesKey([]byte(text)); got != pauses {
			t.Errorf("%s pauses keys: %v", text, got)
		}
	}
	_, err := parseCall([]byte(`{"url":"http://a","pause":"queue"}`))
	if err == nil || err.Error() != `payload.pause: "queue" must be key, or left out` {
		t.Error(err)
	}
}
