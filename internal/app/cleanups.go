package app

import (
	"errors"
	"slices"
)

// cleanups are what closes the things that were opened.
type cleanups []func() error

// run calls the cleanups, the last one first, and forgets them.
func (c *cleanups) run() error {
	var failures []error
	for _, f := range slices.Backward(*c) {
		failures = append(failures, f())
	}
	*c = nil
	return errors.Join(failures...)
}
