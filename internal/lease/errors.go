package lease

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// The reasons why the caller does not hold a lease, or no longer does.
var (
	// ErrHeld matches every *HeldError: another owner holds the lease.
	ErrHeld = errors.New("another owner holds the lease")
	// ErrLost is the cause of a Held's context if the lease was not renewed in time.
	ErrLost = errors.New("the lease was not renewed in time")
	// ErrReleased is the cause of a Held's context after Release.
	ErrReleased = errors.New("the lease was released")
)

// HeldError says that another owner holds the lease, and when it expires.
type HeldError struct {
	Key       lua.LeaseKey
	Remaining time.Duration // until the lease expires unless it is renewed; never negative
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("another owner holds lease %s; it expires in %s unless renewed", e.Key, e.Remaining)
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// heldError converts a refusal with CodeHeld to a *HeldError and wraps any other error. Redis reports a
// negative time for a key without an expiry; it counts as 0.
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
