package codec_test

import (
	"slices"
	"testing"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
)

func TestDecodeTrack_SortsDaysAfterAJumpOfTheClock(t *testing.T) {
	track, _ := codec.DecodeTrack(map[string]string{"days": "20260101s1 20260103s1", "day": "20260102s1"})
	byDate := func(a, b schedule.Day) int { return a.Date.Compare(b.Date) }
	if len(track.Days) != 3 || !slices.IsSortedFunc(track.Days, byDate) {
		t.Errorf("the days are %v", track.Days)
	}
}
