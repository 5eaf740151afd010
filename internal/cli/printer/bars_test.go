package printer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBarLines_AlignLabelsAndShowEveryValueAboveZero(t *testing.T) {
	got := BarLines([]Bar{{"0 ms", 1}, {"1-2 ms", 0}, {"5 ms", 1000}, {"10 ms", 500}}, 22)
	want := []string{
		"  0 ms │▏ 1",
		"1-2 ms │ 0",
		"  5 ms │█████████ 1000",
		" 10 ms │████▌ 500",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBarLines_FitTheirWidth(t *testing.T) {
	for _, width := range []int{20, 40, 80, 200} {
		for _, line := range BarLines([]Bar{{"a", 99_999}, {"bcd", 100_000}, {"e", 7}}, width) {
			if Width(line) > width {
				t.Errorf("%d columns, want at most %d: %s", Width(line), width, line)
			}
		}
	}
	if got := BarLines([]Bar{{strings.Repeat("x", 30), 3}}, 10); !strings.Contains(got[0], "█") {
		t.Errorf("no bar where there is no room: %q", got)
	}
}
