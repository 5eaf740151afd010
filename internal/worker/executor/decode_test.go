package executor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dts-sched/dts/internal/testkit"
)

func TestDecode_SharesItsRoom(t *testing.T) {
	for name, c := range map[string]struct {
		costs []int
		fit   bool
	}{
		"two small ones":    {[]int{decodeRoom / 2, decodeRoom / 2}, true},
		"two large ones":    {[]int{decodeRoom/2 + 1, decodeRoom / 2}, false},
		"one of any size":   {[]int{10 * decodeRoom}, true},
		"one beside a huge": {[]int{10 * decodeRoom, 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := fit(t.Context(), c.costs); got != c.fit {
					t.Errorf("under way at once: %v, want %v", got, c.fit)
				}
			})
		})
	}
}

// fit reports whether decoders with these costs are under way at once. Only a test may nest them.
func fit(ctx context.Context, costs []int) (all bool) {
	if len(costs) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	_ = Decode(ctx, costs[0], func() error {
		all = fit(ctx, costs[1:])
		return nil
	})
	return all
}

func TestDecode_EndsWithItsContext(t *testing.T) {
	why := errors.New("the attempt is over")
	ctx, end := context.WithCancelCause(t.Context())
	testkit.Must(t, Decode(ctx, decodeRoom, func() error {
		end(why)
		if err := Decode(ctx, 1, func() error { panic("there is no room") }); !errors.Is(err, why) {
			t.Errorf("got %v, want the cause", err)
		}
		return nil
	}))
	testkit.Must(t, Decode(t.Context(), decodeRoom, func() error { return nil }))
}
