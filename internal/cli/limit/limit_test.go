package limit_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestSet_SendsWhatTheLimitAllows(t *testing.T) {
	s := clitest.Start(t)
	s.On("PUT /v1/limits/{name}", 204, nil)
	s.Pipe().Run(t, "limit", "set", "key:*", "--slots", "5").Expect(t, 0, "key:*\tset\n", "")
	if got := s.Last().Body; got != `{"slots":5}` {
		t.Errorf("it sends %s", got)
	}
	s.Terminal().Run(t, "limit", "set", "all", "--rate", "100", "--per", "1m", "--burst", "7").
		Expect(t, 0, "all set\n", "")
	if got := s.Last().Body; got != `{"burst":7,"per":"1m","rate":100}` {
		t.Errorf("it sends %s", got)
	}
	s.Pipe().Run(t, "limit", "set", "all", "--slots", "1", "-o", "json").Expect(t, 0, "", "")
}

func TestSet_SaysWhatWouldChange(t *testing.T) {
	s := clitest.Start(t)
	s.Handle("PUT /v1/limits/{name}", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("dry_run") != "true" {
			t.Errorf("it asks %s", r.URL)
		}
		w.Header().Set("Dts-Change", "changed")
		w.WriteHeader(http.StatusNoContent)
	})
	s.Terminal().Run(t, "limit", "set", "all", "--slots", "5", "--dry-run").
		Expect(t, 0, "all would be changed\n", "")
}

func TestPause_LastsUntilATime(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/limits/{name}/pause", 204, nil)
	s.Pipe().Run(t, "limit", "pause", "key:a", "--until", "2030-01-02T06:00:00Z").Expect(t, 0, "key:a\tpaused\n", "")
	if got := s.Last().Body; got != `{"until":"2030-01-02T06:00:00.000Z"}` {
		t.Errorf("it sends %s", got)
	}
	s.Pipe().Run(t, "limit", "pause", "key:a", "--until", "2030-01-02T06:00:00Z", "--for", "1h").Expect(t, 2, "",
		"dtsctl: --for and --until: give one of them, not both\nRun 'dtsctl limit pause --help' for what it takes.\n")
}

func TestSet_RefusesFlagsThatDoNotFit(t *testing.T) {
	s := clitest.Start(t)
	for flags, want := range map[string]string{
		"":                     "give --slots, or --rate with --per, or both",
		"--rate 5":             "--rate 5: give --per, too: 1s, 1m or 1h",
		"--slots 5 --per 1m":   "--per 1m: give --rate, too",
		"--slots 5 --burst 10": "--burst 10: give --rate, too",
	} {
		args := append([]string{"limit", "set", "all"}, strings.Fields(flags)...)
		s.Pipe().Run(t, args...).Expect(t, 2, "",
			"dtsctl: "+want+"\nRun 'dtsctl limit set --help' for what it takes.\n")
	}
}

func TestLimit_PausesResumesAndDeletes(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/limits/{name}/pause", 204, nil)
	s.On("POST /v1/limits/{name}/resume", 204, nil)
	s.On("DELETE /v1/limits/{name}", 404, clitest.Problem(404, wire.LimitNotFound, "", `no limit has the name "all"`))
	s.Pipe().Run(t, "limit", "pause", "key:a", "--for", "1h", "--note", "it moves").Expect(t, 0, "key:a\tpaused\n", "")
	if got := s.Last().Body; got != `{"for":"1h0m0s","note":"it moves"}` {
		t.Errorf("it sends %s", got)
	}
	s.Terminal().Run(t, "limit", "pause", "key:a").Expect(t, 0, "key:a paused\n", "")
	if got := s.Last().Body; got != `{}` {
		t.Errorf("it sends %s", got)
	}
	s.Pipe().Run(t, "limit", "resume", "key:a").Expect(t, 0, "key:a\tresumed\n", "")
	s.Pipe().Run(t, "limit", "delete", "all").Expect(t, 1, "",
		"dtsctl: no limit has the name \"all\" (limit_not_found)\n")
}

// some are limits of each form.
var some = []wire.LimitEntry{
	{
		Name: "key:*", Slots: new(5), Rate: new(100), Per: new(wire.PerMinute), Burst: new(7), Held: 6, Waiting: 9,
		Names: new(3), Uses: []wire.LimitUse{{Name: "key:a", Held: 5, Waiting: 9}, {Name: "key:b", Held: 1}},
		At: wire.At(clitest.Now),
	},
	{Name: "queue:low", Paused: true, Note: new("it moves"), At: wire.At(clitest.Now)},
	{
		Name: "all", Rate: new(3), Per: new(wire.PerSecond), Paused: true, At: wire.At(clitest.Now),
		PausedUntil: new(wire.At(clitest.Now.Add(2 * time.Minute))),
	},
}

func TestList_PrintsLimits(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/limits", 200, wire.LimitList{Limits: some, Warnings: []string{"one is left out"}})
	s.Pipe().Run(t, "limit", "list").Expect(t, 0,
		"key:*\t5\t100/1m burst 7\t6\t9\t\t\nqueue:low\t\t\t0\t0\tyes\tit moves\n"+
			"all\t\t3/1s\t0\t0\t2026-01-02T15:06:05.000Z\t\n", "warning: one is left out\n")
	s.Terminal().Run(t, "limit", "list").Expect(t, 0,
		"NAME       AT ONCE  RATE            HELD  WAITING  PAUSED        NOTE\n"+
			"key:*      5        100/1m burst 7  6     9\n"+
			"queue:low                           0     0        yes           it moves\n"+
			"all                 3/1s            0     0        in 2 minutes\n", "warning: one is left out\n")
}

func TestGet_PrintsTheNamesThatUseIt(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/limits/{name}", 200, some[0])
	s.Pipe().Run(t, "limit", "get", "key:*").Expect(t, 0,
		"key:*\t5\t100/1m burst 7\t6\t9\t\t\nkey:a\t5\t100/1m burst 7\t5\t9\t\t\n"+
			"key:b\t5\t100/1m burst 7\t1\t0\t\t\n", "1 more name uses it\n")
}

// A key without a limit of its own has the one that applies to it. What holds the slots is for people.
func TestGet_ShowsWhatAppliesAndWhoHoldsIt(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/limits/{name}", 200, wire.LimitEntry{
		Name: "key:t2", SetAs: new("key:*"), Slots: new(2), Held: 2, Waiting: 1, At: wire.At(clitest.Now),
		Holders: []wire.LimitHolder{{ID: "a", Namespace: "default"}, {ID: "b", Namespace: "shop"}},
	})
	const note = "key:t2 has no limit of its own: key:* applies to it\n"
	s.Pipe().Run(t, "limit", "get", "key:t2").Expect(t, 0, "key:t2\t2\t\t2\t1\t\t\n", note)
	s.Terminal().Run(t, "limit", "get", "key:t2").Expect(t, 0,
		"NAME    AT ONCE  RATE  HELD  WAITING  PAUSED  NOTE\n"+
			"key:t2  2              2     1\n\nTasks that hold its slots:\n\n"+
			"TASK  NAMESPACE\na     default\nb     shop\n", note)
}

func TestSet_SaysWhatItRemoves(t *testing.T) {
	s := clitest.Start(t)
	s.Handle("PUT /v1/limits/{name}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Dts-Change", "changed")
		w.Header().Set("Dts-Removed", "rate 100 per 1m, burst 7")
		w.WriteHeader(http.StatusNoContent)
	})
	const removed = " removed, as set replaces all that a limit allows\n"
	s.Pipe().Run(t, "limit", "set", "all", "--slots", "5").
		Expect(t, 0, "all\tset\n", "warning: rate 100 per 1m, burst 7: was"+removed)
	s.Pipe().Run(t, "limit", "set", "all", "--slots", "5", "--dry-run").
		Expect(t, 0, "all\twould be changed\n", "warning: rate 100 per 1m, burst 7: would be"+removed)
}

func TestLimit_CompletesNames(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/limits", 200, wire.LimitList{Limits: some})
	if got := s.Pipe().Run(t, "__complete", "limit", "get", "q"); !strings.HasPrefix(got.Out, "queue:low\n") {
		t.Errorf("%+v", got)
	}
}
