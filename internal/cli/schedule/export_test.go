package schedule_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
)

func listed(id string, change ...func(*wire.Schedule)) wire.Schedule {
	return aSchedule(id, append(change, func(s *wire.Schedule) {
		s.Runs, s.UpdatedBy, s.PauseNote = 3, new("me"), new("why")
	})...)
}

func TestExport_WritesWhatApplyTakes(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules", 200, wire.ScheduleList{Schedules: []wire.Schedule{
		listed("b", func(s *wire.Schedule) {
			s.Paused, s.Task.Queue, s.Task.Priority = true, new("low"), new(5)
			s.Task.FairKey, s.Task.FairWeight = new("customer-7"), new(3)
			s.Task.LimitKey, s.Task.Select = new("b,a"), new("gpu")
			s.Task.Prefer = wire.Preferences{{Select: "zone=eu", Weight: new(3)}}
			s.Task.Route = &wire.Route{By: new(wire.RouteFailover), Order: []string{"b", "a"}}
		}),
		listed("a", func(s *wire.Schedule) { s.Task.Type, s.Task.Payload = "noop", []byte("{}") }),
	}})
	s.Pipe().Run(t, "schedule", "export", "-l", "x=1", "--prefix", "p").Expect(t, 0, `---
schedules:
  - id: a
    cron: 7 * * * *
    task:
      type: noop
  - id: b
    cron: 7 * * * *
    paused: true
    task:
      fair_key: customer-7
      fair_weight: 3
      limit_key: b,a
      payload:
        command:
          - "true"
      prefer:
        - select: zone=eu
          weight: 3
      priority: 5
      queue: low
      route:
        by: failover
        order:
          - b
          - a
      select: gpu
      type: shell
`, "")
	if got := s.Last().Line; got != "GET /v1/schedules?prefix=p&label=x%3D1&limit=500" {
		t.Errorf("asked %s", got)
	}
	got := s.Pipe().Run(t, "schedule", "export", "-n", "reports", "-o", "json")
	got.Expect(t, 0, `{"namespace":"reports","schedules":[{"id":"a","cron":"7 * * * *","task":{"type":"noop"}},`+
		`{"id":"b","cron":"7 * * * *","paused":true,`+
		`"task":{"fair_key":"customer-7","fair_weight":3,"limit_key":"b,a","payload":{"command":["true"]},`+
		`"prefer":[{"select":"zone=eu","weight":3}],"priority":5,"queue":"low",`+
		`"route":{"by":"failover","order":["b","a"]},"select":"gpu","type":"shell"}}]}`+"\n", "")
}

func TestExport_NamesTheNamespaceOfEachOfAll(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules", 200, wire.ScheduleList{Schedules: []wire.Schedule{
		listed("a", func(s *wire.Schedule) { s.Namespace = "z" }), listed("b"), listed("a"),
	}})
	for _, flag := range []string{"-A", "-n*"} {
		got := s.Pipe().Run(t, "schedule", "export", flag)
		var names []string
		for line := range strings.Lines(got.Out) {
			if strings.Contains(line, "id:") || strings.Contains(line, "namespace:") {
				names = append(names, strings.TrimSpace(line))
			}
		}
		want := []string{"- id: a", "namespace: default", "- id: b", "namespace: default", "- id: a", "namespace: z"}
		if got.Code != 0 || !slices.Equal(names, want) {
			t.Errorf("%+v", got)
		}
		if got := s.Last().Line; got != "GET /v1/schedules?namespace=%2A&limit=500" {
			t.Errorf("asked %s", got)
		}
	}
}

func TestExport_WritesNothingIfAnIDIsUnknown(t *testing.T) {
	s := clitest.Start(t)
	s.Handle("GET /v1/schedules/{id}", func(w http.ResponseWriter, r *http.Request) {
		if id := r.PathValue("id"); id != "none" {
			s.Reply(w, 200, listed(id))
			return
		}
		s.Reply(w, 404, clitest.Problem(404, wire.ScheduleNotFound, "", "no such schedule"))
	})
	got := s.Pipe().Run(t, "schedule", "export", "b", "none")
	got.Expect(t, 1, "", "dtsctl: none: no such schedule (schedule_not_found)\n")
	got = s.Pipe().Run(t, "schedule", "export", "b", "a", "b")
	inOrder := strings.Index(got.Out, "id: a") < strings.Index(got.Out, "id: b")
	if got.Code != 0 || strings.Count(got.Out, "- id:") != 2 || !inOrder {
		t.Errorf("%+v", got)
	}
}

// A file that misses something must not pass for a whole one.
func TestExport_FailsIfAScheduleCannotBeRead(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules", 200, wire.ScheduleList{
		Schedules: []wire.Schedule{listed("a")}, Warnings: []string{"schedule default:b cannot be read"},
	})
	got := s.Pipe().Run(t, "schedule", "export")
	const warning = "warning: schedule default:b cannot be read\n"
	if got.Code != 1 || !strings.Contains(got.Out, "- id: a") || got.Err != warning {
		t.Errorf("%+v", got)
	}
}

func TestExport_RefusesIDsTogetherWithFilters(t *testing.T) {
	s := clitest.Start(t)
	for _, flag := range []string{"-lx=1", "--prefix=a", "-A"} {
		if got := s.Pipe().Run(t, "schedule", "export", "a", flag); got.Code != 2 || len(s.Lines()) > 0 {
			t.Errorf("%s: %+v after %q", flag, got, s.Lines())
		}
	}
}
