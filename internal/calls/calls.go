// Package calls makes several calls at once. A panic in one of them is one of who waits for them, as if it had made the
// call itself: whoever answers for panics there answers for it.
package calls

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"sync"
)

// Do makes some calls at once, and returns when all have ended.
func Do(some ...func()) {
	_ = Each(len(some), some, func(_ int, call func()) error {
		call()
		return nil
	})
}

// Try makes some calls at once, and returns when all have ended. Error: that of the first of them, by their order, that
// failed.
func Try(some ...func() error) error {
	return Each(len(some), some, func(_ int, call func() error) error { return call() })
}

// Each makes a call for each item, at most limit of them at once, and returns when all have ended. Error: that of the
// first item, by their order, whose call failed.
func Each[T any](limit int, items []T, call func(i int, item T) error) error {
	failures, panics := make([]error, len(items)), make([]error, len(items))
	turns := make(chan struct{}, limit)
	var all sync.WaitGroup
	for i, item := range items {
		turns <- struct{}{}
		all.Go(func() {
			defer func() {
				panics[i] = Recovered(recover())
				<-turns
			}()
			failures[i] = call(i, item)
		})
	}
	all.Wait()
	if cause := cmp.Or(panics...); cause != nil {
		panic(cause)
	}
	return cmp.Or(failures...)
}

// Recover makes a call. Error: that of its panic.
func Recover(call func()) (err error) {
	defer func() { err = Recovered(recover()) }()
	call()
	return nil
}

// Recovered is the error of what recover has returned, with the stack of the panic; nil if there was none.
func Recovered(cause any) error {
	switch cause := cause.(type) {
	case nil:
		return nil
	case Panic: // of a call in a call
		return cause
	}
	return Panic{cause, string(debug.Stack())}
}

// Panic is the error of a call that has panicked.
type Panic struct {
	Cause any
	Stack string
}

// Error is the cause and the stack, for a log.
func (p Panic) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Cause, p.Stack) }
