package api

import (
	"net/http"
	"strings"
	"testing"
)

func TestCaller_MustBeAName(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for _, name := range []string{strings.Repeat("x", 101), "a\xff", "a\tb"} {
		p := r.call("GET", "/v1/tasks", "", "Dts-Caller", name).problem(t)
		if p.Status != http.StatusBadRequest || p.Code != "invalid" || p.Field != "Dts-Caller" {
			t.Errorf("%.10q: %+v", name, p)
		}
	}
	if got := r.call("GET", "/v1/tasks", "", "Dts-Caller", "Ann Ünlü, on call"); got.status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestPauseSchedule_AnswersWhoPausedIt(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("PUT", "/v1/schedules/a", hourly, "Dts-Caller", "ann@vm-a")
	got := r.call("POST", "/v1/schedules/a/pause", `{"note":"the disk is full"}`, "Dts-Caller", "bob@vm-b")
	paused := asMap(t, string(got.body))
	if paused["updated_by"] != "ann@vm-a (not verified)" || paused["paused_by"] != "bob@vm-b (not verified)" {
		t.Errorf("%v", paused)
	}
	history := string(r.call("GET", "/v1/schedules/a/history", "").body)
	if !strings.Contains(history, `"by":"ann@vm-a (not verified)"`) {
		t.Errorf("the history is %s", history)
	}
}
