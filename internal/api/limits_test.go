package api

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/testkit"
)

// accepted is a call that is answered with no content.
func (r *rig) accepted(method, path, body string) {
	r.t.Helper()
	if got := r.call(method, path, body); got.status != http.StatusNoContent {
		r.t.Fatalf("%s %s: %d, %s", method, path, got.status, got.body)
	}
}

func (r *rig) limit(name string) wire.LimitEntry {
	r.t.Helper()
	got := r.call("GET", "/v1/limits/"+name, "")
	var l wire.LimitEntry
	testkit.Must(r.t, json.Unmarshal(got.body, &l))
	if l.At.IsZero() || l.By == nil {
		r.t.Errorf("nobody knows who set it and when: %s", got.body)
	}
	l.At, l.By = wire.Time{}, nil
	return l
}

func TestSetLimit_SaysWhatItChanges(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	for _, c := range []struct{ path, want string }{
		{"/v1/limits/all?dry_run=true", "created"}, {"/v1/limits/all", "created"}, {"/v1/limits/all", "unchanged"},
	} {
		got := r.call("PUT", c.path, `{"slots":5}`)
		if change := got.header.Get("Dts-Change"); got.status != http.StatusNoContent || change != c.want {
			t.Errorf("%s: %d, %q, want %q", c.path, got.status, change, c.want)
		}
	}
	r.accepted("PUT", "/v1/limits/all", `{"slots":5,"rate":100,"per":"1m","burst":7}`)
	got := r.call("PUT", "/v1/limits/all", `{"slots":6}`)
	if removed := got.header.Get("Dts-Removed"); removed != "rate 100 per 1m, burst 7" {
		t.Errorf("it says that %q is removed", removed)
	}
	if got := r.call("PUT", "/v1/limits/all", `{"slots":6}`); len(got.header.Values("Dts-Removed")) > 0 {
		t.Errorf("nothing is removed: %v", got.header)
	}
}

// A key without a limit of its own has the one that applies to it.
func TestGetLimit_ShowsWhatAppliesToAKey(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	r.accepted("PUT", "/v1/limits/key:%2A", `{"slots":5}`)
	want := wire.LimitEntry{Name: "key:t2", SetAs: new("key:*"), Slots: new(5)}
	if diff := cmp.Diff(want, r.limit("key:t2")); diff != "" {
		t.Error(diff)
	}
}

func TestBody_SaysWhatANumberMustBe(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	p := r.call("PUT", "/v1/limits/all", `{"slots":1e2}`).problem(t)
	const want = "slots: 1e2 must be a whole number of at most 18 digits, written without an exponent"
	if p.Code != wire.Invalid || p.Detail != want {
		t.Errorf("%+v, want %s", p, want)
	}
}

func TestLimits_AreSetPausedResumedAndDeleted(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	r.accepted("PUT", "/v1/limits/key:%2A", `{"slots":5,"rate":100,"per":"1m","burst":7}`)
	want := wire.LimitEntry{
		Name: "key:*", Slots: new(5), Rate: new(100), Per: new(wire.PerMinute), Burst: new(7), Names: new(0),
	}
	if diff := cmp.Diff(want, r.limit("key:*")); diff != "" {
		t.Error(diff)
	}
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	r.accepted("POST", "/v1/limits/key:*/pause", `{"until":"`+formatTime(until)+`","note":"it moves"}`)
	want.Paused, want.Note, want.PausedUntil = true, new("it moves"), new(wire.At(until))
	want.PausedBy = new("somebody at 127.0.0.1")
	if diff := cmp.Diff(want, r.limit("key:*")); diff != "" {
		t.Error(diff)
	}
	r.accepted("POST", "/v1/limits/key:*/resume", "")
	r.accepted("POST", "/v1/limits/all/pause", "")
	var list wire.LimitList
	testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/limits", "").body, &list))
	if l := list.Limits; len(l) != 2 || l[0].Paused || !l[1].Paused || l[1].PausedUntil != nil || l[1].Names != nil {
		t.Errorf("%+v", l)
	}
	r.accepted("DELETE", "/v1/limits/all", "")
	p := r.call("DELETE", "/v1/limits/all", "").problem(t)
	if p.Code != wire.LimitNotFound || p.Status != http.StatusNotFound {
		t.Errorf("%+v", p)
	}
}

func TestLimits_NameTheFieldAtFault(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	for _, c := range []struct{ method, path, body, field string }{
		{"PUT", "/v1/limits/tenant-7", `{"slots":5}`, "name"},
		{"PUT", "/v1/limits/all", `{}`, "slots"},
		{"PUT", "/v1/limits/all", `{"slots":0}`, "slots"},
		{"PUT", "/v1/limits/all", `{"slots":99999999999999999999}`, "slots"},
		{"PUT", "/v1/limits/type:workflow", `{"slots":5}`, "name"},
		{"PUT", "/v1/limits/all", `{"rate":5}`, "per"},
		{"PUT", "/v1/limits/all", `{"rate":5,"per":"2m"}`, "per"},
		{"PUT", "/v1/limits/all", `{"slots":5,"burst":2}`, "burst"},
		{"POST", "/v1/limits/all/pause", `{"for":"10ms"}`, "for"},
		{"POST", "/v1/limits/all/pause", `{"until":"2020-01-02T15:04:05Z"}`, "until"},
		{"GET", "/v1/limits/key:a%20b", "", "name"},
	} {
		if p := r.call(c.method, c.path, c.body).problem(t); p.Code != wire.Invalid || wire.Value(p.Field) != c.field {
			t.Errorf("%s %s %s: %+v", c.method, c.path, c.body, p)
		}
	}
}
