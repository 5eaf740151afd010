package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/client"
)

// inForce is a schedule as the server answers it.
func inForce(id string, revision int, labels client.Labels) client.Schedule {
	is := client.Schedule{
		ID: id, Namespace: "default", Revision: revision, CreatedAt: now, UpdatedAt: now, Cursor: now,
		Every: new("1h"), Task: client.TaskTemplate{Type: "http", Queue: new("default"), Payload: json.RawMessage("{}")},
	}
	if labels != nil {
		is.Labels = &labels
	}
	return is
}

// takePuts answers every PUT of a schedule, and says that it came to this.
func takePuts(s *stub, change string) {
	s.mux.HandleFunc("PUT /v1/schedules/{id}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Dts-Change", change)
		s.reply(w, http.StatusOK, inForce(r.PathValue("id"), 3, nil))
	})
}

func (sh shell) apply(t *testing.T, text string, args ...string) result {
	t.Helper()
	sh.stdin = text
	return sh.run(t, append([]string{"apply", "-f", "-"}, args...)...)
}

// Texts need no quotes, numbers keep their digits, keys their order.
func TestApplySendsWhatTheFileSays(t *testing.T) {
	for file, want := range map[string]string{
		`{id: a, every: 1h, task: {type: http}}`:                                                                 `{"every":"1h","task":{"type":"http"}}`,
		`{id: a, task: {type: "http"}, start_at: 2026-01-01T00:00:00+08:00}`:                                     `{"task":{"type":"http"},"start_at":"2026-01-01T00:00:00+08:00"}`,
		`{id: a, task: {type: x}, exclude: [2026-12-25, "* 12 * * *"]}`:                                          `{"task":{"type":"x"},"exclude":["2026-12-25","* 12 * * *"]}`,
		`{id: a, task: {type: x}, labels: {v: 1.10, n: 0815, on: yes, t: true}}`:                                 `{"task":{"type":"x"},"labels":{"v":"1.10","n":"0815","on":"yes","t":"true"}}`,
		`{id: a, task: {type: x, payload: {z: 1, a: [12345678901234567890, 0x1F, 1e3, -0.50]}}}`:                 `{"task":{"type":"x","payload":{"z":1,"a":[12345678901234567890,31,1e3,-0.50]}}}`,
		`{id: a, task: {type: x, payload: {n: null, e: , b: yes, t: true, q: "1", d: 2026-01-01}}}`:              `{"task":{"type":"x","payload":{"n":null,"e":null,"b":"yes","t":true,"q":"1","d":"2026-01-01"}}}`,
		`{id: a, task: {type: x, payload: "<&>"}}`:                                                               `{"task":{"type":"x","payload":"<&>"}}`,
		`{id: a, paused: true, max_runs: 3, task: {type: x, retry: {backoff: {factor: 1.5}}}}`:                   `{"paused":true,"max_runs":3,"task":{"type":"x","retry":{"backoff":{"factor":1.5}}}}`,
		`{id: a, task: {type: x, retry: &r {max_attempts: 2}}, misfire: {<<: {max: 1, window: 1h}, window: 2h}}`: `{"task":{"type":"x","retry":{"max_attempts":2}},"misfire":{"window":"2h","max":1}}`,
	} {
		s := startStub(t)
		takePuts(s, "created")
		s.pipe().apply(t, "schedules: ["+file+"]").expect(t, 0, "schedule\tdefault\ta\tcreated\t3\n", "")
		if got := s.last(); got.line != "PUT /v1/schedules/a?namespace=default" || got.body != want {
			t.Errorf("%s: sent %s %s, want %s", file, got.line, got.body, want)
		}
	}
}

func TestApplyTakesTheNamespaceThatIsNearest(t *testing.T) {
	s := startStub(t)
	takePuts(s, "unchanged")
	sh := s.pipe()
	sh.env = map[string]string{"DTSCTL_NAMESPACE": "env"}
	got := sh.apply(t, `
schedules: [{id: a, task: {type: x}}]
---
namespace: doc
schedules: [{id: a, task: {type: x}}, {id: a, namespace: own, task: {type: x}}]
`)
	got.expect(t, 0, "schedule\tenv\ta\tunchanged\t3\nschedule\tdoc\ta\tunchanged\t3\nschedule\town\ta\tunchanged\t3\n", "")
	want := []string{"PUT /v1/schedules/a?namespace=env", "PUT /v1/schedules/a?namespace=doc", "PUT /v1/schedules/a?namespace=own"}
	if lines := s.lines(); !slices.Equal(lines, want) {
		t.Errorf("asked %q, want %q", lines, want)
	}
}

func TestATerminalIsToldInWordsAndColours(t *testing.T) {
	s := startStub(t)
	takePuts(s, "changed")
	acceptBatches(s)
	s.terminal().apply(t, "schedules: [{id: a, task: {type: x}}]\ntasks: [{id: b, type: x, count: 3}, {id: c, type: x}]").expect(t, 0,
		"schedule a \x1b[33mchanged (revision 3)\x1b[0m\n"+
			"tasks b-0001 to b-0003 \x1b[32mcreated\x1b[0m\ntask c \x1b[32mcreated\x1b[0m\n", "")
}

func TestADryRunComparesFieldByField(t *testing.T) {
	s := startStub(t)
	s.on("GET /v1/schedules/{id}", 200, inForce("a", 2, client.Labels{"old": "1"}))
	s.mux.HandleFunc("PUT /v1/schedules/{id}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Dts-Change", "changed")
		next := inForce("a", 3, client.Labels{"new": "2"})
		next.Paused, next.Every = true, new("2h")
		s.reply(w, http.StatusOK, next)
	})
	manifest := "schedules: [{id: a, task: {type: x}}]"
	s.pipe().apply(t, manifest, "--dry-run").expect(t, 0, "schedule\tdefault\ta\tchanged\t3\n"+
		"  - every: 1h\n  + every: 2h\n  + labels.new: 2\n  - labels.old: 1\n  - paused: false\n  + paused: true\n", "")
	if got := s.last().line; got != "PUT /v1/schedules/a?namespace=default&dry_run=true" {
		t.Errorf("asked %s", got)
	}
	s.pipe().apply(t, manifest, "--dry-run", "-o", "json").expect(t, 0, `{"dry_run":true,"results":[{"kind":"schedule","namespace":"default","id":"a",`+
		`"outcome":"changed","revision":3,"changes":[{"field":"every","before":"1h","after":"2h"},{"field":"labels.new","after":"2"},`+
		`{"field":"labels.old","before":"1"},{"field":"paused","before":"false","after":"true"}]}]}`+"\n", "")
}

// A request that the server cannot read because of one entry is sent again without it.
func TestApplyGoesOnWithoutTheEntryThatSpoilsARequest(t *testing.T) {
	s := startStub(t)
	s.mux.HandleFunc("POST /v1/tasks/batch", func(w http.ResponseWriter, r *http.Request) {
		var b client.SubmissionBatch
		must(s.t, json.NewDecoder(r.Body).Decode(&b))
		var a client.BatchAnswer
		for i, one := range b.Tasks {
			if one.Type == "bad" {
				field := "tasks[" + string(rune('0'+i)) + "].timeout"
				s.reply(w, 400, problem(400, client.Invalid, field, field+": is odd"))
				return
			}
			task := aTask(*one.ID, client.StateScheduled)
			a.Results = append(a.Results, client.BatchResult{Status: 201, Task: &task})
		}
		s.reply(w, 200, a)
	})
	s.pipe().apply(t, "tasks:\n- {id: a, type: x}\n- id: b\n  type: bad\n  timeout: 1s\n  count: 2\n- {id: c, type: x}").expect(t, 1,
		"task\tdefault\ta\tcreated\t\ntask\tdefault\tb-0001\trefused\t\ntask\tdefault\tb-0002\trefused\t\ntask\tdefault\tc\tcreated\t\n",
		"dtsctl: -:5: 2 of the 2 tasks b: timeout: is odd (invalid)\n")
	if n := len(s.lines()); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// What was done is told even if the server goes away in the middle.
func TestApplyTellsWhatWasDoneBeforeTheServerWasGone(t *testing.T) {
	sh := shell{rt: roundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/b") {
			return nil, os.ErrDeadlineExceeded
		}
		raw, err := json.Marshal(inForce("a", 1, nil))
		must(t, err)
		answer := answerOf(r, 201, string(raw))
		answer.Header.Set("Dts-Change", "created")
		return answer, nil
	})}
	got := sh.apply(t, "schedules: [{id: a, task: {type: x}}, {id: b, task: {type: x}}, {id: c, task: {type: x}}]", "-o", "json")
	want := `{"dry_run":false,"results":[{"kind":"schedule","namespace":"default","id":"a","outcome":"created","revision":1}]}` + "\n"
	if got.code != 3 || got.out != want || !strings.Contains(got.err, "no answer in time") {
		t.Errorf("%+v", got)
	}
}

// An entry of many tasks is one thing, in however many requests it is sent.
func TestATerminalIsToldOnceOfManyTasks(t *testing.T) {
	s := startStub(t)
	acceptBatches(s)
	s.terminal().apply(t, "tasks: [{id: a, type: x, count: 250}, {id: b, type: bad, count: 150}, {id: c, type: x}]").expect(t, 1,
		"tasks a-0001 to a-0250 \x1b[32mcreated\x1b[0m\ntasks b-0001 to b-0150 \x1b[31mrefused\x1b[0m\ntask c \x1b[32mcreated\x1b[0m\n",
		"dtsctl: -:1: 150 of the 150 tasks b: type: is bad (invalid)\n")
	if n := len(s.lines()); n != 5 {
		t.Errorf("asked %d times", n)
	}
}

func TestApplyTellsOfTheTasksBeforeTheServerWasGone(t *testing.T) {
	s := startStub(t)
	acceptBatches(s)
	sh, asked := s.pipe(), 0
	sh.rt = roundTripper(func(r *http.Request) (*http.Response, error) {
		if asked++; asked == 2 {
			return nil, os.ErrDeadlineExceeded
		}
		return s.transport.RoundTrip(r)
	})
	got := sh.apply(t, "tasks: [{id: a, type: x, count: 250}]")
	if got.code != 3 || strings.Count(got.out, "\tcreated\t\n") != 100 || strings.Count(got.out, "\n") != 100 {
		t.Errorf("code %d, %q, %d lines", got.code, got.err, strings.Count(got.out, "\n"))
	}
}

// The server is not trusted with the selector: what lacks a label stays.
func TestPruningDeletesOnlyWhatHasTheLabels(t *testing.T) {
	s := startStub(t)
	takePuts(s, "unchanged")
	s.on("GET /v1/schedules", 200, client.ScheduleList{Schedules: []client.Schedule{
		inForce("kept", 1, client.Labels{"a": "1", "b": "2"}), inForce("gone", 4, client.Labels{"a": "1", "b": "2", "c": "3"}),
		inForce("other", 1, client.Labels{"a": "1"}), inForce("none", 1, nil),
	}})
	s.on("DELETE /v1/schedules/{id}", 200, client.ScheduleDeletion{})
	s.pipe().apply(t, "schedules: [{id: kept, task: {type: x}}]", "--prune", "-l", "a=1,b=2").expect(t, 0,
		"schedule\tdefault\tkept\tunchanged\t3\nschedule\tdefault\tgone\tpruned\t4\n", "")
	var deleted []string
	for _, line := range s.lines() {
		if strings.HasPrefix(line, "DELETE") {
			deleted = append(deleted, line)
		}
	}
	if want := []string{"DELETE /v1/schedules/gone?namespace=default"}; !slices.Equal(deleted, want) {
		t.Errorf("sent %q, want %q", deleted, want)
	}
}

func TestNothingIsPrunedWhereSomethingWasRefused(t *testing.T) {
	s := startStub(t)
	s.on("PUT /v1/schedules/{id}", 400, problem(400, client.Invalid, "cron", "cron: is bad"))
	s.pipe().apply(t, "schedules:\n- id: a\n  cron: x\n  task: {type: x}", "--prune", "-l", "a=1").expect(t, 1,
		"schedule\tdefault\ta\trefused\t\n", "dtsctl: -:3: schedule a: cron: is bad (invalid)\ndtsctl: nothing is pruned, because something was refused\n")
	if n := len(s.lines()); n != 1 {
		t.Errorf("asked %q", s.lines())
	}
}

// A generator that failed leaves nothing behind it, which is not the wish to have nothing.
func TestNothingIsPrunedForFilesThatSayNothing(t *testing.T) {
	for _, text := range []string{"", "---\n---\n", "# nothing", "schedules:\ntasks:\n", "namespace: default\n", "{}"} {
		s := startStub(t)
		got := s.pipe().apply(t, text, "--prune", "-l", "a=1")
		if got.code != 2 || !strings.Contains(got.err, "there are no schedules and no tasks in the files") || len(s.lines()) > 0 {
			t.Errorf("%q: %+v after %q", text, got, s.lines())
		}
	}
	s := startStub(t)
	s.on("GET /v1/schedules", 200, client.ScheduleList{Schedules: []client.Schedule{inForce("gone", 4, client.Labels{"a": "1"})}})
	s.pipe().apply(t, "schedules: []", "--prune", "-l", "a=1", "--dry-run").expect(t, 0, "schedule\tdefault\tgone\tpruned\t4\n", "")
}

func TestTheTasksOfACountAreDifferentOnes(t *testing.T) {
	s := startStub(t)
	got := s.pipe().apply(t, "tasks:\n- {id: a-0003, type: x}\n- {id: a, type: x, count: 3}")
	if got.code != 2 || !strings.Contains(got.err, "\n-:3: task \"a-0003\" is in -:2 already\n") || len(s.lines()) > 0 {
		t.Errorf("%+v after %q", got, s.lines())
	}
}

func TestADirectoryStandsForItsManifests(t *testing.T) {
	s := startStub(t)
	takePuts(s, "created")
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "deeper.yaml"), 0o700))
	for name, text := range map[string]string{
		"b.yml": "schedules: [{id: b, task: {type: x}}]", "a.YAML": "schedules: [{id: a, task: {type: x}}]",
		"c.json": `{"schedules": [{"id": "c", "task": {"type": "x"}}]}`, "notes.md": "no: manifest",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	s.pipe().run(t, "apply", "-f", dir, filepath.Join(dir, "b.yml")).expect(t, 0,
		"schedule\tdefault\ta\tcreated\t3\nschedule\tdefault\tb\tcreated\t3\nschedule\tdefault\tc\tcreated\t3\n", "")
}

// Aliases can make a short text a very long one, or one without end.
func TestAliasesDoNotBlowUp(t *testing.T) {
	bomb := "tasks:\n- id: a\n  type: x\n  payload:\n    - &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'z'; c++ {
		name, before := string(c), string(c-1)
		bomb += "    - &" + name + " [" + strings.TrimSuffix(strings.Repeat("*"+before+",", 10), ",") + "]\n"
	}
	for _, text := range []string{bomb, "tasks: [{id: a, type: x, payload: &a {b: [*a]}}]", "tasks: [&a {<<: *a}]"} {
		s := startStub(t)
		got := s.pipe().apply(t, text)
		if got.code != 2 || !strings.Contains(got.err, "nested too deeply, or too large") || len(s.lines()) > 0 {
			t.Errorf("%.40q: code %d, %.300q, asked %q", text, got.code, got.err, s.lines())
		}
	}
}

// Whatever a file holds, reading it ends well, or in errors that name a line; what is sent is JSON.
func FuzzManifest(f *testing.F) {
	for _, seed := range []string{
		"", "a", "[]", "{}", "---\n---\n", "schedules:\ntasks:\n", "schedules: [{id: a, every: 1h, task: {type: http, payload: {x: [1, null]}}}]",
		"tasks: [{id: a, type: x, count: 3, <<: {delay: 1s}}]", "namespace: n\ntasks: [{id: a, type: &t x, queue: *t}]", "tasks: [&a [*a]]",
		"? {a: b}\n: c", "tasks: [{id: a, type: x, payload: {a: .inf, b: !!binary aGVsbG8=, c: 0x_1, d: 1_000, e: 0o17}}]", "\x00", "{a: 1, a: 2}",
		"tasks: [{id: a, type: x, payload: !!int x}]", "!!merge <<: 1", "%YAML 9.9\n---\n", "tasks: !!set {a}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := &session{Factory: Factory{In: strings.NewReader(text), Getenv: func(string) string { return "" }}}
		m, err := s.readManifests([]string{"-"})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "nothing was sent:") {
				t.Errorf("error %q", err)
			}
			return
		}
		for _, e := range slices.Concat(m.schedules, m.tasks) {
			if e.id == "" || !json.Valid(e.body) || !json.Valid(e.submission(e.id).body) || e.line("a[0].b") < 1 {
				t.Errorf("%+v, %s", e, e.body)
			}
		}
	})
}
