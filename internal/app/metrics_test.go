package app

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMetrics_LackOnlyWhatCannotBeCounted(t *testing.T) {
	t.Parallel()
	redis, log := redistest.Start(t), &testkit.Log{}
	a := run(t, Options{Config: settings(redis.URL()), Log: slog.New(slog.NewTextHandler(log, nil))})
	a.await("/metrics", "dts_leases_held 16")
	db := redis.DB(t)
	testkit.Must(t, db.SAdd(t.Context(), "dts:{3}:backlog", "full").Err())
	testkit.Must(t, db.Set(t.Context(), "dts:{3}:ready:full", "garbage", 0).Err())
	var metrics string
	for range 3 {
		_, metrics = a.call(http.MethodGet, "/metrics", "")
	}
	for line, want := range map[string]bool{
		`dts_tasks{partition="3",state="scheduled"}`:  false,
		`dts_overdue{partition="3"}`:                  false,
		`dts_tasks{partition="3",state="queued"} 0`:   true,
		`dts_schedules{partition="3",state="active"}`: true,
		`dts_tasks{partition="2",state="scheduled"}`:  true,
	} {
		if strings.Contains(metrics, line) != want {
			t.Errorf("it is %t that they have %s", !want, line)
		}
	}
	n := log.Count(`level=WARN msg="metrics lack tasks or schedules that cannot be counted"`)
	if n != 1 || !log.Has(`error="counting tasks: partition 3: a key of its due tasks is damaged`) {
		t.Errorf("the log says %d times what they lack", n)
	}
}
