package apply_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
)

// takeLimits answers every PUT of a limit, and says that it came to this.
func takeLimits(s *clitest.Stub, change string) {
	s.Handle("PUT /v1/limits/{name}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Dts-Change", change)
		w.WriteHeader(http.StatusNoContent)
	})
}

// limitsFile is a file with two limits behind a schedule.
const limitsFile = `namespace: reports
schedules:
- {id: night, every: 1h, task: {type: http}}
limits:
- {name: "key:*", slots: 5}
- name: type:http
  rate: 600
  per: 1m
  burst: 20
`

// Limits come first, as the tasks of what follows may need them. They have no namespace.
func TestApply_SetsLimits(t *testing.T) {
	s := clitest.Start(t)
	takeLimits(s, "changed")
	takePuts(s, "created")
	applyText(t, s.Pipe(), limitsFile).Expect(t, 0, "limit\t\tkey:*\tchanged\t\n"+
		"limit\t\ttype:http\tchanged\t\nschedule\treports\tnight\tcreated\t3\n", "")
	want := []string{"PUT /v1/limits/key:%2A", "PUT /v1/limits/type:http", "PUT /v1/schedules/night?namespace=reports"}
	if lines := s.Lines()[len(want):]; !slices.Equal(lines, want) { // after the check
		t.Errorf("asked %q, want %q", lines, want)
	}
	one := "limits: [{name: type:http, rate: 600, per: 1m, burst: 20}]"
	applyText(t, s.Terminal(), one).Expect(t, 0, "limit type:http \x1b[33mchanged\x1b[0m\n", "")
	if got := s.Last(); got.Body != `{"rate":600,"per":"1m","burst":20}` {
		t.Errorf("sent %s", got.Body)
	}
}

func TestApply_ShowsHowALimitWouldChange(t *testing.T) {
	s := clitest.Start(t)
	takeLimits(s, "changed")
	s.On("GET /v1/limits/{name}", 200, wire.LimitEntry{
		Name: "key:*", Slots: new(4), Rate: new(9), Per: new(wire.PerSecond), Paused: true, At: wire.At(clitest.Now), Held: 3,
	})
	const file = "limits: [{name: 'key:*', slots: 5, burst: 7, rate: 9, per: 1s}]"
	applyText(t, s.Pipe(), file, "--dry-run").Expect(t, 0,
		"limit\t\tkey:*\tchanged\t\n  + burst: 7\n  - slots: 4\n  + slots: 5\n", "")
	if want := []string{"GET /v1/limits/key:%2A", "PUT /v1/limits/key:%2A?dry_run=true"}; !slices.Equal(s.Lines(), want) {
		t.Errorf("asked %q, want %q", s.Lines(), want)
	}
	s = clitest.Start(t)
	takeLimits(s, "created")
	s.On("GET /v1/limits/{name}", 404, clitest.Problem(404, wire.LimitNotFound, "", "there is none"))
	applyText(t, s.Pipe(), file, "--dry-run").Expect(t, 0,
		"limit\t\tkey:*\tcreated\t\n  + burst: 7\n  + per: 1s\n  + rate: 9\n  + slots: 5\n", "")
}

// A limit that is to be created is compared with nothing, also if another one applies to its name so far.
func TestApply_ComparesALimitWithItself(t *testing.T) {
	s := clitest.Start(t)
	takeLimits(s, "created")
	s.On("GET /v1/limits/{name}", 200, wire.LimitEntry{
		Name: "key:a", SetAs: new("key:*"), Slots: new(4), At: wire.At(clitest.Now),
	})
	applyText(t, s.Pipe(), "limits: [{name: 'key:a', slots: 5}]", "--dry-run").Expect(t, 0,
		"limit\t\tkey:a\tcreated\t\n  + slots: 5\n", "")
}

// Each limit alone may find room, and all together may not.
func TestApply_DryRunCountsLimits(t *testing.T) {
	s := clitest.Start(t)
	takeLimits(s, "created")
	s.On("GET /v1/limits/{name}", 404, clitest.Problem(404, wire.LimitNotFound, "", "there is none"))
	s.On("GET /v1/limits", 200, wire.LimitList{Limits: make([]wire.LimitEntry, 998)})
	const file = "limits:\n- {name: 'key:a', slots: 1}\n- {name: 'key:b', slots: 1}\n- {name: 'key:c', slots: 1}\n"
	got := applyText(t, s.Pipe(), file, "--dry-run")
	const want = "-:4:10: limit key:c: name: there are 998 limits, and at most 1000 may be: delete others"
	if got.Code != 1 || strings.Count(got.Out, "created") != 2 || !strings.Contains(got.Err, want) {
		t.Errorf("%d, %s, %s", got.Code, got.Out, got.Err)
	}
}

func TestApply_NamesThePlaceOfAWrongLimit(t *testing.T) {
	for file, want := range map[string]string{
		"limits: [{slots: 5}]":                         "-:1:10: limits[0].name: is missing",
		"limits: [{name: all, slots: x}]":              "-:1:29: limits[0].slots: must be ",
		"limits: [{name: all, lots: 5}]":               "-:1:22: limits[0].lots: ",
		"limits: [{name: all}, {name: all, slots: 1}]": `-:1:23: limit "all" is in -:1 already`,
	} {
		s := clitest.Start(t)
		got := applyText(t, s.Pipe(), file)
		if got.Code != 2 || !strings.Contains(got.Err, want) {
			t.Errorf("%s: %d, %s", file, got.Code, got.Err)
		}
	}
	s := clitest.Start(t)
	s.On("PUT /v1/limits/{name}", 400, clitest.Problem(400, wire.Invalid, "per", "per: there is no rate"))
	got := applyText(t, s.Pipe(), "limits:\n- name: all\n  per: 1s\n")
	if got.Code != 1 || !strings.Contains(got.Err, "-:3:8: limit all: per: there is no rate") {
		t.Errorf("%d, %s", got.Code, got.Err)
	}
}

// A file that has only limits names no namespace, in which something could be pruned.
func TestApply_PrunesNothingForLimits(t *testing.T) {
	s := clitest.Start(t)
	takeLimits(s, "unchanged")
	applyText(t, s.Pipe(), "limits: [{name: all, slots: 5}]", "--prune", "-l", "team=a").
		Expect(t, 0, "limit\t\tall\tunchanged\t\n", "")
	if got := s.Last().Line; got != "PUT /v1/limits/all" {
		t.Errorf("asked %s at last", got)
	}
}
