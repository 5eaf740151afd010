package schedule_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/testkit"
)

// editing is a stub of a server with schedule a, and an editor.
type editing struct {
	*clitest.Stub
	dir string // where the editor puts what it saw, and where dtsctl creates files
}

// startEditing returns a stub whose editor does what a script says to the file "$1", with $n the number of its calls.
// Without an answer of its own, the server accepts everything.
func startEditing(t *testing.T, script string, put http.HandlerFunc) (*editing, clitest.Shell) {
	t.Helper()
	e := &editing{clitest.Start(t), t.TempDir()}
	editor := filepath.Join(e.dir, "editor")
	text := "#!/bin/sh\nset -e\ncd '" + e.dir + "'\n" + `echo >>calls
n=$(wc -l <calls | tr -d ' ')
cp "$1" seen$n
` + script + "\n"
	testkit.Must(t, os.WriteFile(editor, []byte(text), 0o700))
	t.Setenv("TMPDIR", e.dir)
	e.On("GET /v1/schedules/{id}", 200, aSchedule("a", func(s *wire.Schedule) { s.Revision = 4 }))
	e.On("GET /v1/schedules/{id}/next", 200, aPreview())
	if put == nil {
		put = e.accept
	}
	e.Handle("PUT /v1/schedules/{id}", put)
	sh := e.Pipe()
	sh.Env = map[string]string{"EDITOR": editor}
	return e, sh
}

func (e *editing) accept(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Dts-Change", "changed")
	e.Reply(w, 200, aSchedule("a", func(s *wire.Schedule) { s.Cron, s.Revision = new("9 * * * *"), 5 }))
}

// seen returns the file as the editor got it in its nth call.
func (e *editing) seen(t *testing.T, n string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(e.dir, "seen"+n))
	testkit.Must(t, err)
	return string(raw)
}

// left returns the paths of the files that were not removed.
func (e *editing) left(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(e.dir, "dtsctl-*.yaml"))
	testkit.Must(t, err)
	return paths
}

func (e *editing) changes() (lines []string) {
	for _, line := range e.Lines() {
		if strings.HasPrefix(line, "PUT") {
			lines = append(lines, line)
		}
	}
	return lines
}

const aFile = `---
namespace: default
schedules:
  - id: a
    cron: 7 * * * *
    task:
      payload:
        command:
          - "true"
      type: shell
`

func TestEdit_PutsWhatTheEditorWrote(t *testing.T) {
	e, sh := startEditing(t, `sed -i.bak 's/7/9/' "$1"`, nil)
	sh.Run(t, "schedule", "edit", "a", "--yes").Expect(t, 0, "a\tchanged\t5\t2026-01-02T15:07:05.000Z\n", "")
	head := "## Schedule a, revision 4.\n## Leave this file as it is, or empty it, to change nothing.\n"
	if got := e.seen(t, "1"); got != head+aFile {
		t.Errorf("the editor got %s", got)
	}
	put := e.LastOf("PUT")
	want := `{"cron":"9 * * * *","task":{"payload":{"command":["true"]},"type":"shell"}}`
	if put.Body != want || put.Header.Get("If-Match") != `"4"` || put.Line != "PUT /v1/schedules/a?namespace=default" {
		t.Errorf("sent %+v", put)
	}
	if lines := e.changes(); len(lines) != 2 || !strings.HasSuffix(lines[0], "&dry_run=true") || len(e.left(t)) > 0 {
		t.Errorf("asked %q, left %q", lines, e.left(t))
	}
}

func TestEdit_MakesTheTasksUrgent(t *testing.T) {
	const lines = `      priority: 9\n      fair_key: k\n      limit_key: b,a\n      select: gpu\n`
	e, sh := startEditing(t, `sed -i.bak 's/^      type: /`+lines+`&/' "$1"`, nil)
	sh.Run(t, "schedule", "edit", "a", "--yes").Expect(t, 0, "a\tchanged\t5\t2026-01-02T15:07:05.000Z\n", "")
	want := `{"cron":"7 * * * *","task":{"fair_key":"k","limit_key":"b,a","payload":{"command":["true"]},"priority":9,` +
		`"select":"gpu","type":"shell"}}`
	if put := e.LastOf("PUT"); put.Body != want {
		t.Errorf("sent %s", put.Body)
	}
}

func TestEdit_ChangesNothingWithoutAChange(t *testing.T) {
	for name, script := range map[string]string{
		"left": ":", "empty": `: >"$1"`, "only comments": `echo '# x' >"$1"`, "notes removed": `sed -i.bak /##/d "$1"`,
	} {
		t.Run(name, func(t *testing.T) {
			e, sh := startEditing(t, script, nil)
			sh.Run(t, "schedule", "edit", "a", "--yes").Expect(t, 0, "", "Nothing was changed.\n")
			if lines := e.changes(); len(lines) > 0 || len(e.left(t)) > 0 {
				t.Errorf("asked %q, left %q", lines, e.left(t))
			}
		})
	}
}

// The server may find that only the form was changed.
func TestEdit_SaysThatNothingWouldChange(t *testing.T) {
	var e *editing
	e, sh := startEditing(t, `echo >>"$1"`, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Dts-Change", "unchanged")
		e.Reply(w, 200, aSchedule("a"))
	})
	sh.Run(t, "schedule", "edit", "a", "--yes").Expect(t, 0, "", "Nothing was changed.\n")
	if lines := e.changes(); len(lines) != 1 || len(e.left(t)) > 0 {
		t.Errorf("asked %q, left %q", lines, e.left(t))
	}
}

// The errors are above the file, with the lines that the fields have below them.
func TestEdit_OpensAnInvalidFileAgain(t *testing.T) {
	var e *editing
	e, sh := startEditing(t, `case $n in
1) sed -i.bak 's/cron: 7/crom: 7/' "$1";;
2) sed -i.bak 's/crom: 7/cron: 99/' "$1";;
3) sed -i.bak 's/99/9/' "$1";;
esac`, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(e.Last().Body, "99") {
			e.Reply(w, 400, clitest.Problem(400, wire.Invalid, "cron", "cron: 99 is no minute"))
			return
		}
		e.accept(w, r)
	})
	sh.Run(t, "schedule", "edit", "a", "--yes").Expect(t, 0, "a\tchanged\t5\t2026-01-02T15:07:05.000Z\n", "")
	const head = "## The file is invalid. Correct it, or empty it to change nothing.\n"
	want := head + "## line 7:5: schedules[0].crom: is not a field here; did you mean cron?\n" +
		strings.Replace(aFile, "cron", "crom", 1)
	if e.seen(t, "2") != want {
		t.Errorf("the editor got %s", e.seen(t, "2"))
	}
	want = head + "## line 7:11: schedules[0].cron: 99 is no minute\n" + strings.Replace(aFile, "7", "99", 1)
	if e.seen(t, "3") != want {
		t.Errorf("the editor got %s", e.seen(t, "3"))
	}
}

func TestEdit_TakesOneScheduleOnly(t *testing.T) {
	for script, want := range map[string]string{
		`sed -i.bak 's/id: a/id: b/' "$1"`:              "line 6:9: schedules[0].id: must stay a",
		`sed -i.bak 's/e: default/e: other/' "$1"`:      "line 6:5: schedules[0].namespace: must stay default",
		`echo 'tasks: [{id: a, type: noop}]' >>"$1"`:    "line 3: the file must have schedule a, and nothing else",
		`printf 'schedules: []' >"$1"`:                  "line 3: the file must have schedule a, and nothing else",
		`printf 'schedules: [{id: a, task: {}}]' >"$1"`: "line 3:27: schedules[0].task.type: is missing",
		`printf 'schedules: [{id: a}]\nx: [1' >>"$1"`:   "is not YAML",
	} {
		e, sh := startEditing(t, `[ $n -gt 1 ] || `+script, nil)
		got := sh.Run(t, "schedule", "edit", "a", "--yes")
		if got.Code != 1 || !strings.Contains(e.seen(t, "2"), want) || len(e.changes()) > 0 {
			t.Errorf("%s: %+v, the editor got %s", script, got, e.seen(t, "2"))
		}
	}
}

// What somebody wrote is not lost, whatever goes wrong.
func TestEdit_KeepsWhatCannotBePut(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		put    wire.Problem
		err    string
		code   int
	}{
		"conflict": {
			`sed -i.bak 's/7/9/' "$1"`, clitest.Problem(412, wire.ScheduleChanged, "", "schedule \"a\" is at revision 5, not 4"),
			"dtsctl: schedule \"a\" is at revision 5, not 4 (schedule_changed)\n", 1,
		},
		"still invalid": {
			`[ $n -gt 1 ] || sed -i.bak 's/7/9/' "$1"`, clitest.Problem(400, wire.Invalid, "cron", "cron: no"),
			"dtsctl: line 7:11: schedules[0].cron: no\ndtsctl: the file is still invalid, and nothing was changed\n", 1,
		},
		"editor": {`sed -i.bak 's/7/9/' "$1"; exit 7`, wire.Problem{}, "exit status 7\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			var e *editing
			e, sh := startEditing(t, c.script, func(w http.ResponseWriter, _ *http.Request) { e.Reply(w, c.put.Status, c.put) })
			got := sh.Run(t, "schedule", "edit", "a", "--yes")
			left := e.left(t)
			if len(left) != 1 {
				t.Fatalf("left %q after %+v", left, got)
			}
			kept, err := os.ReadFile(left[0])
			testkit.Must(t, err)
			if got.Code != c.code || !strings.HasSuffix(got.Err, c.err) && !strings.HasPrefix(got.Err, c.err) ||
				!strings.Contains(got.Err, "what was written is in "+left[0]+"\n") ||
				!strings.Contains(string(kept), "cron: 9 * * * *") {
				t.Errorf("%+v, kept %s", got, kept)
			}
		})
	}
}

// The pause is changed where the file says so, and else left to whoever changed it meanwhile.
func TestEdit_NamesThePauseOnlyToChangeIt(t *testing.T) {
	for script, want := range map[string]string{
		`sed -i.bak '/paused/d' "$1"`:                     `"paused":false,`,
		`sed -i.bak 's/paused: true/paused: false/' "$1"`: `"paused":false,`,
		`sed -i.bak 's/7/9/' "$1"`:                        ``,
	} {
		e, sh := startEditing(t, script, nil)
		e.Stub = clitest.Start(t)
		e.On("GET /v1/schedules/{id}", 200, aSchedule("a", func(s *wire.Schedule) { s.Paused = true }))
		e.Handle("PUT /v1/schedules/{id}", e.accept)
		e.On("GET /v1/schedules/{id}/next", 200, aPreview())
		sh.Server, sh.Transport = e.URL, e.Transport
		got := sh.Run(t, "schedule", "edit", "a", "--yes")
		body := e.LastOf("PUT").Body
		if got.Code != 0 || strings.Contains(body, "paused") != (want != "") || !strings.Contains(body, want) {
			t.Errorf("%s: %+v, sent %s", script, got, body)
		}
		if !strings.Contains(e.seen(t, "1"), "paused: true") {
			t.Errorf("the editor got %s", e.seen(t, "1"))
		}
	}
}

func TestEdit_SaysWhyItCannotAsk(t *testing.T) {
	e, sh := startEditing(t, ":", nil)
	got := sh.Run(t, "schedule", "edit", "a")
	if got.Code != 2 || !strings.HasPrefix(got.Err, "dtsctl: there is no terminal, so nobody can be asked: say --yes") {
		t.Errorf("%+v", got)
	}
	sh.Env = map[string]string{}
	got = sh.Run(t, "schedule", "edit", "a", "--yes")
	if got.Code != 2 || !strings.HasPrefix(got.Err, "dtsctl: there is no terminal and no editor: name one with EDITOR") {
		t.Errorf("%+v", got)
	}
	if len(e.Lines()) > 0 {
		t.Errorf("asked %q", e.Lines())
	}
}

// VISUAL counts before EDITOR, and may have arguments.
func TestEdit_TakesTheEditorOfTheUser(t *testing.T) {
	e, sh := startEditing(t, ":", nil)
	sh.Env["EDITOR"], sh.Env["VISUAL"] = "false", "/bin/sh "+sh.Env["EDITOR"]
	sh.Run(t, "schedule", "edit", "a", "-y").Expect(t, 0, "", "Nothing was changed.\n")
	sh.Env["VISUAL"] = "no-such-editor"
	got := sh.Run(t, "schedule", "edit", "a", "-y")
	if got.Code != 1 || !strings.HasPrefix(got.Err, "dtsctl: editor no-such-editor: ") || len(e.left(t)) > 0 {
		t.Errorf("%+v, left %q", got, e.left(t))
	}
}
