// Package clock is the only package that reads the machine's clock.
//
// All other code reads the time and sleeps through this package; the linter forbids time.Now and time.Sleep
// elsewhere. Tests that need to control time run inside testing/synctest, where the standard library's clock,
// and so this one, is virtual. This clock does not decide when a task is due: the scripts compare due times
// with the TIME of Redis.
package clock

import (
	"context"
	"time"
)

// Now returns the machine's time, with a monotonic clock reading.
func Now() time.Time { return shifted(time.Now(), ahead) }

// Since returns the time elapsed since t. It uses the monotonic clock if t has a reading of it.
func Since(t time.Time) time.Duration { return time.Since(t) }

// Until returns the time remaining until t. It is negative after t.
func Until(t time.Time) time.Duration { return time.Until(t) }

// Sleep waits until d has passed or ctx has ended, whichever comes first. It returns nil in the first case and ctx.Err
// in the second.
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
