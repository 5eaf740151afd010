package api

import (
	"encoding/json"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMemory_TellsKindsNamespacesAndSchedules(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	if got := r.call("POST", "/v1/tasks?namespace=acme", `{"type":"http","delay":"1h"}`); got.status != 201 {
		t.Fatalf("status %d, %s", got.status, got.body)
	}
	schedule := `{"every":"24h","task":{"type":"http"}}`
	if got := r.call("PUT", "/v1/schedules/nightly?namespace=acme", schedule); got.status != 201 {
		t.Fatalf("status %d, %s", got.status, got.body)
	}
	var report wire.MemoryReport
	got := r.call("GET", "/v1/memory", "")
	testkit.Must(t, json.Unmarshal(got.body, &report))
	if len(report.Namespaces) != 1 || len(report.Schedules) != 1 || wire.Value(report.SchedulesInAll) != 1 {
		t.Fatalf("status %d, %s", got.status, got.body)
	}
	if n := report.Namespaces[0]; n.Name != "acme" || n.Tasks != 1 || n.TaskBytes == 0 || n.ScheduleBytes == 0 {
		t.Errorf("%+v", n)
	}
	if s := report.Schedules[0]; s.ID != "nightly" || s.Namespace != "acme" || s.OwnBytes == 0 || s.Bytes < s.OwnBytes {
		t.Errorf("%+v", s)
	}
	var sum int64
	for _, k := range report.Kinds {
		sum += k.Bytes
	}
	if used := wire.Value(report.Used); sum > used || sum < used-int64(len(report.Kinds)) {
		t.Errorf("the kinds take %d of %d", sum, used)
	}
}
