package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/store/doctor"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestDoctor_LooksAndRepairs(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	if got := r.call("POST", "/v1/tasks", `{"id":"a","type":"http","delay":"1h"}`); got.status != 201 {
		t.Fatalf("status %d, %s", got.status, got.body)
	}
	testkit.Must(t, r.db.ZRem(t.Context(), "dts:{0}:wheel", "default:a").Err())
	check := func(method, path string) wire.DoctorCheck {
		t.Helper()
		got := r.call(method, path+"?check=scheduled-lost&partition=0", "")
		var report wire.DoctorReport
		testkit.Must(t, json.Unmarshal(got.body, &report))
		if got.status != 200 || len(report.Checks) != 1 {
			t.Fatalf("status %d, %s", got.status, got.body)
		}
		return report.Checks[0]
	}
	found := check("GET", "/v1/doctor")
	if found.Severity != "error" || found.Looked != 1 || found.Found != 1 || found.Repaired != 0 || found.Examples[0] != "default:a is scheduled, and not in dts:{0}:wheel" {
		t.Errorf("found %+v", found)
	}
	if repaired := check("POST", "/v1/doctor/repair"); repaired.Found != 1 || repaired.Repaired != 1 {
		t.Errorf("repaired %+v", repaired)
	}
	if after := check("GET", "/v1/doctor"); after.Severity != "ok" || after.Found != 0 {
		t.Errorf("after the repair %+v", after)
	}
}

func TestDoctor_TellsWhatItHasPassedOver(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("POST", "/v1/tasks", `{"id":"a","type":"http","delay":"1h"}`)
	testkit.Must(t, r.db.Set(t.Context(), "dts:{0}:states", "x", 0).Err())
	got := r.call("GET", "/v1/doctor?check=task-unreadable", "")
	var report wire.DoctorReport
	testkit.Must(t, json.Unmarshal(got.body, &report))
	if c := report.Checks[0]; c.Severity != "unknown" || c.Looked != 0 || !strings.HasPrefix(wire.Value(c.PassedOver), "default:a was not") {
		t.Errorf("status %d, %s", got.status, got.body)
	}
}

func TestDoctor_RefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for query, field := range map[string]string{
		"check=nothing": "check", "partition=1": "partition", "partition=-1": "partition", "cursor=x": "cursor", "depth=1": "depth",
	} {
		got := r.call("GET", "/v1/doctor?"+query, "")
		var problem wire.Problem
		testkit.Must(t, json.Unmarshal(got.body, &problem))
		if got.status != 400 || wire.Value(problem.Field) != field {
			t.Errorf("%s: status %d, %s", query, got.status, got.body)
		}
	}
}

func TestExamine_NamesTheChecksThatThereAre(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	got := r.call("GET", "/v1/doctor?check=nosuch", "").problem(t)
	if got.Code != wire.ProblemCode(task.CodeInvalid) || wire.Value(got.Field) != "check" || strings.Contains(got.Detail, "bytes cut") {
		t.Errorf("%+v", got)
	}
	for _, check := range doctor.Checks {
		if !strings.Contains(got.Detail, check.Name) {
			t.Errorf("no %s in %s", check.Name, got.Detail)
		}
	}
}
