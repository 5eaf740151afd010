package shellexec

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/testkit"
)

// Each script starts a process that leaves the group of the command, prints its number, and then makes the file $LEFT.
var leaving = map[string]string{
	"a session of its own": `setsid sh -c 'echo $$; : >$LEFT; exec sleep 1000 >/dev/null 2>&1' & `,
	"a daemon":             `setsid sh -c 'sh -c "echo \$\$; : >$LEFT; exec sleep 1000 >/dev/null 2>&1" &' & `,
	"a session in a session": `setsid sh -c 'setsid sh -c "echo \$\$; : >$LEFT; exec sleep 1000 >/dev/null 2>&1" & ` +
		`exec sleep 1000' & `,
	"with its output": `setsid sh -c 'echo $$; : >$LEFT; trap "" TERM; while :; do sleep 0.05; done' & `,
}

func TestExecutor_EndsWhatLeftTheGroup(t *testing.T) {
	for name, script := range leaving {
		script = "export LEFT=" + filepath.Join(t.TempDir(), "left") + "; " + script
		t.Run(name+", when the command ends", func(t *testing.T) {
			r := goRun(t, longGrace, script+"until [ -e $LEFT ]; do sleep 0.01; done; rm $LEFT")
			pid := waitForPID(t, r)
			testkit.Must(t, r.wait(t))
			wantGone(t, pid)
		})
		t.Run(name+", when it is stopped", func(t *testing.T) {
			r := goRun(t, 50*time.Millisecond, script+"while :; do sleep 0.05; done")
			pid := waitForPID(t, r)
			cause := errors.New("timed out")
			r.cancel(cause)
			if err := r.wait(t); !errors.Is(err, cause) {
				t.Errorf("error is %v", err)
			}
			wantGone(t, pid)
		})
	}
}

// A process that is just about to run another program has no environment that could be read.
func TestExecutor_EndsWhatLeavesTheGroupAtTheEnd(t *testing.T) {
	testkit.NotQuick(t)
	marker := fmt.Sprint(900_000_000 + syscall.Getpid()) // seconds: nobody else sleeps for so long
	sleep := `setsid sleep ` + marker + ` >/dev/null 2>&1 &`
	for range 40 {
		if _, err := run(t, sh(t, sleep+` setsid `+sleep)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := run(t, sh(t, `pgrep -f '^sleep `+marker+`' || true`))
	if err != nil || out != "" {
		t.Errorf("left are %q, %v", out, err)
	}
}

func TestExecutor_LeavesTheProcessesOfOtherRunsAlone(t *testing.T) {
	other := goRun(t, longGrace, `setsid sh -c 'echo $$; exec sleep 1000' & while :; do sleep 0.05; done`)
	pid := waitForPID(t, other)
	if _, err := run(t, sh(t, `setsid sleep 1000 >/dev/null 2>&1 & echo done`)); err != nil {
		t.Fatal(err)
	}
	if !alive(pid) {
		t.Errorf("process %d of another run has ended", pid)
	}
	other.cancel(errors.New("cancelled"))
	_ = other.wait(t)
	wantGone(t, pid)
}

// Programs take a second signal for an order to end at once.
func TestExecutor_AsksEachProcessOnceToStop(t *testing.T) {
	const count = `n=0; trap 'n=$((n+1))' TERM; echo ready; until [ $n -gt 0 ]; do sleep 0.02; done; sleep 0.1; echo $0 $n`
	r := goRun(t, longGrace, `setsid sh -c '`+count+`' alone & sh -c '`+count+`' group & wait; wait; wait`)
	r.WaitForLine(t)
	r.WaitForLine(t)
	r.cancel(errors.New("cancelled"))
	_ = r.wait(t)
	got := slices.Sorted(slices.Values(r.Lines["stdout"]))
	if want := []string{"alone 1", "group 1", "ready", "ready"}; !slices.Equal(got, want) {
		t.Errorf("the log is %q, want %q", got, want)
	}
}

// The highest number of a process is followed by the lowest ones.
func TestCandidates_AreThoseStartedSince(t *testing.T) {
	r := goRun(t, longGrace, `sh -c 'echo $$; exec sleep 1000' & while :; do sleep 0.05; done`)
	earlier := waitForPID(t, r)
	p := &process{cmd: exec.Command("sleep", "1000"), started: clock.Now()}
	testkit.Must(t, p.cmd.Start())
	defer func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() }()
	later := exec.Command("sleep", "1000")
	testkit.Must(t, later.Start())
	defer func() { _ = later.Process.Kill(); _ = later.Wait() }()
	got := p.candidates()
	hasEarlier := earlier < p.cmd.Process.Pid && slices.Contains(got, earlier)
	if !slices.Contains(got, later.Process.Pid) || hasEarlier {
		t.Errorf("candidates are %v, want %d among them, and not %d", got, later.Process.Pid, earlier)
	}
	p.started = clock.Now().Add(-time.Hour) // since then, the numbers may have begun again
	if got := p.candidates(); !slices.Contains(got, later.Process.Pid) || !slices.Contains(got, earlier) {
		t.Errorf("after a long time, candidates are %v, want %d and %d among them", got, earlier, later.Process.Pid)
	}
}
