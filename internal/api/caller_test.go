package api

import (
	"strings"
	"testing"
)

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
