package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/test/process"
)

// blocks are the blocks of a language in a page.
func blocks(t *testing.T, page, language string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		found = append(found, m[1])
	}
	return found
}

// bash runs the commands of a page in a folder, against this node, and returns all that they print.
func (n *node) bash(dir, script string) string {
	n.t.Helper()
	cmd := exec.CommandContext(n.t.Context(), "bash", "-ec", strings.ReplaceAll(script, "localhost:8080", strings.TrimPrefix(n.url, "http://")))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GORACE="+process.QuickRace, "DTSCTL_SERVER="+n.url, "PATH="+binaries+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// The commands of these pages, one after the other, do what the pages say.
func TestPages_DoWhatTheySay(t *testing.T) {
	t.Parallel()
	if err := exec.CommandContext(t.Context(), "curl", "--json", "", "--version").Run(); err != nil {
		t.Skip("the pages need curl 7.82: ", err)
	}
	for page, c := range map[string]struct {
		blocks int // the first ones, which are commands; 0: all
		want   []string
	}{
		"executors": {1, []string{"\tsucceeded\n", "health\tcreated"}},
		"workers": {0, []string{
			`no living node that serves the queue "default" runs tasks of type "count"`, `"payload":{"to":3}`, `"verdict":"running"`, "copied 5 rows", "3 counted",
		}},
		"locks": {0, []string{"deploying to production\nimporting\n", `"holder":"host-7:3f9a"`, `"ttl":"15s"`, `{"released":true}`}},
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			n := startNode(t, redistest.Start(t).URL(), "--enable-shell", "--http-allow-api") // as `make run`
			scripts := blocks(t, "../docs/"+page+".md", "sh")
			if c.blocks > 0 {
				scripts = scripts[:c.blocks]
			}
			out := n.bash(t.TempDir(), strings.Join(scripts, "\n"))
			for _, text := range c.want {
				if !strings.Contains(out, text) {
					t.Errorf("no %q in\n%s", text, out)
				}
			}
			if strings.Contains(out, "urn:dts:problem") {
				t.Errorf("something was refused:\n%s", out)
			}
		})
	}
}

// The commands of docs/from-cron.md do what the page says, with its crontab.
func TestFromCron_ThePageDoesWhatItSays(t *testing.T) {
	t.Parallel()
	n := startNode(t, redistest.Start(t).URL(), "--enable-shell")
	dir := t.TempDir()
	crontabs := blocks(t, "../docs/from-cron.md", "crontab")
	if len(crontabs) != 1 {
		t.Fatalf("found %d crontabs", len(crontabs))
	}
	if err := os.WriteFile(filepath.Join(dir, "my-crontab"), []byte(crontabs[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(script string) string { return n.bash(dir, script) }
	scripts := blocks(t, "../docs/from-cron.md", "sh")
	for i, want := range [][]string{
		{"line 8: @reboot has no counterpart", "cron: 30 2 * * *", "it is a new month."},
		{
			"web1-echo-backup-of-date-a-505afa7784f8\tcreated", "web1-test-d-tmp-76d377e81a29\tcreated", "web1-cat-c714127b816b\tcreated",
			"3 of 4 lines were imported, 1 refused",
		},
		{
			"1 schedule is not in the file any more: web1-test-d-tmp-76d377e81a29; --prune deletes them", "\tweb1-test-d-tmp-76d377e81a29\tpruned",
			"2 of 3 lines were imported (2 of them unchanged), 1 refused",
		},
		{"+01:00", "web1-cat-c714127b816b@"},
	} {
		out := run(scripts[i])
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("%s: no %q in\n%s", scripts[i], text, out)
			}
		}
	}
	if again := run(scripts[1]); !strings.Contains(again, "2 of 3 lines were imported (2 of them unchanged), 1 refused") {
		t.Errorf("again:\n%s", again)
	}
	await(t, 30*time.Second, "the triggered command has run", func() bool {
		all := n.all("succeeded")
		return len(all) == 1 && strings.TrimSpace(*all[0].Result) == "Hello,\nit is a new month."
	})
	out := run("dtsctl schedule trigger web1-echo-backup-of-date-a-505afa7784f8")
	id, _, _ := strings.Cut(out, "\t")
	run("dtsctl task wait " + id)
	if got := *n.task(id).Result; !regexp.MustCompile(`^BACKUP OF [A-Z]+DAY$`).MatchString(strings.TrimSpace(got)) {
		t.Errorf("the backup's result is %q", got)
	}
}
