package importer_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// inForce is an imported schedule with labels as the server has it.
func inForce(id string, labels wire.Labels) wire.Schedule {
	return wire.Schedule{
		ID: id, Namespace: "default", Revision: 1, CreatedAt: wire.At(clitest.Now), UpdatedAt: wire.At(clitest.Now), Cursor: wire.At(clitest.Now), Labels: &labels,
		Every: new("1h"), Task: wire.TaskTemplate{Type: "shell", Queue: new("default"), Payload: []byte("{}")},
	}
}

// takePuts answers every PUT of a schedule, and says that it came to this. The server lists what is found.
func takePuts(s *clitest.Stub, change string, found ...wire.Schedule) {
	s.Handle("PUT /v1/schedules/{id}", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.PathValue("id"), "bad-") {
			s.Reply(w, http.StatusBadRequest, clitest.Problem(400, wire.Invalid, "cron", "cron: is bad"))
			return
		}
		w.Header().Set("Dts-Change", change)
		s.Reply(w, http.StatusOK, inForce(r.PathValue("id"), wire.Labels{}))
	})
	s.On("GET /v1/schedules", http.StatusOK, wire.ScheduleList{Schedules: append([]wire.Schedule{}, found...)})
}

// importText runs "dtsctl import crontab" on a text.
func importText(t *testing.T, sh clitest.Shell, text string, args ...string) clitest.Result {
	t.Helper()
	sh.Stdin = text
	return sh.Run(t, append([]string{"import", "crontab", "-"}, args...)...)
}

func TestCrontab_PutsAScheduleThatMeansWhatTheLineMeans(t *testing.T) {
	const rest = `,"timeout":"24h0m0s","type":"shell"},"timezone":"UTC"}`
	for line, want := range map[string]string{
		"@daily x": `{"cron":"@daily","description":"Line 1 of a crontab","labels":{"crontab":"a crontab","imported-from":"crontab"},"overlap":"allow",` +
			`"task":{"payload":{"command":["/bin/sh","-c","x"]},"retry":{"max_attempts":1}` + rest,
		"SHELL=/bin/bash\nHOME=/srv\nMAILTO=ops\n0 0 */2 * mon x <&%in": `{"cron":"0 0 */2 * *","description":"Line 4 of a crontab","exclude":["* * * * 0,2,3,4,5,6"],` +
			`"labels":{"crontab":"a crontab","imported-from":"crontab"},"overlap":"allow","owner":"ops",` +
			`"task":{"payload":{"command":["/bin/bash","-c","x <&"],"env":{"HOME":"/srv"},"dir":"/srv","stdin":"in\n"},"retry":{"max_attempts":1}` + rest,
	} {
		s := clitest.Start(t)
		takePuts(s, "created")
		if got := importText(t, s.Pipe(), line, "--timezone", "UTC"); got.Code != 0 || s.LastOf("PUT").Body != want {
			t.Errorf("%q: %+v, sent\n%s, want\n%s", line, got, s.LastOf("PUT").Body, want)
		}
	}
}

func TestCrontab_TakesWhatTheFlagsSay(t *testing.T) {
	s := clitest.Start(t)
	takePuts(s, "created")
	importText(t, s.Pipe(), "@daily root x", "--system", "--timezone", "Asia/Tokyo", "--prefix", "web1-", "--queue", "web1", "--overlap", "skip",
		"--timeout", "5m", "--max-attempts", "3", "-n", "ops").Expect(t, 0, "1\tweb1-x-1d305a1a254a\tcreated\t\n", "1 of 1 lines were imported\n")
	want := `{"cron":"@daily","description":"Line 1 of a crontab","labels":{"crontab":"a crontab","crontab-prefix":"web1-","imported-from":"crontab"},"overlap":"skip",` +
		`"task":{"payload":{"command":["/bin/sh","-c","x"],"user":"root"},"queue":"web1","retry":{"max_attempts":3},"timeout":"5m0s","type":"shell"},"timezone":"Asia/Tokyo"}`
	if got := s.LastOf("PUT"); got.Line != "PUT /v1/schedules/web1-x-1d305a1a254a?namespace=ops" || got.Body != want {
		t.Errorf("sent %s %s", got.Line, got.Body)
	}
}

func TestCrontab_SpreadsAsRandomDelayDoes(t *testing.T) {
	s := clitest.Start(t)
	takePuts(s, "created")
	importText(t, s.Pipe(), "RANDOM_DELAY=45\n0 3 * * * x", "--timezone", "UTC").
		Expect(t, 0, "2\tx-6423f44b0c03\tcreated\t\n", "1 of 1 lines were imported\n")
	if got := s.LastOf("PUT"); !strings.Contains(got.Body, `"jitter":"45m0s"`) {
		t.Errorf("sent %s", got.Body)
	}
}

func TestCrontab_NamesEachRefusedLineAndTakesTheOthers(t *testing.T) {
	s := clitest.Start(t)
	takePuts(s, "unchanged")
	text := "@reboot a\n@daily b\n@daily bad\n@hourly b -x\n@daily b\n@daily b\n0 0 30 2 * c\n"
	got := importText(t, s.Pipe(), text, "--timezone", "UTC")
	lines := strings.Split(got.Out, "\n")
	if got.Code != 1 || len(lines) != 8 || !strings.HasSuffix(got.Err, "2 of 7 lines were imported (2 of them unchanged), 5 refused\n") {
		t.Fatalf("%+v", got)
	}
	for i, want := range []string{"1\t\trefused\t@reboot has", "2\tb-88e738cd4ff4\tunchanged", "3\tbad-bbe9b8c7ee07\trefused\tcron: is bad (invalid)", "4\tb-x-d661c27cab59\tunchanged\t", "5\tb-88e738cd4ff4\trefused", "6\tb-88e738cd4ff4\trefused", "7\tc-16b9ae77a108\trefused\t"} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d is %q, want %q", i+1, lines[i], want)
		}
	}
	for _, want := range []string{"dtsctl: line 1: @reboot has no counterpart", "dtsctl: line 3: cron: is bad", "dtsctl: line 5: is the same as line 2", "line 7: cron never ticks"} {
		if !strings.Contains(got.Err, want) {
			t.Errorf("no %q in %s", want, got.Err)
		}
	}
}

func TestCrontab_DoesNotGuessTheTimeZone(t *testing.T) {
	s := clitest.Start(t)
	got := importText(t, s.Pipe(), "CRON_TZ=UTC\n@daily a\nCRON_TZ=\n@daily b")
	if got.Code != 2 || !strings.Contains(got.Err, "--timezone is missing: line 4 has no CRON_TZ above it") || len(s.Lines()) > 0 {
		t.Errorf("%+v after %q", got, s.Lines())
	}
	takePuts(s, "created")
	importText(t, s.Pipe(), "CRON_TZ=UTC\n@daily a").Expect(t, 0, "2\ta-a987f66ead9d\tcreated\t\n", "1 of 1 lines were imported\n")
	got = importText(t, s.Pipe(), "@daily a", "--timezone", "Europe/Nowhere")
	if got.Code != 1 || !strings.Contains(got.Err, `line 1: timezone "Europe/Nowhere" is not a known time zone`) {
		t.Errorf("%+v", got)
	}
}

func TestCrontab_DryRunPrintsWhatApplyTakes(t *testing.T) {
	s := clitest.Start(t)
	got := importText(t, s.Pipe(), "@daily a\n@reboot b", "--timezone", "UTC", "--dry-run", "-n", "ops")
	if got.Code != 1 || !strings.Contains(got.Err, "line 2: @reboot") || len(s.Lines()) > 0 || !strings.HasPrefix(got.Out, "---\nnamespace: ops\nschedules:\n  - id: a-a987f66ead9d\n    cron: '@daily'\n") {
		t.Fatalf("%+v after %q", got, s.Lines())
	}
	takePuts(s, "created")
	sh := s.Pipe()
	sh.Stdin = got.Out
	sh.Run(t, "apply", "-f", "-").Expect(t, 0, "schedule\tops\ta-a987f66ead9d\tcreated\t1\n", "")
	applied := s.LastOf("PUT").Body
	importText(t, s.Pipe(), "@daily a", "--timezone", "UTC", "-n", "ops")
	if put := s.LastOf("PUT").Body; put != applied {
		t.Errorf("apply sends\n%s, and import\n%s", applied, put)
	}
}

func TestCrontab_TellsWhatWasDoneBeforeTheServerWasGone(t *testing.T) {
	s := clitest.Start(t)
	takePuts(s, "created")
	sh := s.Pipe()
	sh.Transport = clitest.RoundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.Path, "/b-") {
			return nil, os.ErrDeadlineExceeded
		}
		return s.Transport.RoundTrip(r)
	})
	got := importText(t, sh, "@daily a\n@daily b\n@daily c", "--timezone", "UTC")
	if got.Code != 3 || got.Out != "1\ta-a987f66ead9d\tcreated\t\n" || !strings.Contains(got.Err, "1 of 3 lines were imported") {
		t.Errorf("%+v", got)
	}
}

func TestCrontab_IsUsedWithOneFile(t *testing.T) {
	s := clitest.Start(t)
	for _, args := range [][]string{{}, {"a", "b"}, {"/does/not/exist", "--timezone", "UTC"}} {
		if got := s.Pipe().Run(t, append([]string{"import", "crontab"}, args...)...); got.Code != 2 {
			t.Errorf("%q: %+v", args, got)
		}
	}
}
