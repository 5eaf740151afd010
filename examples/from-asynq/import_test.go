package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/dtstest"
)

// importInto imports configs, and returns what it writes, without the digests of ids.
func importInto(t *testing.T, d *dtstest.DTS, i importing, prefix string, configs ...*asynq.PeriodicTaskConfig) (out, notes string) {
	t.Helper()
	given := given
	given.prefix = prefix
	var written, noted bytes.Buffer
	i.out, i.notes, i.configs, i.labels = &written, &noted, convertAll(configs, given), given.labels()
	if i.to == nil {
		i.to = &server{client: d.Client}
	}
	if err := i.run(t.Context()); err != nil {
		noted.WriteString(err.Error())
	}
	return digests.ReplaceAllString(written.String(), ""), digests.ReplaceAllString(noted.String(), "")
}

func schedulesOf(t *testing.T, d *dtstest.DTS) string {
	t.Helper()
	var ids []string
	for s, err := range d.ListSchedules(t.Context(), dts.ScheduleFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, digests.ReplaceAllString(s.ID, ""))
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

func TestImporting_NamesAndPrunesWhatIsLeftOver(t *testing.T) {
	t.Parallel()
	a, b, c := config("@daily", asynq.NewTask("a", nil)), config("@daily", asynq.NewTask("b", nil)), config("@daily", asynq.NewTask("c", nil))
	dtstest.Run(t, nil, func(t *testing.T, d *dtstest.DTS) {
		want := func(what, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		if _, err := d.PutSchedule(t.Context(), "by-hand", dts.ScheduleDefinition{Cron: "@daily", Task: dts.TaskTemplate{Type: "x"}}); err != nil {
			t.Fatal(err)
		}
		importInto(t, d, importing{}, "", a, b, c)
		importInto(t, d, importing{}, "other-", b)

		out, notes := importInto(t, d, importing{}, "", a)
		want("without -prune", out+notes, "config 1\tunchanged\ta\nfrom-asynq: of no config any more: b, c; -prune deletes them\n")
		out, notes = importInto(t, d, importing{prune: true}, "", a, config("never", asynq.NewTask("b", nil)))
		if !strings.Contains(out, "config 2\trefused\t") || notes != "from-asynq: of no config any more: c; nothing is pruned, because a config was refused\n1 of 2: configs were refused" {
			t.Errorf("with a refused config: %q, %q", out, notes)
		}
		out, notes = importInto(t, d, importing{prune: true}, "")
		want("without configs", out+notes, "from-asynq: of no config any more: a, b, c; nothing is pruned, because there is no config\n")
		out, notes = importInto(t, d, importing{prune: true, to: &server{d.Client, true}}, "", a)
		want("a dry run", out+notes, "config 1\tunchanged\ta\nschedule\tpruned\tb\nschedule\tpruned\tc\n")
		want("before", schedulesOf(t, d), "a b by-hand c other-b")
		out, notes = importInto(t, d, importing{prune: true}, "", a)
		want("with -prune", out+notes, "config 1\tunchanged\ta\nschedule\tpruned\tb\nschedule\tpruned\tc\n")
		want("after", schedulesOf(t, d), "a by-hand other-b")
	})
}
