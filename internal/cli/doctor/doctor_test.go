package doctor_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// The severities in their colours.
const (
	yellow = "\x1b[33mwarning\x1b[0m"
	red    = "\x1b[31merror\x1b[0m"
)

func ptr[T any](v T) *T { return &v }

// report is a part of a report about three checks.
func report(next *string, lost wire.DoctorCheck) wire.DoctorReport {
	lost.Name, lost.Means, lost.Repair, lost.Repairs = "scheduled-lost", "A task would never run.", "Puts it on the wheel.", true
	return wire.DoctorReport{NextCursor: next, Checks: []wire.DoctorCheck{
		{Name: "redis-version", Severity: "ok", Looked: 1, Detail: ptr("7.0.15"), Means: "Redis is too old.", Repair: "Run a newer Redis."},
		{Name: "memory", Severity: "unknown", Looked: 1, Found: 1, Detail: ptr("Redis does not say"), Examples: []string{"Redis does not say"}, Repair: "Give Redis more."},
		{Name: "persistence", Severity: "warning", Looked: 1, Found: 1, Detail: ptr("snapshots only"), Examples: []string{"snapshots only"}, Means: "A crash loses data.", Repair: "Set appendonly."},
		lost,
	}}
}

func TestDoctor_PrintsALineForEachCheck(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/doctor", 200, report(nil, wire.DoctorCheck{Severity: "ok", Looked: 7}))
	s.Pipe().Run(t, "doctor").Expect(t, 0,
		"redis-version\tok\t1\t0\t0\t7.0.15\nmemory\tunknown\t1\t1\t0\tRedis does not say\npersistence\twarning\t1\t1\t0\tsnapshots only\nscheduled-lost\tok\t7\t0\t0\t\n", "")
}

func TestDoctor_FailsWithAnErrorThatIsNotRepaired(t *testing.T) {
	for _, c := range []struct {
		command  string
		args     []string
		repaired int
		passed   *string
		code     int
	}{
		{"GET /v1/doctor", []string{"doctor"}, 0, nil, 1},
		{"POST /v1/doctor/repair", []string{"doctor", "--repair"}, 2, nil, 0},
		{"POST /v1/doctor/repair", []string{"doctor", "--repair"}, 2, ptr("default:c was not looked at"), 1},
	} {
		s := clitest.Start(t)
		s.On(c.command, 200, report(nil, wire.DoctorCheck{
			Severity: "error", Looked: 7, Found: 2, Repaired: c.repaired, PassedOver: c.passed,
			Examples: []string{"default:a is lost", "default:b is lost"},
		}))
		if got := s.Pipe().Run(t, c.args...); got.Code != c.code || got.Err != "" {
			t.Errorf("%v: code %d, %s", c.args, got.Code, got.Err)
		}
	}
}

func TestDoctor_SaysWhatWasPassedOver(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/doctor", 200, wire.DoctorReport{Checks: []wire.DoctorCheck{
		{Name: "scheduled-lost", Severity: "unknown", Looked: 9, PassedOver: ptr("default:a was not looked at"), Repair: "Puts it back.", Repairs: true},
	}})
	s.Pipe().Run(t, "doctor").Expect(t, 1, "scheduled-lost\tunknown\t9\t0\t0\tdefault:a was not looked at\n", "")
	s.Terminal().Run(t, "doctor").Expect(t, 1, `CHECK           SEVERITY  LOOKED  FOUND  REPAIRED  DETAIL
scheduled-lost  unknown   9       0      0         default:a was not looked at

unknown scheduled-lost
  default:a was not looked at

0 of 1 check passed.
`, "")
}

func TestDoctor_SaysOnceWhyManyChecksLookedAtNothing(t *testing.T) {
	s := clitest.Start(t)
	away := wire.DoctorReport{Checks: []wire.DoctorCheck{
		{Name: "redis-reachable", Severity: wire.DoctorCheckSeverityError, Looked: 1, Found: 1, Detail: new("It is silent.")},
	}}
	for _, name := range []string{"a", "b", "c", "d"} {
		away.Checks = append(away.Checks, wire.DoctorCheck{
			Name: name, Severity: wire.DoctorCheckSeverityUnknown, PassedOver: new("Redis is away"),
		})
	}
	s.On("GET /v1/doctor", 200, away)
	got := s.Terminal().Run(t, "doctor").Out
	for text, times := range map[string]int{
		"Redis is away": 1, "unknown: the other 4 checks\n  Redis is away\n": 1, "0 of 5 checks passed.": 1, "redis-reachable": 2,
	} {
		if n := strings.Count(got, text); n != times {
			t.Errorf("%q is there %d times, want %d:\n%s", text, n, times, got)
		}
	}
	if got := s.Pipe().Run(t, "doctor").Out; strings.Count(got, "\n") != 5 {
		t.Errorf("a pipe gets\n%s", got)
	}
}

func TestDoctor_TellsPeopleWhatItMeans(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/doctor", 200, report(nil, wire.DoctorCheck{Severity: "error", Looked: 9, Found: 7, Examples: []string{"default:a is lost", "default:b is lost"}}))
	s.Terminal().Run(t, "doctor").Expect(t, 1, `CHECK           SEVERITY  LOOKED  FOUND  REPAIRED  DETAIL
redis-version   ok        1       0      0         7.0.15
memory          unknown   1       1      0         Redis does not say
persistence     `+yellow+`   1       1      0         snapshots only
scheduled-lost  `+red+`     9       7      0         default:a is lost

unknown memory
  Redis does not say

`+yellow+` persistence
  A crash loses data.
  snapshots only
  To do: Set appendonly.

`+red+` scheduled-lost
  A task would never run.
  default:a is lost
  default:b is lost
  ... and 5 others
  With --repair: Puts it on the wheel.

1 of 4 checks passed.
`, "")
}

func TestDoctor_JoinsTheParts(t *testing.T) {
	s := clitest.Start(t)
	s.Handle("GET /v1/doctor", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("check") != "scheduled-lost,persistence" || r.URL.Query().Get("partition") != "0" {
			t.Errorf("asked for %s", r.URL)
		}
		part := report(ptr("more"), wire.DoctorCheck{Severity: "error", Looked: 5, Found: 1, Examples: []string{"default:a is lost"}})
		if r.URL.Query().Get("cursor") == "more" {
			part = report(nil, wire.DoctorCheck{Severity: "ok", Looked: 4})
		}
		s.Reply(w, http.StatusOK, part)
	})
	got := s.Pipe().Run(t, "doctor", "--check", "scheduled-lost", "--check", "persistence", "--partition", "0")
	got.Expect(t, 1, "redis-version\tok\t2\t0\t0\t7.0.15\nmemory\tunknown\t2\t2\t0\tRedis does not say\npersistence\twarning\t2\t2\t0\tsnapshots only\nscheduled-lost\terror\t9\t1\t0\tdefault:a is lost\n", "")
}

func TestDoctor_SaysHowToGoOn(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/doctor", 200, report(ptr("here"), wire.DoctorCheck{Severity: "ok"}))
	if got := s.Pipe().Run(t, "doctor", "--within", "1ns"); got.Code != 1 || got.Err != "There is more to look at; go on with --cursor here\n" {
		t.Errorf("code %d, %q", got.Code, got.Err)
	}
}
