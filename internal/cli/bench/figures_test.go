package bench

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBuckets_GoFromTheFirstToTheLastThatIsNotEmpty(t *testing.T) {
	for _, c := range []struct {
		late []int64
		want []bucket
	}{
		{nil, []bucket{}},
		{[]int64{0, 0}, []bucket{{0, 0, 2}}},
		{[]int64{3, 4, 5, 60}, []bucket{{2, 4, 2}, {5, 9, 1}, {10, 19, 0}, {20, 49, 0}, {50, 99, 1}}},
		{[]int64{-7, -1, 1}, []bucket{{-7, -1, 2}, {0, 0, 0}, {1, 1, 1}}},
		{[]int64{-1}, []bucket{{-1, -1, 1}}},
		{[]int64{2000, 4999, 5000}, []bucket{{2000, 4999, 2}, {5000, 9999, 1}}},
	} {
		if diff := cmp.Diff(c.want, bucketsOf(c.late)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.late, diff)
		}
	}
}

func TestPercentile_IsTheNearestRank(t *testing.T) {
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(i + 1)
	}
	for _, c := range []struct {
		sorted []int64
		p      int
		want   int64
	}{
		{hundred, 50, 50}, {hundred, 99, 99}, {hundred, 100, 100}, {hundred[:3], 50, 2}, {hundred[:3], 99, 3}, {hundred[:1], 50, 1},
	} {
		if got := percentile(c.sorted, c.p); got != c.want {
			t.Errorf("p%d of %d values is %d, want %d", c.p, len(c.sorted), got, c.want)
		}
	}
}

func TestDueBy_FollowsTheRate(t *testing.T) {
	for _, c := range []struct {
		tasks, rate int
		elapsed     time.Duration
		want        int
	}{
		{10, 0, 0, 10}, {10, 4, 0, 1}, {10, 4, 249 * time.Millisecond, 1}, {10, 4, 250 * time.Millisecond, 2}, {10, 4, time.Hour, 10},
	} {
		o := options{Tasks: c.tasks, Rate: c.rate}
		if got := o.dueBy(c.elapsed); got != c.want {
			t.Errorf("%d of %d tasks at %d/s after %s, want %d", got, c.tasks, c.rate, c.elapsed, c.want)
		}
	}
}
