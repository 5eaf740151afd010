package printer

import (
	"strings"
	"testing"
	"time"
)

func TestChart_FitsItsWidth(t *testing.T) {
	for _, minutes := range []int{60, 24 * 60, 168 * 60} {
		for _, width := range []int{20, 40, 79, 80, 81, 120, 200} {
			for _, minuteOfDay := range []int{0, 1, 59, 901, 1439} {
				c := Chart{From: time.Date(2026, 1, 2, 0, minuteOfDay, 0, 0, time.UTC), Values: make([]int, minutes), Width: width}
				c.Values[minutes-1] = 1234
				bars := c.bars()
				if wide := len(bars) + c.margin(); wide > width && c.MinutesPerBar() <= 360 {
					t.Errorf("%d minutes from minute %d on %d characters: %d", minutes, minuteOfDay, width, wide)
				}
				if bars[len(bars)-1] != 1234 {
					t.Errorf("the last bar is %d", bars[len(bars)-1])
				}
			}
		}
	}
}

func TestChart_ShowsEveryValueAboveZero(t *testing.T) {
	for _, c := range []struct {
		value, peak int
		want        string // from below
	}{{0, 100, "        "}, {1, 100000, "▁       "}, {100, 100, "████████"}, {50, 100, "████    "}, {9, 128, "▄       "}} {
		var got strings.Builder
		for row := range chartRows {
			got.WriteRune(block(c.value, c.peak, row))
		}
		if got.String() != c.want {
			t.Errorf("%d of %d is %q, want %q", c.value, c.peak, got.String(), c.want)
		}
	}
}
