package schedule_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dts-sched/dts/internal/testkit"
)

// typed returns a terminal on which somebody has typed a line.
func typed(t *testing.T, line string) *os.File {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = keyboard.Close() })
	testkit.Must(t, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	testkit.Must(t, err)
	terminal, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = terminal.Close() })
	_, err = keyboard.WriteString(line)
	testkit.Must(t, err)
	return terminal
}

func TestEdit_ShowsWhatChangesAndAsks(t *testing.T) {
	for answer, want := range map[string]struct {
		code, puts, left int
		err              string
	}{
		"y\n": {0, 2, 0, "Go on? [y/N] "}, "n\n": {1, 1, 1, "Go on? [y/N] Nothing was done.\n"},
	} {
		e, sh := startEditing(t, `sed -i.bak 's/7/9/' "$1"`, nil)
		sh.IsTerminal, sh.Tty = true, typed(t, answer)
		got := sh.Run(t, "schedule", "edit", "a")
		shown := strings.HasPrefix(got.Out, "  cron  7 * * * *  ->  9 * * * *\n") && strings.Count(got.Out, "->") == 1
		if got.Code != want.code || !shown ||
			!strings.HasPrefix(got.Err, want.err) || len(e.changes()) != want.puts || len(e.left(t)) != want.left {
			t.Errorf("%q: %+v after %q, left %q", answer, got, e.changes(), e.left(t))
		}
	}
}
