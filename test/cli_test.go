package test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/test/process"
)

// Each script of testdata/script uses dtsctl on a running dtsd, in a namespace of its own. Afterwards, dtsctl follows events there.
func TestCLI(t *testing.T) {
	t.Parallel()
	n := startNode(t, redistest.Start(t).URL(), "--enable-shell")
	t.Run("script", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Dir: filepath.Join("testdata", "script"),
			Setup: func(e *testscript.Env) error {
				e.Setenv("PATH", binaries+string(os.PathListSeparator)+e.Getenv("PATH"))
				e.Setenv("DTSCTL_SERVER", n.url)
				e.Setenv("GORACE", process.QuickRace)
				e.Setenv("DTSCTL_NAMESPACE", filepath.Base(e.WorkDir))
				return nil
			},
			Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "until": until},
		})
	})
	t.Run("events are followed until an interrupt", n.testEvents)
}

// exits runs a program and expects an exit code: exits 2 dtsctl task get
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGUMENT...]")
	}
	code := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("%s ended with %d, want %s", strings.Join(args[1:], " "), code, args[0])
	}
}

// until runs a program until its output matches: until 'a\trunning' dtsctl task list
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN PROGRAM [ARGUMENT...]")
	}
	wanted, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(100 * time.Millisecond) // a start of dtsctl is much work
	defer again.Stop()
	for {
		ts.Check(ts.Exec(args[1], args[2:]...))
		if wanted.MatchString(ts.ReadFile("stdout")) {
			return
		}
		select {
		case <-again.C:
		case <-deadline.C:
			ts.Fatalf("%s never printed %s", strings.Join(args[1:], " "), args[0])
		}
	}
}

// What follows what happens ends with 0 when it is interrupted.
func (n *node) testEvents(t *testing.T) {
	dtsctl := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "dtsctl"), append([]string{"--server", n.url}, args...)...)
		cmd.Env = append(os.Environ(), "GORACE="+process.QuickRace)
		return cmd
	}
	events := dtsctl("events", "--state", "succeeded")
	out, err := events.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := events.Start(); err != nil {
		t.Fatal(err)
	}
	first := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			select {
			case first <- lines.Text():
			default: // one is enough
			}
		}
		ended <- events.Wait()
	}()
	line := untilHeard(t, first, func(i int) {
		if text, err := dtsctl("task", "shell", "--id", fmt.Sprint("t", i), "--wait", "true").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	})
	fields := strings.Split(line, "\t")
	if len(fields) != 14 || fields[1] != "task.succeeded" || fields[4] != "succeeded" {
		t.Errorf("events printed %q", fields)
	}
	if err := events.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("events ended with %v", err)
	}
}

// untilHeard makes something happen until it is heard of: nobody says when a listener has begun to listen.
func untilHeard(t *testing.T, heard <-chan string, happen func(int)) string {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	for i := 0; ; i++ {
		happen(i)
		select {
		case line := <-heard:
			return line
		case <-deadline.C:
			t.Fatal("nothing was heard of")
		default:
		}
	}
}
