package apply_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// inForce is a schedule as the server answers it.
func inForce(id string, revision int, labels wire.Labels) wire.Schedule {
	answer := wire.Schedule{
		ID: id, Namespace: "default", Revision: revision, CreatedAt: wire.At(clitest.Now), UpdatedAt: wire.At(clitest.Now), Cursor: wire.At(clitest.Now),
		Every: new("1h"), Task: wire.TaskTemplate{Type: "http", Queue: new("default"), Payload: json.RawMessage("{}")},
	}
	if labels != nil {
		answer.Labels = &labels
	}
	return answer
}

// takePuts answers every PUT of a schedule, and says that it came to this.
func takePuts(s *clitest.Stub, change string) {
	s.Handle("PUT /v1/schedules/{id}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Dts-Change", change)
		s.Reply(w, http.StatusOK, inForce(r.PathValue("id"), 3, nil))
	})
}

// nothingChanged is said after a check in which the server refuses something.
const nothingChanged = "dtsctl: nothing was changed, because something was refused\n"

// applyText runs "dtsctl apply" on a text.
func applyText(t *testing.T, sh clitest.Shell, text string, args ...string) clitest.Result {
	t.Helper()
	sh.Stdin = text
	return sh.Run(t, append([]string{"apply", "-f", "-"}, args...)...)
}

// Texts need no quotes, numbers keep their digits, keys their order.
func TestApply_SendsWhatTheFileSays(t *testing.T) {
	for file, want := range map[string]string{
		`{id: a, every: 1h, task: {type: http}}`:                                                                 `{"every":"1h","task":{"type":"http"}}`,
		`{id: a, task: {type: "http"}, start_at: 2026-01-01T00:00:00+08:00}`:                                     `{"task":{"type":"http"},"start_at":"2026-01-01T00:00:00+08:00"}`,
		`{id: a, task: {type: x, priority: 3, fair_key: 0815, fair_weight: 2}}`:                                  `{"task":{"type":"x","priority":3,"fair_key":"0815","fair_weight":2}}`,
		`{id: a, task: {type: x}, exclude: [2026-12-25, "* 12 * * *"]}`:                                          `{"task":{"type":"x"},"exclude":["2026-12-25","* 12 * * *"]}`,
		`{id: a, task: {type: x}, labels: {v: 1.10, n: 0815, on: yes, t: true}}`:                                 `{"task":{"type":"x"},"labels":{"v":"1.10","n":"0815","on":"yes","t":"true"}}`,
		`{id: a, task: {type: x, payload: {z: 1, a: [12345678901234567890, 0x1F, 1e3, -0.50]}}}`:                 `{"task":{"type":"x","payload":{"z":1,"a":[12345678901234567890,31,1e3,-0.50]}}}`,
		`{id: a, task: {type: x, payload: {n: null, e: , b: yes, t: true, q: "1", d: 2026-01-01}}}`:              `{"task":{"type":"x","payload":{"n":null,"e":null,"b":"yes","t":true,"q":"1","d":"2026-01-01"}}}`,
		`{id: a, task: {type: x, payload: "<&>"}}`:                                                               `{"task":{"type":"x","payload":"<&>"}}`,
		`{id: a, paused: true, max_runs: 3, task: {type: x, retry: {backoff: {factor: 1.5}}}}`:                   `{"paused":true,"max_runs":3,"task":{"type":"x","retry":{"backoff":{"factor":1.5}}}}`,
		`{id: a, task: {type: x, retry: &r {max_attempts: 2}}, misfire: {<<: {max: 1, window: 1h}, window: 2h}}`: `{"task":{"type":"x","retry":{"max_attempts":2}},"misfire":{"window":"2h","max":1}}`,

		`{id: a, task: {type: x, limit_key: 0815}}`:  `{"task":{"type":"x","limit_key":"0815"}}`,
		`{id: a, task: {type: x, limit_key: "b,a"}}`: `{"task":{"type":"x","limit_key":"b,a"}}`,
		`{id: a, task: {type: x, select: "zone in (eu,us),gpu", prefer: [{select: a=1, weight: 3}]}}`: `{"task":{"type":"x",` +
			`"select":"zone in (eu,us),gpu","prefer":[{"select":"a=1","weight":3}]}}`,
		`{id: a, task: {type: x, route: {by: hash, key: 0815, sticky: require}}}`: `{"task":{"type":"x",` +
			`"route":{"by":"hash","key":"0815","sticky":"require"}}}`,
	} {
		s := clitest.Start(t)
		takePuts(s, "created")
		applyText(t, s.Pipe(), "schedules: ["+file+"]").Expect(t, 0, "schedule\tdefault\ta\tcreated\t3\n", "")
		if got := s.Last(); got.Line != "PUT /v1/schedules/a?namespace=default" || got.Body != want {
			t.Errorf("%s: sent %s %s, want %s", file, got.Line, got.Body, want)
		}
	}
}

func TestApply_TakesTheNearestNamespace(t *testing.T) {
	s := clitest.Start(t)
	takePuts(s, "unchanged")
	sh := s.Pipe()
	sh.Env = map[string]string{"DTSCTL_NAMESPACE": "env"}
	got := applyText(t, sh, `
schedules: [{id: a, task: {type: x}}]
---
namespace: doc
schedules: [{id: a, task: {type: x}}, {id: a, namespace: own, task: {type: x}}]
`)
	got.Expect(t, 0, "schedule\tenv\ta\tunchanged\t3\nschedule\tdoc\ta\tunchanged\t3\nschedule\town\ta\tunchanged\t3\n", "")
	want := []string{"PUT /v1/schedules/a?namespace=env", "PUT /v1/schedules/a?namespace=doc", "PUT /v1/schedules/a?namespace=own"}
	if lines := s.Lines()[len(want):]; !slices.Equal(lines, want) {
		t.Errorf("asked %q, want %q", lines, want)
	}
}

func TestApply_TellsATerminalInWordsAndColours(t *testing.T) {
	s := clitest.Start(t)
	takePuts(s, "changed")
	clitest.AcceptBatches(s)
	applyText(t, s.Terminal(), "schedules: [{id: a, task: {type: x}}]\ntasks: [{id: b, type: x, count: 3}, {id: c, type: x}]").Expect(t, 0,
		"schedule a \x1b[33mchanged (revision 3)\x1b[0m\n"+
			"tasks b-0001 to b-0003 \x1b[32mcreated\x1b[0m\ntask c \x1b[32mcreated\x1b[0m\n", "")
}

func TestApply_DryRunComparesFieldByField(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules/{id}", 200, inForce("a", 2, wire.Labels{"old": "1"}))
	s.Handle("PUT /v1/schedules/{id}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Dts-Change", "changed")
		next := inForce("a", 3, wire.Labels{"new": "2"})
		next.Paused, next.Every = true, new("2h")
		s.Reply(w, http.StatusOK, next)
	})
	manifest := "schedules: [{id: a, task: {type: x}}]"
	applyText(t, s.Pipe(), manifest, "--dry-run").Expect(t, 0, "schedule\tdefault\ta\tchanged\t3\n"+
		"  - every: 1h\n  + every: 2h\n  + labels.new: 2\n  - labels.old: 1\n  - paused: false\n  + paused: true\n", "")
	if got := s.Last().Line; got != "PUT /v1/schedules/a?namespace=default&dry_run=true" {
		t.Errorf("asked %s", got)
	}
	applyText(t, s.Pipe(), manifest, "--dry-run", "-o", "json").Expect(t, 0, `{"dry_run":true,"results":[{"kind":"schedule","namespace":"default","id":"a",`+
		`"outcome":"changed","revision":3,"changes":[{"field":"every","before":"1h","after":"2h"},{"field":"labels.new","after":"2"},`+
		`{"field":"labels.old","before":"1"},{"field":"paused","before":"false","after":"true"}]}]}`+"\n", "")
}

// A request that the server cannot read because of one entry is sent again without it.
func TestApply_RepeatsARequestWithoutTheEntryThatSpoilsIt(t *testing.T) {
	s := clitest.Start(t)
	s.Handle("POST /v1/tasks/batch", func(w http.ResponseWriter, r *http.Request) {
		var b wire.SubmissionBatch
		testkit.Must(s.T, json.NewDecoder(r.Body).Decode(&b))
		var a wire.BatchAnswer
		for i, one := range b.Tasks {
			if one.Type == "bad" {
				field := "tasks[" + string(rune('0'+i)) + "].timeout"
				s.Reply(w, 400, clitest.Problem(400, wire.Invalid, field, field+": is odd"))
				return
			}
			task := clitest.Task(*one.ID, wire.StateScheduled)
			a.Results = append(a.Results, wire.BatchResult{Status: 201, Task: &task})
		}
		s.Reply(w, 200, a)
	})
	const text = "tasks:\n- {id: a, type: x}\n- id: b\n  type: bad\n  timeout: 1s\n  count: 2\n- {id: c, type: x}"
	applyText(t, s.Pipe(), text, "--dry-run").Expect(t, 1,
		"task\tdefault\ta\tcreated\t\ntask\tdefault\tb-0001\trefused\t\ntask\tdefault\tb-0002\trefused\t\ntask\tdefault\tc\tcreated\t\n",
		"dtsctl: -:5:12: 2 of the 2 tasks b: timeout: is odd (invalid)\n")
	if n := len(s.Lines()); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// What was done is told even if the server goes away in the middle.
func TestApply_TellsWhatWasDoneBeforeTheServerWasGone(t *testing.T) {
	sh := clitest.Shell{Transport: clitest.RoundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/b") && !r.URL.Query().Has("dry_run") {
			return nil, os.ErrDeadlineExceeded
		}
		raw, err := json.Marshal(inForce("a", 1, nil))
		testkit.Must(t, err)
		answer := clitest.Answer(r, 201, string(raw))
		answer.Header.Set("Dts-Change", "created")
		return answer, nil
	})}
	got := applyText(t, sh, "schedules: [{id: a, task: {type: x}}, {id: b, task: {type: x}}, {id: c, task: {type: x}}]", "-o", "json")
	want := `{"dry_run":false,"results":[{"kind":"schedule","namespace":"default","id":"a","outcome":"created","revision":1}]}` + "\n"
	if got.Code != 3 || got.Out != want || !strings.Contains(got.Err, "no answer in time") {
		t.Errorf("%+v", got)
	}
}

// An entry of many tasks is one thing, in however many requests it is sent.
func TestApply_TellsATerminalOnceOfManyTasks(t *testing.T) {
	s := clitest.Start(t)
	clitest.AcceptBatches(s)
	applyText(t, s.Terminal(), "tasks: [{id: a, type: x, count: 250}, {id: c, type: x}]").Expect(t, 0,
		"tasks a-0001 to a-0250 \x1b[32mcreated\x1b[0m\ntask c \x1b[32mcreated\x1b[0m\n", "")
	if n := len(s.Lines()); n != 2*3 {
		t.Errorf("asked %d times", n)
	}
	s = clitest.Start(t)
	clitest.AcceptBatches(s)
	applyText(t, s.Terminal(), "tasks: [{id: a, type: x, count: 250}, {id: b, type: bad, count: 150}, {id: c, type: x}]").Expect(t, 1,
		"tasks b-0001 to b-0150 \x1b[31mrefused\x1b[0m\n",
		"dtsctl: -:1:53: 150 of the 150 tasks b: type: is bad (invalid)\n"+nothingChanged)
	if n := len(s.Lines()); n != 5 {
		t.Errorf("asked %d times", n)
	}
}

func TestApply_TellsOfTheTasksBeforeTheServerWasGone(t *testing.T) {
	s := clitest.Start(t)
	clitest.AcceptBatches(s)
	sh, asked := s.Pipe(), 0
	sh.Transport = clitest.RoundTripper(func(r *http.Request) (*http.Response, error) {
		if asked++; asked == 3+2 { // 3 are those of the check
			return nil, os.ErrDeadlineExceeded
		}
		return s.Transport.RoundTrip(r)
	})
	got := applyText(t, sh, "tasks: [{id: a, type: x, count: 250}]")
	if got.Code != 3 || strings.Count(got.Out, "\tcreated\t\n") != 100 || strings.Count(got.Out, "\n") != 100 {
		t.Errorf("code %d, %q, %d lines", got.Code, got.Err, strings.Count(got.Out, "\n"))
	}
}

// The server is not trusted with the selector: what lacks a label stays.
func TestApply_PrunesOnlyWhatHasTheLabels(t *testing.T) {
	s := clitest.Start(t)
	takePuts(s, "unchanged")
	s.On("GET /v1/schedules", 200, wire.ScheduleList{Schedules: []wire.Schedule{
		inForce("kept", 1, wire.Labels{"a": "1", "b": "2"}), inForce("gone", 4, wire.Labels{"a": "1", "b": "2", "c": "3"}),
		inForce("other", 1, wire.Labels{"a": "1"}), inForce("none", 1, nil),
	}})
	s.On("DELETE /v1/schedules/{id}", 200, wire.ScheduleDeletion{})
	s.On("GET /v1/workflows", 404, clitest.Problem(404, wire.NotFound, "", "no such path")) // an earlier release
	applyText(t, s.Pipe(), "schedules: [{id: kept, task: {type: x}}]", "--prune", "-l", "a=1,b=2").Expect(t, 0,
		"schedule\tdefault\tkept\tunchanged\t3\nschedule\tdefault\tgone\tpruned\t4\n", "")
	var deleted []string
	for _, line := range s.Lines() {
		if strings.HasPrefix(line, "DELETE") {
			deleted = append(deleted, line)
		}
	}
	if want := []string{"DELETE /v1/schedules/gone?namespace=default"}; !slices.Equal(deleted, want) {
		t.Errorf("sent %q, want %q", deleted, want)
	}
}

// What cannot be read is not pruned, and whoever wonders why is told.
func TestApply_SaysWhatItCannotPrune(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules", 200, wire.ScheduleList{
		Schedules: []wire.Schedule{}, Warnings: []string{"schedule default:gone cannot be read"},
	})
	s.On("GET /v1/workflows", 200, wire.WorkflowList{
		Workflows: []wire.Workflow{}, Warnings: []string{"workflow default:lost cannot be read"},
	})
	applyText(t, s.Pipe(), "schedules: []", "--prune", "-l", "a=1").Expect(t, 0, "",
		"warning: schedule default:gone cannot be read\nwarning: workflow default:lost cannot be read\n")
}

func TestApply_PrunesNothingAfterARefusal(t *testing.T) {
	s := clitest.Start(t)
	s.On("PUT /v1/schedules/{id}", 400, clitest.Problem(400, wire.Invalid, "cron", "cron: is bad"))
	applyText(t, s.Pipe(), "schedules:\n- id: a\n  cron: x\n  task: {type: x}", "--prune", "-l", "a=1").Expect(t, 1,
		"schedule\tdefault\ta\trefused\t\n", "dtsctl: -:3:9: schedule a: cron: is bad (invalid)\ndtsctl: nothing is pruned, because something was refused\n")
	if n := len(s.Lines()); n != 1 {
		t.Errorf("asked %q", s.Lines())
	}
}

// A generator that failed leaves nothing behind it, which is not the wish to have nothing.
func TestApply_PrunesNothingForEmptyFiles(t *testing.T) {
	for _, text := range []string{"", "---\n---\n", "# nothing", "schedules:\ntasks:\n", "namespace: default\n", "{}"} {
		s := clitest.Start(t)
		got := applyText(t, s.Pipe(), text, "--prune", "-l", "a=1")
		if got.Code != 2 || !strings.Contains(got.Err, "there are no limits, no workflows, no schedules and no tasks in the files") || len(s.Lines()) > 0 {
			t.Errorf("%q: %+v after %q", text, got, s.Lines())
		}
	}
	s := clitest.Start(t)
	s.On("GET /v1/schedules", 200, wire.ScheduleList{Schedules: []wire.Schedule{inForce("gone", 4, wire.Labels{"a": "1"})}})
	s.On("GET /v1/workflows", 200, wire.WorkflowList{Workflows: []wire.Workflow{}})
	applyText(t, s.Pipe(), "schedules: []", "--prune", "-l", "a=1", "--dry-run").Expect(t, 0, "schedule\tdefault\tgone\tpruned\t4\n", "")
}

func TestApply_RefusesATaskThatACountNamesToo(t *testing.T) {
	s := clitest.Start(t)
	got := applyText(t, s.Pipe(), "tasks:\n- {id: a-0003, type: x}\n- {id: a, type: x, count: 3}")
	if got.Code != 2 || !strings.Contains(got.Err, "\n-:3:3: task \"a-0003\" is in -:2 already\n") || len(s.Lines()) > 0 {
		t.Errorf("%+v after %q", got, s.Lines())
	}
}

func TestApply_ReadsTheFilesOfADirectory(t *testing.T) {
	s := clitest.Start(t)
	takePuts(s, "created")
	dir := t.TempDir()
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "deeper.yaml"), 0o700))
	for name, text := range map[string]string{
		"b.yml": "schedules: [{id: b, task: {type: x}}]", "a.YAML": "schedules: [{id: a, task: {type: x}}]",
		"c.json": `{"schedules": [{"id": "c", "task": {"type": "x"}}]}`, "notes.md": "no: manifest",
	} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	s.Pipe().Run(t, "apply", "-f", dir, filepath.Join(dir, "b.yml")).Expect(t, 0,
		"schedule\tdefault\ta\tcreated\t3\nschedule\tdefault\tb\tcreated\t3\nschedule\tdefault\tc\tcreated\t3\n", "")
}

// Aliases can make a short text a very long one, or one without end.
func TestApply_LimitsWhatAliasesExpandTo(t *testing.T) {
	bomb := "tasks:\n- id: a\n  type: x\n  payload:\n    - &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'z'; c++ {
		name, before := string(c), string(c-1)
		bomb += "    - &" + name + " [" + strings.TrimSuffix(strings.Repeat("*"+before+",", 10), ",") + "]\n"
	}
	for _, text := range []string{bomb, "tasks: [{id: a, type: x, payload: &a {b: [*a]}}]", "tasks: [&a {<<: *a}]"} {
		s := clitest.Start(t)
		got := applyText(t, s.Pipe(), text)
		if got.Code != 2 || !strings.Contains(got.Err, "nested too deeply, or too large") || len(s.Lines()) > 0 {
			t.Errorf("%.40q: code %d, %.300q, asked %q", text, got.Code, got.Err, s.Lines())
		}
	}
}

func TestApply_DryRunHasTheServerCheckTasks(t *testing.T) {
	s := clitest.Start(t)
	clitest.AcceptBatches(s)
	applyText(t, s.Pipe(), "tasks: [{id: a, type: x}, {id: b, type: bad}]", "--dry-run").Expect(t, 1,
		"task\tdefault\ta\tcreated\t\ntask\tdefault\tb\trefused\t\n", "dtsctl: -:1:41: task b: type: is bad (invalid)\n")
	if lines := s.Lines(); len(lines) != 1 || lines[0] != "POST /v1/tasks/batch?dry_run=true" {
		t.Errorf("it asked %q", lines)
	}
}

func TestApply_LeavesKeysWithAnXAlone(t *testing.T) {
	s := clitest.Start(t)
	takePuts(s, "created")
	applyText(t, s.Pipe(), `
x-task: &task {type: http, payload: {a: 1}}
x-other: [1, 2]
schedules: [{id: a, every: 1h, task: *task}, {id: b, every: 1h, task: {<<: *task, type: noop}}]
`).Expect(t, 0, "schedule\tdefault\ta\tcreated\t3\nschedule\tdefault\tb\tcreated\t3\n", "")
	if got, want := s.Last().Body, `{"every":"1h","task":{"type":"noop","payload":{"a":1}}}`; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
	got := applyText(t, s.Pipe(), "schedules: [{id: a, every: 1h, x-note: 1, task: {type: x}}]")
	if got.Code != 2 || !strings.Contains(got.Err, "schedules[0].x-note: is not a field here") {
		t.Errorf("within an entry: %+v", got)
	}
}

func TestApply_SaysThatATextNeedsQuotes(t *testing.T) {
	s := clitest.Start(t)
	for cron, want := range map[string]string{
		"* * * * *": "needs quotes, as in cron: '* * * * *'", "*/5 * * * *": "needs quotes, as in cron: '* * * * *'",
		"? * * * *": "a text that begins with ? needs quotes, as in cron: '? * * * *'", "- * *": "a text that begins with - needs quotes",
		"*": "needs quotes", "*a": "needs quotes", "@daily": "needs quotes, as in cron: '@daily'", "%x": "needs quotes", "`x`": "needs quotes",
	} {
		got := applyText(t, s.Pipe(), "schedules:\n  - id: a\n    cron: "+cron+"\n    task: {type: noop}\n")
		if got.Code != 2 || !strings.Contains(got.Err, want) {
			t.Errorf("%s: %+v", cron, got)
		}
	}
}

// A document has all that is wrong, with its places, whether it was found before anything was sent or by the server.
func TestApply_PutsFaultsIntoTheDocument(t *testing.T) {
	s := clitest.Start(t)
	got := applyText(t, s.Pipe(), "schedules:\n- id: a\n  task: {type: 1, retry: []}\n---\ntasks: {}\n", "-o", "json")
	got.Expect(t, 2, `{"dry_run":false,"results":[],"faults":[`+
		`{"file":"-","line":3,"column":26,"field":"schedules[0].task.retry","text":"must be a mapping, not a list"},`+
		`{"file":"-","line":5,"column":8,"field":"tasks","text":"must be a list, not a mapping"}]}`+"\n",
		"dtsctl: nothing was changed:\n-:3:26: schedules[0].task.retry: must be a mapping, not a list\n"+
			"-:5:8: tasks: must be a list, not a mapping\nRun 'dtsctl apply --help' for what it takes.\n")
	if len(s.Lines()) > 0 {
		t.Errorf("asked %q", s.Lines())
	}
	s.On("PUT /v1/schedules/{id}", 400, clitest.Problem(400, wire.Invalid, "task.retry.max_attempts", "task.retry.max_attempts: is bad"))
	got = applyText(t, s.Pipe(), "schedules:\n- id: a\n  task: {type: x, retry: {max_attempts: 7}}", "-o", "json")
	want := `"faults":[{"file":"-","line":3,"column":41,"field":"schedules[0].task.retry.max_attempts","text":"is bad"}]}` + "\n"
	if got.Code != 1 || !strings.HasSuffix(got.Out, want) {
		t.Errorf("%+v", got)
	}
}

// Each invalid field that the server names has its own place.
func TestApply_TellsAllFaultsThatTheServerFinds(t *testing.T) {
	s := clitest.Start(t)
	p := clitest.Problem(400, wire.Invalid, "cron", "cron: is bad")
	p.Errors = []wire.InvalidField{{Field: new("cron"), Detail: "cron: is bad"}, {Field: new("task.timeout"), Detail: "task.timeout: is long"}}
	s.On("PUT /v1/schedules/{id}", 400, p)
	text := "schedules:\n- id: a\n  cron: x\n  task: {type: x, timeout: 9000h}"
	applyText(t, s.Pipe(), text).Expect(t, 1, "schedule\tdefault\ta\trefused\t\n",
		"dtsctl: -:3:9: schedule a: cron: is bad (invalid)\ndtsctl: -:4:28: schedule a: task.timeout: is long (invalid)\n")
	got := applyText(t, s.Pipe(), text, "-o", "json")
	want := `"faults":[{"file":"-","line":3,"column":9,"field":"schedules[0].cron","text":"is bad"},` +
		`{"file":"-","line":4,"column":28,"field":"schedules[0].task.timeout","text":"is long"}]}` + "\n"
	if got.Code != 1 || !strings.HasSuffix(got.Out, want) {
		t.Errorf("%+v", got)
	}
}

// A schedule with an error in its form does not hide what the server says of the others.
func TestApply_TellsFaultsOfTheServerBesideThoseOfTheFile(t *testing.T) {
	s := clitest.Start(t)
	s.Handle("PUT /v1/schedules/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("dry_run") != "true" {
			t.Errorf("%s changes something", r.URL)
		}
		s.Reply(w, 400, clitest.Problem(400, wire.Invalid, "every", "every: is odd"))
	})
	sh := s.Pipe()
	sh.Stdin = "schedules:\n- {id: y, every: 1h, task: {type: a}}\n" +
		"- {id: x, evry: 1h, task: {type: a}}\n- {id: z, every: 2h, task: {type: a}}\n"
	sh.Run(t, "apply", "-f", "-").Expect(t, 2, "", "dtsctl: nothing was changed:\n"+
		"-:2:18: schedules[0].every: is odd\n"+
		"-:3:11: schedules[1].evry: is not a field here; did you mean every?\n"+
		"-:4:18: schedules[2].every: is odd\n"+
		"Run 'dtsctl apply --help' for what it takes.\n")
}

// The task of a schedule has no key: the error names the field, and what to use.
func TestApply_SaysWhatToUseInsteadOfAKey(t *testing.T) {
	s := clitest.Start(t)
	sh := s.Pipe()
	sh.Stdin = "schedules:\n- id: y\n  every: 1h\n  task: {type: a, once: {mode: singleton, key: b}}\n"
	sh.Run(t, "apply", "-f", "-").Expect(t, 2, "", "dtsctl: nothing was changed:\n"+
		"-:4:19: schedules[0].task.once: is not a field here: use overlap of the schedule, which says what becomes of a "+
		"tick while a task before it has not ended\n"+
		"Run 'dtsctl apply --help' for what it takes.\n")
}
