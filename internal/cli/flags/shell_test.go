package flags

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

func TestLineWarnings_AreForOneArgumentThatNamesNoFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a program")
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []struct {
		command []string
		warned  bool
	}{
		{[]string{"ls | wc"}, true}, {[]string{"ls>out"}, true}, {[]string{"$HOME/run"}, true}, {[]string{"~/run"}, true},
		{[]string{"a;b"}, true}, {[]string{"rm *.tmp"}, true}, {[]string{"backup --full"}, true},
		{[]string{"true"}, false}, {[]string{"/opt/x-1.2_3@y/run.sh"}, false}, {[]string{"./run"}, false}, {nil, false},
		{[]string{"sh", "-c", "ls | wc"}, false}, {[]string{"a b", "c"}, false}, {[]string{file}, false},
	} {
		if got := LineWarnings(c.command); (len(got) > 0) != c.warned {
			t.Errorf("%q: %q", c.command, got)
		}
	}
	const quoted = `'echo '\''a'\'''`
	want := "all of " + quoted + " is taken as the name of a program; to have a shell run it, write: -- sh -c " + quoted
	if got := LineWarnings([]string{"echo 'a'"}); !slices.Equal(got, []string{want}) {
		t.Errorf("got %q, want %q", got, want)
	}
}
