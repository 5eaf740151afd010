package api

import (
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestPutSchedule_CanRequireARevision(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, header, value string
		exists              bool
		status              int
	}{
		{"the present one", "If-Match", `"1"`, true, http.StatusOK},
		{"the present one, weakened by a proxy", "If-Match", `W/"1"`, true, http.StatusOK},
		{"another one", "If-Match", `"2"`, true, http.StatusPreconditionFailed},
		{"one of none", "If-Match", `"1"`, false, http.StatusPreconditionFailed},
		{"any one", "If-Match", `*`, true, http.StatusOK},
		{"any one of none", "If-Match", `*`, false, http.StatusPreconditionFailed},
		{"none, and there is none", "If-None-Match", `*`, false, http.StatusCreated},
		{"none, and there is one", "If-None-Match", `*`, true, http.StatusPreconditionFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := startRig(t)
			if c.exists {
				r.call("PUT", "/v1/schedules/a", hourly)
			}
			got := r.call("PUT", "/v1/schedules/a", `{"every":"2h","task":{"type":"http"}}`, c.header, c.value)
			if got.status != c.status {
				t.Errorf("%s: %s: status %d, want %d: %s", c.header, c.value, got.status, c.status, got.body)
			}
			if got.status == http.StatusPreconditionFailed && got.problem(t).Code != "schedule_changed" {
				t.Errorf("got %s", got.body)
			}
			s, found, _, err := r.store.Schedules.LookUp(t.Context(), ref("a"))
			testkit.Must(t, err)
			if found && (s.Rules[0].Every == 2*time.Hour) != (c.status < 300) {
				t.Errorf("status %d, but the definition is %+v", got.status, s.Rules)
			}
		})
	}
}

func TestPutSchedule_RefusesAHeaderWithoutARevision(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("PUT", "/v1/schedules/a", hourly)
	for _, value := range []string{`1`, `"0"`, `"01"`, `"-1"`, `"a"`, `"1", "2"`, `w/"1"`, `"1`, `"9999999999"`, `""`, ` `} {
		for _, c := range []struct{ method, path, body string }{{"PUT", "", hourly}, {"POST", "/rollback", `{"revision":1}`}} {
			p := r.call(c.method, "/v1/schedules/a"+c.path, c.body, "If-Match", value).problem(t)
			if p.Code != "invalid" || wire.Value(p.Field) != "If-Match" {
				t.Errorf("%s%s with If-Match %s: %+v", c.method, c.path, value, p)
			}
		}
	}
	if p := r.call("PUT", "/v1/schedules/a", hourly, "If-None-Match", `"1"`).problem(t); p.Code != "invalid" || wire.Value(p.Field) != "If-None-Match" {
		t.Errorf("If-None-Match with a revision: %+v", p)
	}
	if p := r.call("PUT", "/v1/schedules/a", hourly, "If-None-Match", `*`, "If-Match", `"1"`).problem(t); p.Code != "invalid" || wire.Value(p.Field) != "If-None-Match" {
		t.Errorf("both headers: %+v", p)
	}
}

var timePattern = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`)

// timeless is a body with the same text in place of every time.
func timeless(body []byte) string { return timePattern.ReplaceAllString(string(body), `"<time>"`) }

func TestPutSchedule_SaysWhatCameOfIt(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for _, c := range []struct {
		body   string
		status int
		change string
	}{
		{hourly, http.StatusCreated, "created"},
		{hourly, http.StatusOK, "unchanged"},
		{`{"paused":true,` + hourly[1:], http.StatusOK, "changed"},
		{`{"paused":true,` + hourly[1:], http.StatusOK, "unchanged"},
		{`{"every":"2h","task":{"type":"http"}}`, http.StatusOK, "changed"},
	} {
		before := r.call("GET", "/v1/schedules/a", "")
		dry := r.call("PUT", "/v1/schedules/a?dry_run=true", c.body)
		if got := r.call("GET", "/v1/schedules/a", ""); before.status == http.StatusOK && string(got.body) != string(before.body) {
			t.Errorf("%s: a dry run changed %s to %s", c.body, before.body, got.body)
		}
		wet := r.call("PUT", "/v1/schedules/a", c.body)
		if wet.status != c.status || wet.header.Get("Dts-Change") != c.change {
			t.Errorf("%s: status %d, %s, want %d, %s", c.body, wet.status, wet.header.Get("Dts-Change"), c.status, c.change)
		}
		if dry.status != http.StatusOK || dry.header.Get("Dts-Change") != c.change || dry.header.Get("Location") != "" || timeless(dry.body) != timeless(wet.body) {
			t.Errorf("%s: the dry run answered %d, %v, %s", c.body, dry.status, dry.header, dry.body)
		}
	}
	if got := r.call("PUT", "/v1/schedules/none?dry_run=true", hourly); got.header.Get("Dts-Change") != "created" {
		t.Errorf("a dry run of a new one: %v", got.header)
	}
	if got := r.call("GET", "/v1/schedules/none", ""); got.status != http.StatusNotFound {
		t.Errorf("a dry run of a new one created it: %s", got.body)
	}
	if p := r.call("PUT", "/v1/schedules/a?dry_run=true", hourly, "If-Match", `"7"`).problem(t); p.Code != "schedule_changed" {
		t.Errorf("a dry run over another revision: %+v", p)
	}
	if p := r.call("PUT", "/v1/schedules/a?dry_run=perhaps", hourly).problem(t); wire.Value(p.Field) != "dry_run" {
		t.Errorf("perhaps: %+v", p)
	}
}
