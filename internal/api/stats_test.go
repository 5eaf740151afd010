package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestReadStats_AnswersWithoutGaps(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	if got := r.call("PUT", "/v1/queues/mail/limit", `{"limit": 5}`); got.status >= 300 { // so that it is a queue
		t.Fatalf("%d %s", got.status, got.body)
	}
	for query, want := range map[string]struct {
		periods int
		length  string
	}{"": {61, "1m"}, "?since=10m": {11, "1m"}, "?since=24h&queue=mail": {25, "1h"}} {
		var got wire.Stats
		testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/stats"+query, "").body, &got))
		if len(got.Periods) != want.periods || got.Length != want.length {
			t.Errorf("%q: %d periods of %s, want %d of %s", query, len(got.Periods), got.Length, want.periods, want.length)
		}
	}
	got := r.call("GET", "/v1/stats?queue=nosuch", "")
	if got.status != 404 || !strings.Contains(string(got.body), "nosuch") {
		t.Errorf("a queue that nobody knows: status %d, %s", got.status, got.body)
	}
	for _, path := range []string{"/v1/stats?since=25h", "/v1/stats?since=1s", "/v1/failures?since=25h",
		"/v1/failures?since=long"} {
		if got := r.call("GET", path, ""); got.status != 400 {
			t.Errorf("%s: status %d, %s", path, got.status, got.body)
		}
	}
}

func TestLateness_IsLeftOutIfNothingBegan(t *testing.T) {
	t.Parallel()
	var h rollup.Histogram
	got := countsOf(rollup.Queue{})
	if got.LateP50 != nil || got.LateP99 != nil || got.LateMax != nil || paceOf(control.Pace{}).LateP99 != nil {
		t.Errorf("nothing began: %+v", got)
	}
	h.Observe(0)
	if got := countsOf(rollup.Queue{Late: h}); wire.Value(got.LateP50) != "0s" || wire.Value(got.LateMax) != "0s" {
		t.Errorf("one began at once: %+v", got)
	}
}

func TestListFailures_AnswersAnEmptyList(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	var got wire.FailureList
	testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/failures?namespace=*", "").body, &got))
	if got.Failures == nil || len(got.Failures) != 0 || got.Untold != 0 {
		t.Errorf("%+v", got)
	}
}
