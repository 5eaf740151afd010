//go:build unix

package shellexec

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

// program writes a file that may be run, or not.
func program(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "program")
	testkit.Must(t, os.WriteFile(name, []byte(text), mode))
	return name
}

func TestExecutor_FailsForGoodForWhatTheNodeLacks(t *testing.T) {
	t.Parallel()
	plain, windows := program(t, "echo", 0o600), program(t, "#!/bin/sh\r\necho\r\n", 0o700)
	data, dir := program(t, "\x00\x01", 0o700), t.TempDir()
	const hint = `: to have a shell run it, write ["sh", "-c", "..."]`
	const no, cr = "command: this node has no program ", ` needs "/bin/sh\r", which this node does not have`
	for name, c := range map[string]struct {
		command []string
		dir     string
		want    string
	}{
		"a program":           {[]string{"no-such-program", "a b"}, "", no + "no-such-program in its PATH"},
		"a line for a shell":  {[]string{"ls | wc"}, "", no + "ls | wc in its PATH" + hint},
		"a line with a path":  {[]string{"/bin/ls -l"}, "", no + "/bin/ls -l" + hint},
		"its file":            {[]string{"/no/such/program"}, "", no + "/no/such/program"},
		"a file as a folder":  {[]string{plain + "/x"}, "", "command: " + plain + "/x: not a directory"},
		"a file in dir":       {[]string{"./program"}, dir, no + "./program"},
		"a directory":         {[]string{"true"}, "/no/such/dir", "dir: this node has no directory /no/such/dir"},
		"a file as directory": {[]string{"true"}, plain, "dir: " + plain + " is no directory"},
		"a folder in a file":  {[]string{"true"}, plain + "/x", "dir: " + plain + "/x: not a directory"},
		"permission":          {[]string{plain}, "", "command: this node may not run " + plain + ": permission denied"},
		"an interpreter":      {[]string{windows}, "", "command: " + windows + cr},
		"one in dir":          {[]string{"./program"}, filepath.Dir(windows), "command: ./program" + cr},
		"permission for dir": {
			[]string{dir}, dir,
			"command: this node may not run " + dir + " in " + dir + ": permission denied",
		},
		"a format": {
			[]string{data}, "",
			"command: " + data + " is no program for this node: a script begins with #! and its interpreter",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			payload := executortest.JSON(t, object{"command": c.command, "dir": c.dir})
			_, err := run(t, executortest.NewRecorder(payload))
			want := "cannot start the command: payload." + c.want
			if err == nil || err.Error() != want || !executor.IsPermanent(err) {
				t.Errorf("error is %v, want finally %q", err, want)
			}
		})
	}
}

func TestExecutor_RefusesArgumentsThatTheSystemDoesNotTake(t *testing.T) {
	t.Parallel()
	payload := executortest.JSON(t, object{"command": []string{"true", strings.Repeat("x", 4<<20)}})
	_, err := run(t, executortest.NewRecorder(payload))
	const want = "payload: the command, its variables and the checkpoint are longer than the system allows"
	if !executor.IsPermanent(err) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error is %v", err)
	}
}

func TestExecutor_QuotesLongNamesInPart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	for _, payload := range []object{
		{"command": []string{long}}, {"command": []string{"/" + long}}, {"command": []string{"true"}, "dir": "/" + long},
	} {
		_, err := run(t, executortest.NewRecorder(executortest.JSON(t, payload)))
		if !executor.IsPermanent(err) {
			t.Errorf("error is %.300v, want a final one", err)
			continue
		}
		if text := err.Error(); len(text) > task.ErrorLimit/2 || !strings.Contains(text, task.CutMark) {
			t.Errorf("error is %.300s", text)
		}
	}
}

// Somebody else may use up the processes or the memory of the machine for a while, or write the program just now.
func TestLack_LeavesPassingErrorsToTheRetryPolicy(t *testing.T) {
	t.Parallel()
	c := &command{argv: []string{"true"}, dir: "/"}
	for _, errno := range []syscall.Errno{
		syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY, syscall.EIO,
	} {
		err := &os.PathError{Op: "fork/exec", Path: "/bin/true", Err: errno}
		if got := c.lack(err, "/bin/true", nil); executor.IsPermanent(got) {
			t.Errorf("%v is final", got)
		}
	}
}
