//go:build unix

package shellexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

const longGrace = time.Minute // no test waits for it

type object = map[string]any

func TestMain(m *testing.M) { testkit.Main(m) }

// sh is an attempt that runs a script.
func sh(t *testing.T, script string) *executortest.Recorder {
	t.Helper()
	return executortest.NewRecorder(executortest.JSON(t, object{"command": []string{"/bin/sh", "-c", script}}))
}

func run(t *testing.T, r *executortest.Recorder) (string, error) {
	t.Helper()
	return New(Options{Grace: longGrace}).Execute(t.Context(), r.Attempt)
}

// waitForPID waits for a line with the number of a process.
func waitForPID(t *testing.T, r *running) int {
	t.Helper()
	pid, err := strconv.Atoi(r.WaitForLine(t))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestExecutor_ReturnsTheLastLinesOfItsOutput(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"all of a few":               {`echo a; echo; echo "b c"`, "a\n\nb c"},
		"the last 20 of many":        {`seq 1 100`, strings.Join(numbers(81, 100), "\n")},
		"one without a line end":     {`printf 'a\nb'`, "a\nb"},
		"none":                       {`:`, ""},
		"not what is on stderr":      {`echo a; echo b >&2`, "a"},
		"Windows line ends are ends": {`printf 'a\r\nb\r\n'`, "a\nb"},
		"a NUL is kept":              {`printf 'a\000b'`, "a\x00b"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := run(t, sh(t, c.script)); err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestExecutor_SaysWhichExitCodesAreFinal(t *testing.T) {
	t.Parallel()
	for code, final := range map[int]bool{1: false, 2: true, 64: true, 255: false} {
		payload := object{"command": []string{"/bin/sh", "-c", fmt.Sprint("echo why >&2; exit ", code)}, "final_exit_codes": []int{2, 64}}
		_, err := run(t, executortest.NewRecorder(executortest.JSON(t, payload)))
		if want := fmt.Sprintf("exit status %d: why", code); err == nil || err.Error() != want || executor.IsPermanent(err) != final {
			t.Errorf("got %v, final %v; want %s, final %v", err, executor.IsPermanent(err), want, final)
		}
	}
	_, err := run(t, executortest.NewRecorder(`{"command": ["/bin/sh", "-c", "kill -9 $$"], "final_exit_codes": [137, 9]}`))
	if err == nil || executor.IsPermanent(err) {
		t.Errorf("a signal is no exit code: %v", err)
	}
}

func TestExecutor_PassesOnTheVariablesThatTheNodeAllows(t *testing.T) {
	t.Setenv("DTS_TEST_SECRET", "hidden")
	t.Setenv("DTS_TEST_ZONE", "north")
	const script = `echo "$DTS_TEST_ZONE,$DTS_TEST_SECRET,${HOME:-none}"`
	got, err := New(Options{Grace: longGrace, Env: []string{"PATH", "DTS_TEST_ZONE", "DTS_TEST_MISSING"}}).Execute(t.Context(), sh(t, script).Attempt)
	if err != nil || got != "north,,none" {
		t.Errorf("got %q, %v", got, err)
	}
	got, err = New(Options{Grace: longGrace, Env: []string{}}).Execute(t.Context(), sh(t, script).Attempt)
	if err != nil || got != ",,none" {
		t.Errorf("with no variable at all: %q, %v", got, err)
	}
}

func numbers(from, to int) (all []string) {
	for i := from; i <= to; i++ {
		all = append(all, strconv.Itoa(i))
	}
	return all
}

func TestExecutor_KeepsTheResultUnderItsLimit(t *testing.T) {
	got, err := run(t, sh(t, `for i in 1 2 3 4 5 6 7 8 9; do head -c 3000 /dev/zero | tr '\0' $i; echo; done`))
	lines := strings.Split(got, "\n")
	if err != nil || len(got) > task.ResultLimit || len(lines) != 5 || lines[4] != strings.Repeat("9", 3000) {
		t.Errorf("got %d bytes in %d lines, %v", len(got), len(lines), err)
	}
}

func TestExecutor_LogsLinesOfBothStreamsAsTheyAppear(t *testing.T) {
	r := goRun(t, longGrace, `echo one; echo two >&2; sleep 1000`)
	got := []string{r.WaitForLine(t), r.WaitForLine(t)}
	slices.Sort(got)
	r.cancel(errors.New("enough"))
	_ = r.wait(t)
	if !slices.Equal(got, []string{"one", "two"}) || r.Lines["stdout"][0] != "one" || r.Lines["stderr"][0] != "two" {
		t.Errorf("lines are %v", r.Lines)
	}
}

func TestExecutor_CutsLongLinesAndReplacesInvalidUTF8(t *testing.T) {
	r := sh(t, `head -c 10000 /dev/zero | tr '\0' x; echo; printf 'a\377b\n'; head -c 4096 /dev/zero | tr '\0' y; echo; echo end`)
	if _, err := run(t, r); err != nil {
		t.Fatal(err)
	}
	want := []string{
		strings.Repeat("x", task.LogLineLimit-len(task.CutMark)) + task.CutMark,
		"a\uFFFDb",
		strings.Repeat("y", 4096),
		"end",
	}
	if !slices.Equal(r.Lines["stdout"], want) {
		t.Errorf("lines are %.200q", r.Lines["stdout"])
	}
}

func TestExecutor_ReportsAProgressLineAsProgressOnly(t *testing.T) {
	r := sh(t, `echo ::progress 0; echo a; echo '::progress  40 '; echo ::progress 101; echo ::progress -1; echo ::progress x;
		echo ' ::progress 3'; echo ::progress 50 >&2; echo ::progress 100 'of 7  rows' `)
	got, err := run(t, r)
	want := "a\n::progress 101\n::progress -1\n::progress x\n ::progress 3"
	if err != nil || got != want || strings.Join(r.Lines["stdout"], "\n") != want {
		t.Errorf("got %q, %v; log %q", got, err, r.Lines["stdout"])
	}
	if !slices.Equal(r.Percents, []int{0, 40, 100}) || !slices.Equal(r.Notes, []string{"", "", "of 7  rows"}) || !slices.Equal(r.Lines["stderr"], []string{"::progress 50"}) {
		t.Errorf("progress is %v %q, stderr %q", r.Percents, r.Notes, r.Lines["stderr"])
	}
}

func TestExecutor_FailsWithTheStatusAndTheEndOfStderr(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"a status":                    {`echo out; echo first >&2; echo last >&2; echo >&2; exit 3`, "exit status 3: first\nlast"},
		"six lines on stderr":         {`seq 1 6 >&2; exit 1`, "exit status 1: 2\n3\n4\n5\n6"},
		"a progress bar":              {`printf '\r1 of 2\r2 of 2\rdisk full\n' >&2; exit 3`, "exit status 3: disk full"},
		"nothing on stderr":           {`echo out; exit 1`, "exit status 1"},
		"a signal":                    {`kill -KILL $$`, "killed by signal 9 (killed)"},
		"a signal, after a complaint": {`echo oh >&2; kill -TERM $$`, "killed by signal 15 (terminated): oh"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := run(t, sh(t, c.script)); err == nil || err.Error() != c.want || got != "" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestExecutor_CutsItsError(t *testing.T) {
	_, err := run(t, sh(t, `head -c 4000 /dev/zero | tr '\0' x >&2; exit 1`))
	if err == nil || len(err.Error()) > complaintLimit+len("exit status 1: ") || !strings.HasSuffix(err.Error(), task.CutMark) {
		t.Errorf("error is %v", err)
	}
}

func TestExecutor_StartsNoShell(t *testing.T) {
	r := executortest.NewRecorder(executortest.JSON(t, object{"command": []string{"echo", "$HOME; echo *", "a  b"}}))
	if got, err := run(t, r); err != nil || got != "$HOME; echo * a  b" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestExecutor_GivesTheCommandItsDirectoryAndStdin(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := executortest.NewRecorder(executortest.JSON(t, object{"command": []string{"sh", "-c", "pwd; cat"}, "dir": dir, "stdin": "a\nb\x00c"}))
	if got, err := run(t, r); err != nil || got != dir+"\na\nb\x00c" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestExecutor_WithoutStdinReadsNothing(t *testing.T) {
	if got, err := run(t, executortest.NewRecorder(`{"command": ["cat"]}`)); err != nil || got != "" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestExecutor_IgnoresStdinThatIsNotRead(t *testing.T) {
	stdin := strings.Repeat("x", 200_000)
	for name, script := range map[string]string{
		"by a command that ends":                   "echo done",
		"by one that leaves it to a runaway child": "setsid sleep 1000 <&0 >/dev/null 2>&1 & echo $! >&2; echo done",
	} {
		t.Run(name, func(t *testing.T) {
			r := executortest.NewRecorder(executortest.JSON(t, object{"command": []string{"sh", "-c", script}, "stdin": stdin}))
			if got, err := run(t, r); err != nil || got != "done" {
				t.Errorf("got %q, %v", got, err)
			}
			killLeftover(t, r)
		})
	}
}

// killLeftover ends the process whose number stands on stderr, if there is one.
func killLeftover(t *testing.T, r *executortest.Recorder) {
	t.Helper()
	if lines := r.Lines["stderr"]; len(lines) > 0 {
		pid, err := strconv.Atoi(lines[0])
		if err != nil {
			t.Fatal(err)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func TestExecutor_KeepsTheNodesSecretsFromTheCommand(t *testing.T) {
	t.Setenv("DTS_REDIS", "redis://:secret@localhost")
	t.Setenv("LANG", "C.UTF-8")
	t.Setenv("HOME", "/home/of/the/node")
	r := executortest.NewRecorder(executortest.JSON(t, object{"command": []string{"env"}, "env": object{"A": "1", "HOME": "/mine"}}))
	if _, err := run(t, r); err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(slices.Values(r.Lines["stdout"]))
	got = slices.DeleteFunc(got, func(line string) bool { return strings.HasPrefix(line, markVariable+"=") })
	want := []string{
		"A=1", "DTS_ATTEMPT=3", "DTS_IDEMPOTENCY_KEY=acme:job-1", "DTS_NAMESPACE=acme", "DTS_TASK_ID=job-1",
		"HOME=/mine", "LANG=C.UTF-8", "PATH=" + os.Getenv("PATH"),
	}
	if !slices.Equal(got, want) {
		t.Errorf("environment is %q, want %q", got, want)
	}
}

func TestExecutor_TellsTheCommandTheTickThatTheTaskStandsFor(t *testing.T) {
	for id, want := range map[string]string{"job-1": "unset", "nightly@20260102T150405Z": "2026-01-02T15:04:05.000Z"} {
		r := sh(t, "echo ${DTS_TICK-unset}")
		r.ID = id
		if got, err := run(t, r); err != nil || got != want {
			t.Errorf("%s: DTS_TICK is %q, %v, want %q", id, got, err, want)
		}
	}
}

func TestExecutor_ReadsAFloodInBoundedMemory(t *testing.T) {
	testkit.NotQuick(t)
	for name, script := range map[string]string{
		"of one line":   `head -c 200000000 /dev/zero | tr '\0' x`,
		"of many lines": `yes 'the quick brown fox jumps over the lazy dog' | head -c 50000000`,
		"of one bar":    `yes 'the quick brown fox' | tr '\n' '\r' | head -c 50000000`,
		"of NULs":       `head -c 200000000 /dev/zero >&2`,
	} {
		t.Run(name, func(t *testing.T) {
			var peak uint64
			var lines int
			r := sh(t, script)
			r.Log = func(string, string) {
				if lines++; lines%50_000 == 1 {
					peak = max(peak, heap())
				}
			}
			before := heap()
			if _, err := run(t, r); err != nil {
				t.Fatal(err)
			}
			if peak = max(peak, heap()); peak > before+16<<20 {
				t.Errorf("the heap grew from %d to %d bytes", before, peak)
			}
		})
	}
}

// heap is what is reachable: garbage is collected first.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestExecutor_RunsManyAtOnce(t *testing.T) {
	s := New(Options{})
	errs := make(chan error, 20)
	for i := range cap(errs) {
		r := sh(t, fmt.Sprintf("echo %d; exit $((%d %% 2))", i, i))
		go func() {
			_, err := s.Execute(context.Background(), r.Attempt)
			if (err != nil) != (i%2 == 1) {
				errs <- fmt.Errorf("%d: %w", i, err)
				return
			}
			errs <- nil
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
