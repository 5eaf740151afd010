package lease

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// The reasons why a lease is not, or no longer, the caller's.
var (
	// ErrHeld is what every *HeldError matches: somebody else has the lease.
	ErrHeld = errors.New("the lease is held by somebody else")
	// ErrLost is why a Held's context ended when the lease could not be renewed in time.
	ErrLost = errors.New("the lease is lost")
	// ErrReleased is why a Held's context ended after Release.
	ErrReleased = errors.New("the lease was released")
)

// HeldError says that somebody else has the lease, and for how long if nothing happens.
type HeldError struct {
	Key       lua.LeaseKey
	Remaining time.Duration // until the lease runs out unless it is renewed; never negative
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("lease %s is held by somebody else for another %s", e.Key, e.Remaining)
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// heldError reads the time left from a refusal; the key of somebody who set no expiry counts as 0.
func heldError(key lua.LeaseKey, err error) error {
	var refusal *redisx.Refusal
	if !errors.As(err, &refusal) || refusal.Code != lua.CodeHeld {
		return fmt.Errorf("acquiring lease %s: %w", key, err)
	}
	ms, parseErr := strconv.ParseInt(refusal.Detail, 10, 64)
	if parseErr != nil {
		return fmt.Errorf("acquiring lease %s: %w", key, err)
	}
	return &HeldError{Key: key, Remaining: time.Duration(max(ms, 0)) * time.Millisecond}
}
