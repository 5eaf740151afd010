package importer_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
)

// importedSchedules are those that imports made of two lines, of which only the first is in the file; and those that other imports made.
func importedSchedules() []wire.Schedule {
	own := func() wire.Labels { return wire.Labels{"imported-from": "crontab", "crontab": "a crontab"} }
	other, prefixed := own(), own()
	other["crontab"], prefixed["crontab-prefix"] = "app", "web1-"
	return []wire.Schedule{
		inForce("a-a987f66ead9d", own()), inForce("gone-1", own()), inForce("gone-2", own()), inForce("other", other),
		inForce("web1-b", prefixed), inForce("by-hand", wire.Labels{}),
	}
}

// deletions are the schedules that a test's dtsctl deleted.
func deletions(s *clitest.Stub) (lines []string) {
	for _, line := range s.Lines() {
		if strings.HasPrefix(line, "DELETE ") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestCrontab_NamesSchedulesThatAreNotInTheFileAnyMore(t *testing.T) {
	s := clitest.Start(t)
	takePuts(s, "unchanged", importedSchedules()...)
	importText(t, s.Pipe(), "@daily a", "--timezone", "UTC", "-n", "ops").Expect(t, 0, "1\ta-a987f66ead9d\tunchanged\t\n",
		"1 of 1 lines were imported (1 of them unchanged)\ndtsctl: 2 schedules are not in the file any more: gone-1, gone-2; --prune deletes them\n")
	if got, want := s.LastOf("GET").Line, "label=crontab%3Da+crontab&label=imported-from%3Dcrontab"; !strings.Contains(got, want) || !strings.Contains(got, "namespace=ops") {
		t.Errorf("asked %s, want %s", got, want)
	}
	got := importText(t, s.Pipe(), "@daily x", "--timezone", "UTC", "--prefix", "web1-")
	if want := "dtsctl: 1 schedule is not in the file any more: web1-b; --prune deletes them\n"; !strings.HasSuffix(got.Err, want) || len(deletions(s)) > 0 {
		t.Errorf("%+v, want %s", got, want)
	}
}

func TestCrontab_PrunesSchedulesThatAreNotInTheFileAnyMore(t *testing.T) {
	s := clitest.Start(t)
	takePuts(s, "unchanged", importedSchedules()...)
	s.Handle("DELETE /v1/schedules/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") == "gone-2" { // somebody else was faster
			s.Reply(w, 404, clitest.Problem(404, wire.ScheduleNotFound, "", "no schedule"))
			return
		}
		s.Reply(w, 200, wire.ScheduleDeletion{})
	})
	importText(t, s.Pipe(), "@daily a", "--timezone", "UTC", "--prune", "-n", "ops").Expect(t, 0,
		"1\ta-a987f66ead9d\tunchanged\t\n\tgone-1\tpruned\t\n\tgone-2\tpruned\t\n", "1 of 1 lines were imported (1 of them unchanged)\n")
	want := []string{"DELETE /v1/schedules/gone-1?namespace=ops", "DELETE /v1/schedules/gone-2?namespace=ops"}
	if got := deletions(s); !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
	got := importText(t, s.Terminal(), "@reboot x\n@daily a", "--timezone", "UTC", "--prune")
	if got.Code != 1 || len(deletions(s)) != 4 || !strings.Contains(got.Out, "\nschedule gone-1 pruned\n") {
		t.Errorf("@reboot, which never was a schedule, keeps others from being pruned: %+v", got)
	}
}

func TestCrontab_TellsWhichScheduleItMayNotPrune(t *testing.T) {
	s := clitest.Start(t)
	takePuts(s, "unchanged", importedSchedules()[:2]...)
	s.On("DELETE /v1/schedules/{id}", 400, clitest.Problem(400, wire.Invalid, "id", "id: is bad"))
	importText(t, s.Pipe(), "@daily a", "--timezone", "UTC", "--prune").Expect(t, 1,
		"1\ta-a987f66ead9d\tunchanged\t\n\tgone-1\trefused\tid: is bad (invalid)\n",
		"1 of 1 lines were imported (1 of them unchanged)\ndtsctl: schedule gone-1 is not pruned: id: is bad (invalid)\n")
}

func TestCrontab_SaysWhatItCannotPrune(t *testing.T) {
	s := clitest.Start(t)
	s.On("PUT /v1/schedules/{id}", 200, inForce("a", wire.Labels{}))
	s.On("GET /v1/schedules", 200, wire.ScheduleList{
		Schedules: []wire.Schedule{}, Warnings: []string{"schedule default:gone cannot be read"},
	})
	got := importText(t, s.Pipe(), "@daily a", "--timezone", "UTC", "--prune")
	if got.Code != 0 || !strings.Contains(got.Err, "warning: schedule default:gone cannot be read\n") {
		t.Errorf("%+v", got)
	}
}

func TestCrontab_PrunesNothingInDoubt(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "nothing is pruned, because no line was imported",
		"@reboot a":              "nothing is pruned, because no line was imported",
		"@daily a\n60 * * * * b": "nothing is pruned, because a line was refused",
		"@daily a\n@daily bad":   "nothing is pruned, because a line was refused",
	} {
		s := clitest.Start(t)
		takePuts(s, "unchanged", importedSchedules()...)
		if got := importText(t, s.Pipe(), text, "--timezone", "UTC", "--prune"); !strings.Contains(got.Err, want) || len(deletions(s)) > 0 {
			t.Errorf("%q: %+v after %q", text, got, s.Lines())
		}
	}
	s := clitest.Start(t)
	if got := importText(t, s.Pipe(), "@daily a", "--timezone", "UTC", "--prune", "--dry-run"); got.Code != 2 || !strings.Contains(got.Err, "--prune does not go with --dry-run") {
		t.Errorf("%+v", got)
	}
}
