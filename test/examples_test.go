package test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/test/process"
)

// examplesWanted is what each file of examples/ is about, worked out by hand: of a schedule, the ticks after some time
// as `dtsctl schedule next` writes them (when, on the clock of the zone, whether it runs).
var examplesWanted = map[string]struct {
	schedule string
	after    []string // times, each with the two ticks after it
	ticks    []string
	tasks    int
}{
	"backup.yaml": {
		schedule: "backup",
		// 2027-03-28 has no half past two in Berlin, and 2027-10-31 has two: it runs at the first one.
		after: []string{"2027-03-26T12:00:00Z", "2027-03-27T12:00:00Z", "2027-10-30T12:00:00Z"},
		ticks: []string{
			"2027-03-27T01:30:00.000Z runs", "2027-03-28T01:00:00.000Z runs",
			"2027-03-28T01:00:00.000Z runs", "2027-03-29T00:30:00.000Z runs",
			"2027-10-31T00:30:00.000Z runs", "2027-11-01T01:30:00.000Z runs",
		},
	},
	"health-check.yaml": {
		schedule: "health-check",
		after:    []string{"2027-01-01T00:00:00Z"},
		ticks:    []string{"2027-01-01T00:00:10.000Z runs", "2027-01-01T00:00:20.000Z runs"},
	},
	"month-end-report.yaml": {
		schedule: "month-end-report",
		// January and February of 2027 end on Sundays, March on a Wednesday; 30 April is excluded; May ends on a Monday.
		after: []string{"2027-01-01T00:00:00Z", "2027-03-01T00:00:00Z", "2027-05-01T00:00:00Z"},
		ticks: []string{
			"2027-01-29T10:00:00.000Z runs", "2027-02-26T10:00:00.000Z runs",
			"2027-03-31T10:00:00.000Z runs", "2027-04-30T10:00:00.000Z excluded",
			"2027-05-31T10:00:00.000Z runs", "2027-06-30T10:00:00.000Z runs",
		},
	},
	"nightly-etl.yaml": {
		schedule: "nightly-etl",
		after:    []string{"2027-01-01T03:15:00Z"},
		ticks:    []string{"2027-01-02T03:15:00.000Z runs", "2027-01-03T03:15:00.000Z runs"},
	},
	"burst.yaml": {tasks: burstSize},
}

// burstSize is the number of tasks of burst.yaml.
const burstSize = 1000

// examples is a copy of examples/ whose URLs are those of a node, and a dtsctl that uses that node.
type examples struct {
	*node
	dtsctl string
	dir    string
	target string // where the backup goes
	burst  int    // tasks
}

func newExamples(t *testing.T) *examples {
	t.Helper()
	e := &examples{
		node:   startNode(t, redistest.Start(t).URL(), "--enable-shell", "--http-allow-api"),
		dtsctl: filepath.Join(binaries, "dtsctl"), dir: t.TempDir(), target: t.TempDir(),
		burst: examplesWanted["burst.yaml"].tasks,
	}
	here := strings.NewReplacer("http://127.0.0.1:8080", e.url, "TARGET: /tmp", "TARGET: "+e.target)
	files, err := os.ReadDir("../examples")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(f os.DirEntry) bool { return filepath.Ext(f.Name()) != ".yaml" }) // programs have tests of their own
	for _, f := range files {
		if _, known := examplesWanted[f.Name()]; !known {
			t.Errorf("examples/%s is not tested: say in examplesWanted what it is about", f.Name())
		}
		text, err := os.ReadFile(filepath.Join("../examples", f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		e.write(f.Name(), here.Replace(string(text)))
	}
	if len(files) != len(examplesWanted) {
		t.Errorf("%d examples are expected, and %d are there", len(examplesWanted), len(files))
	}
	await(t, time.Minute, "workflows are accepted", func() bool { // the layout moves first
		put := exec.CommandContext(t.Context(), e.dtsctl, "--server", e.url, "flow", "put", "oozie", "--dry-run",
			"-f", "../examples/workflows/oozie.yaml")
		return put.Run() == nil
	})
	return e
}

func (e *examples) write(name, text string) {
	e.t.Helper()
	if err := os.WriteFile(filepath.Join(e.dir, name), []byte(text), 0o600); err != nil {
		e.t.Fatal(err)
	}
}

// run runs dtsctl and expects it to succeed; it returns the lines it printed.
func (e *examples) run(args ...string) []string {
	e.t.Helper()
	cmd := exec.CommandContext(e.t.Context(), e.dtsctl, append([]string{"--server", e.url}, args...)...)
	cmd.Env = append(os.Environ(), "GORACE="+process.QuickRace)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		e.t.Fatalf("dtsctl %s: %v: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	if err != nil {
		e.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// apply applies the copy of the examples and counts what became of how many schedules and tasks.
func (e *examples) apply(flags ...string) map[string]int {
	e.t.Helper()
	counts := make(map[string]int)
	for _, line := range e.run(append([]string{"apply", "-f", e.dir}, flags...)...) {
		if cells := strings.Split(line, "\t"); len(cells) == 5 {
			counts[cells[0]+" "+cells[3]]++
		}
	}
	return counts
}

func (e *examples) schedules() []wire.Schedule {
	e.t.Helper()
	answer, err := e.ListSchedulesWithResponse(e.t.Context(), nil)
	if err != nil {
		e.t.Fatal(err)
	}
	if answer.JSON200 == nil {
		e.t.Fatalf("listing schedules: %s: %s", answer.Status(), answer.Body)
	}
	return answer.JSON200.Schedules
}

func same[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// What examples/ shows to newcomers works: all of it, again and again, until it is taken away. The short form makes the burst
// smaller after the first dry run. The server also understands the manifests of the documents as they stand.
func TestExamples_DoWhatTheySay(t *testing.T) {
	t.Parallel()
	e := newExamples(t)
	same(t, "a dry run says", e.counts(4, "created"), e.apply("--dry-run"))
	if left := e.schedules(); len(left) > 0 || len(e.all()) > 0 {
		t.Fatalf("a dry run left %v and %d tasks", left, len(e.all()))
	}
	e.shrinkBurst(testkit.Amount(100, burstSize))
	same(t, "at first", e.counts(4, "created"), e.apply())
	same(t, "again", e.counts(4, "unchanged"), e.apply())

	e.tick(t)
	e.backUp(t)
	e.runWorkflow(t)
	e.awaitBurst(t)
	e.edit(t)
	e.prune(t)
	e.tryDocuments(t)
}

// counts are those of apply if that became of the workflow, of so many schedules, and of all tasks of the burst.
func (e *examples) counts(schedules int, outcome string) map[string]int {
	return map[string]int{"workflow " + outcome: 1, "schedule " + outcome: schedules, "task " + outcome: e.burst}
}

// shrinkBurst gives the burst another number of tasks.
func (e *examples) shrinkBurst(tasks int) {
	e.t.Helper()
	text, err := os.ReadFile(filepath.Join(e.dir, "burst.yaml"))
	testkit.Must(e.t, err)
	size := fmt.Sprint("count: ", burstSize)
	if !strings.Contains(string(text), size) {
		e.t.Fatalf("burst.yaml does not say %q", size)
	}
	e.write("burst.yaml", strings.Replace(string(text), size, fmt.Sprint("count: ", tasks), 1))
	e.burst = tasks
}

// tick compares what comes next with what was worked out by hand.
func (e *examples) tick(t *testing.T) {
	for file, want := range examplesWanted {
		var got []string
		for _, after := range want.after {
			for _, line := range e.run("schedule", "next", want.schedule, "--count", "2", "--after", after) {
				cells := strings.Split(line, "\t")
				got = append(got, cells[0]+" "+cells[2])
			}
		}
		same(t, "the ticks of "+file, want.ticks, got)
	}
	await(t, 30*time.Second, "the health check was made", func() bool {
		lines := e.run("task", "list", "--schedule", "health-check", "--state", "succeeded", "-o", "json")
		return strings.Contains(lines[0], `"id":"health-check@`)
	})
}

// backUp runs the backup now.
func (e *examples) backUp(t *testing.T) {
	id, _, _ := strings.Cut(e.run("schedule", "trigger", "backup")[0], "\t")
	e.run("task", "wait", id) // fails unless it succeeds
	archive := filepath.Join(e.target, "dts-backup-example.tar.gz")
	info, err := os.Stat(archive)
	if err != nil {
		t.Fatal(err)
	}
	if want, got := fmt.Sprintf("wrote %s, %d bytes", archive, info.Size()), *e.task(id).Result; strings.TrimSpace(got) != want {
		t.Errorf("the backup's result is %q, want %q", got, want)
	}
}

// runWorkflow runs now what the schedule of the workflow runs.
func (e *examples) runWorkflow(t *testing.T) {
	id, _, _ := strings.Cut(e.run("schedule", "trigger", "nightly-etl")[0], "\t")
	e.run("task", "wait", id) // fails unless it succeeds
	if got := *e.task(id).Result; got != `"loaded orders: 10 sold at north"` {
		t.Errorf("the workflow's result is %s", got)
	}
}

// awaitBurst waits until all of the burst has run.
func (e *examples) awaitBurst(t *testing.T) {
	await(t, 60*time.Second, "all tasks have ended", e.idle)
	ran := make(map[string]wire.Task)
	for _, one := range e.all("succeeded") {
		ran[one.ID] = one
	}
	for i := range e.burst {
		id := fmt.Sprintf("burst-%04d", i+1)
		one, ok := ran[id]
		if !ok || one.Attempt != 1 || one.StartedAt.Before(one.RunAt.Time) || one.RunAt.Sub(one.CreatedAt.Time) != 5*time.Second {
			t.Fatalf("%s: %+v", id, one)
		}
	}
}

// edit changes the backup's time in the file.
func (e *examples) edit(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(e.dir, "backup.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	e.write("backup.yaml", strings.Replace(string(text), "cron: 30 2 * * *", "cron: 0 3 * * *", 1))
	lines := e.run("apply", "-f", filepath.Join(e.dir, "backup.yaml"), "--dry-run")
	same(t, "the dry run after the edit", []string{"schedule\tdefault\tbackup\tchanged\t2", "  - cron: 30 2 * * *", "  + cron: 0 3 * * *"}, lines)
	if backup := e.schedules()[0]; backup.ID != "backup" || backup.Revision != 1 || *backup.Cron != "30 2 * * *" {
		t.Errorf("after the dry run there is %+v", backup)
	}
	counts := map[string]int{
		"workflow unchanged": 1, "schedule changed": 1, "schedule unchanged": 3, "task unchanged": e.burst,
	}
	same(t, "after the edit", counts, e.apply())
	if backup := e.schedules()[0]; backup.ID != "backup" || backup.Revision != 2 || *backup.Cron != "0 3 * * *" {
		t.Errorf("after the edit there is %+v", backup)
	}
}

// prune takes the health check and the workflow away. Only what has the label goes.
func (e *examples) prune(t *testing.T) {
	for _, name := range []string{"health-check.yaml", "month-end-report.yaml", "nightly-etl.yaml"} {
		if err := os.Remove(filepath.Join(e.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	counts := map[string]int{
		"schedule unchanged": 1, "schedule pruned": 2, "workflow pruned": 1, "task unchanged": e.burst,
	}
	same(t, "the dry run of pruning", counts, e.apply("--prune", "-l", "team=operations", "--dry-run"))
	same(t, "left by the dry run", []string{"backup", "health-check", "month-end-report", "nightly-etl"}, e.names())
	same(t, "pruning", counts, e.apply("--prune", "-l", "team=operations"))
	same(t, "left", []string{"backup", "month-end-report"}, e.names())
}

func (e *examples) names() []string {
	var names []string
	for _, s := range e.schedules() {
		names = append(names, s.ID)
	}
	return names
}

// tryDocuments applies the manifests of the documents in dry runs.
func (e *examples) tryDocuments(t *testing.T) {
	documents, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range append(documents, "../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			if !regexp.MustCompile(`(?m)^(workflows|schedules|tasks|limits):`).MatchString(block[1]) {
				continue
			}
			found++
			file := filepath.Join(t.TempDir(), "block.yaml")
			if err := os.WriteFile(file, []byte(block[1]), 0o600); err != nil {
				t.Fatal(err)
			}
			e.run("apply", "-f", file, "--dry-run") // fails if anything is refused
		}
	}
	if found < 2 {
		t.Errorf("found %d manifests in the documents", found)
	}
}

// workflowsWanted are the examples of workflows, with the results of their runs and of some steps, worked out by hand.
var workflowsWanted = map[string]map[string]string{
	"approval.yaml":         {"": `{"order":"4711","parcels":3}`, "@.ship": ""},
	"airflow-tutorial.yaml": {"": `{"printed":"2026-11-25\n2026-11-25\n2026-11-25\n2026-11-25\n2026-11-25"}`},
	"celery-chain.yaml":     {"": "16", "@.first": "4", "@.second": "8"},
	"celery-group.yaml":     {"": "[0,2,4]"},
	"celery-chord.yaml":     {"": "6", "@.add2": "4"},
	"oozie.yaml":            {"": "", "@.mapreduce": "", "@.end": ""},
	"parent-child.yaml":     {"": "", "@.left": "left after done", "@.right": "right after done"},
}

// Each example of a workflow is put, and runs to its end.
func TestExamples_WorkflowsRun(t *testing.T) {
	t.Parallel()
	e := newExamples(t)
	files, err := os.ReadDir("../examples/workflows")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(workflowsWanted) {
		t.Errorf("%d workflows are expected, and %d are there", len(workflowsWanted), len(files))
	}
	for name, results := range workflowsWanted {
		path, id := filepath.Join("../examples/workflows", name), strings.TrimSuffix(name, ".yaml")
		e.run("flow", "put", id, "-f", path)
		if name == "approval.yaml" {
			e.approve(t, id)
		}
		e.run("flow", "run", id, "--id", id, "--wait")
		e.run("flow", "audit", id)
		for task, want := range results {
			got, err := e.GetTaskWithResponse(t.Context(), id+task, nil)
			if err != nil || got.JSON200 == nil || got.JSON200.State != wire.StateSucceeded || wire.Value(got.JSON200.Result) != want {
				t.Errorf("%s%s: %s, want %q", id, task, got.Body, want)
			}
		}
	}
	e.tryPages(t)
}

// approve starts the run of the example that waits, and answers it.
func (e *examples) approve(t *testing.T, id string) {
	t.Helper()
	e.run("flow", "run", id, "--id", id)
	e.run("flow", "signal", id, "paid")
	testkit.Eventually(t, "the step release waits", func() bool {
		got, err := e.GetRunWithResponse(t.Context(), id, nil)
		return err == nil && got.JSON200 != nil && got.JSON200.Steps[2].State == wire.StepWaiting
	})
	e.run("flow", "approve", id, "release", "-p", "parcels=3")
}

// tryPages runs the commands of the pages for people who come from elsewhere, with the workflow that each shows, which is
// one of the examples.
func (e *examples) tryPages(t *testing.T) {
	t.Helper()
	for page, want := range map[string]struct{ example, text string }{
		"from-airflow": {"airflow-tutorial.yaml", "templated  succeeded"},
		"from-celery":  {"celery-chord.yaml", "tsum  succeeded"},
		"from-xxl-job": {"parent-child.yaml", "right  succeeded"},
	} {
		path := "../docs/" + page + ".md"
		example, err := os.ReadFile(filepath.Join("../examples/workflows", want.example))
		testkit.Must(t, err)
		shown := blocks(t, path, "yaml")[0]
		same(t, "the workflow of "+path, regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(string(example), ""), shown)
		dir := t.TempDir()
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "flow.yaml"), []byte(shown), 0o600))
		out := e.bash(dir, strings.Join(blocks(t, path, "sh"), "\n"))
		for _, text := range strings.Split(want.text, ", ") {
			if !strings.Contains(strings.ReplaceAll(out, "\t", "  "), text) {
				t.Errorf("%s: no %q in\n%s", path, text, out)
			}
		}
	}
}
