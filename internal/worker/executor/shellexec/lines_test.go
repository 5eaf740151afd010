//go:build unix

package shellexec

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestReadLines_KeepsTheNewestStateOfALine(t *testing.T) {
	t.Parallel()
	bar := ""
	for range 300 {
		bar += "\rcopied some of 300 files ........................"
	}
	for text, want := range map[string]string{
		bar + "\rERROR: disk full\n": "ERROR: disk full",
		bar + "\rERROR: disk full":   "ERROR: disk full",
		"10%\r20%\r\n":               "20%",
		"10%\r20%\r":                 "20%",
		"a\r\n":                      "a",
		"a\r\r\n":                    "a",
		"\r\n":                       "",
		"copied 3\r        \rdone\n": "done",
		"10%\r" + checkpointPrefix + strings.Repeat("1", 9000) + "\n": checkpointPrefix + strings.Repeat("1", 9000),
	} {
		for _, size := range []int{1, 3, 4096, readSize} {
			var got []string
			keep := func(line string) { got = append(got, line) }
			testkit.Must(t, readLines(&chunked{text, size}, keep, func(string) {}))
			if !slices.Equal(got, []string{want}) {
				t.Errorf("%.60q by %d bytes is %.60q, want %.60q", text, size, got, want)
			}
		}
	}
}

// A program that has run for long shows its state less often, so that the log keeps what was before.
func TestReadLines_ShowsAnUnfinishedLineNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		var shown, emitted []string
		ended := make(chan error)
		go func() {
			ended <- readLines(in, func(line string) { emitted = append(emitted, line) },
				func(state string) { shown = append(shown, state) })
		}()
		at := func(wait time.Duration, text string) []string {
			testkit.Must(t, clock.Sleep(t.Context(), wait))
			_, err := io.WriteString(out, text)
			testkit.Must(t, err)
			synctest.Wait()
			return shown
		}
		at(0, "starting ...")
		for _, c := range []struct {
			wait time.Duration
			text string
			last string
			sum  int
		}{
			{0, "\r10%", "10%", 1},
			{time.Second / 2, "\r15%", "10%", 1},
			{time.Second / 2, "\r20%", "20%", 2},
			{time.Second, "\r" + strings.Repeat("x", wholeWrite) + "\r30%\r3", "30%", 3}, // may go on after the 3
			{time.Second, "\r   \r", "30%", 3},
			{time.Hour, "\r40%\r", "40%", 4},
			{5 * time.Minute, "\r41%", "40%", 4},
			{2 * time.Minute, "\r42%", "42%", 5},
			{time.Hour, "\n", "42%", 5},
			{time.Hour, "no return", "42%", 5},
		} {
			if got := at(c.wait, c.text); len(got) != c.sum || got[len(got)-1] != c.last {
				t.Errorf("%v after %.20q: %.20q was shown, want %q at last", c.wait, c.text, got, c.last)
			}
		}
		testkit.Must(t, out.Close())
		testkit.Must(t, <-ended)
		if !slices.Equal(emitted, []string{"42%", "no return"}) {
			t.Errorf("the lines are %q", emitted)
		}
	})
}

func TestExecutor_LogsAnUnfinishedLineWhileItIsDrawn(t *testing.T) {
	t.Parallel()
	r := goRun(t, longGrace, `printf '\r10%%'; printf '\r:: 10%%' >&2; sleep 1000`)
	got := []string{r.WaitForLine(t), r.WaitForLine(t)}
	slices.Sort(got)
	r.cancel(errors.New("enough"))
	_ = r.wait(t)
	if !slices.Equal(got, []string{"10%", ":: 10%"}) {
		t.Errorf("the log has %q", got)
	}
	if len(r.Lines["stdout"]) != 1 || len(r.Lines["stderr"]) != 1 { // they ended as they were shown
		t.Errorf("at the end, the log has %q", r.Lines)
	}
}

func TestExecutor_ReturnsWhatAnOverwrittenLineEndsWith(t *testing.T) {
	t.Parallel()
	const script = `for i in 1 2 3; do printf "\rcopied %d of 3" $i; done; printf "\rTOTAL 3, 1 skipped\n"`
	if got, err := run(t, sh(t, script)); err != nil || got != "TOTAL 3, 1 skipped" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestExecutor_ShowsProgressOfAnUnfinishedLine(t *testing.T) {
	t.Parallel()
	r := sh(t, `printf '\r::progress 40 rows'; printf '\n'`)
	if got, err := run(t, r); err != nil || got != "" || len(r.Lines["stdout"]) > 0 || r.Percents[0] != 40 {
		t.Errorf("got %q, %v; log %q, progress %v", got, err, r.Lines, r.Percents)
	}
	half := sh(t, `printf '\r::checkpoint {"row":'; printf ' 5}\n'`)
	if _, err := run(t, half); err != nil || !slices.Equal(half.Saved, []string{`{"row": 5}`}) {
		t.Errorf("%v; saved are %q", err, half.Saved)
	}
}
