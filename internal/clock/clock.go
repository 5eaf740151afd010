// Package clock is the one doorway to the machine's time.
//
// Everything that waits or reads the time does it through this package, and the linter forbids time.Now
// and time.Sleep elsewhere. Tests that need to control time run inside testing/synctest, where the
// standard library's clock, and so this one, is virtual. Nothing here decides when a task is due: due
// times are compared with Redis TIME, inside the scripts.
package clock

import (
	"context"
	"time"
)

// Now is the machine's time, with its monotonic reading.
func Now() time.Time { return time.Now() }

// Since is the time that has passed since t, by the monotonic clock where t has a reading of it.
func Since(t time.Time) time.Duration { return time.Since(t) }

// Until is the time that is left until t; negative once it has passed.
func Until(t time.Time) time.Duration { return time.Until(t) }

// Sleep waits for d or for the end of ctx, whichever comes first, and returns ctx's error in the latter case.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
