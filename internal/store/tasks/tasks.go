// Package tasks keeps tasks in Redis. Every change of a task is one run of a Lua script and follows the state table in
// package task.
//
// Package control calls Create, Change, Cancel, Retry and the reads, for clients. The worker that began an attempt reports
// on it through a Run, whose scripts compare the run token. The operations of a partition's leader are in package
// partition.
package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/config"

	"github.com/dts-sched/dts/internal/batch"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Tasks reads and changes the tasks of one installation.
type Tasks struct {
	l        *layout.Layout
	runLease time.Duration
	// durability is what a creation waits for, and the begin of an attempt that must be the only one.
	durability config.Durability
	confirms   *batch.Groups[write, error] // of single writes
	recent     recent
	creates    *batch.Groups[*creation, struct{}] // of single tasks
	ids        *ids
	counters   []Counter
}

// New returns the tasks of an installation. runLease is how long the lease of a run lasts; 0 means DefaultRunLease.
func New(l *layout.Layout, runLease time.Duration, durability config.Durability) *Tasks {
	s := &Tasks{l: l, runLease: cmp.Or(runLease, DefaultRunLease), durability: durability, ids: newIDs(l), recent: recent{added: make(chan struct{}, 1)}}
	// Callers share the call, so it does not end with the context of one of them.
	s.creates = layout.SharedCalls(l, func(c *creation) task.Ref { return c.d.Ref }, createShared, func(all []*creation) []struct{} {
		ctx, cancel := context.WithTimeout(context.Background(), createTime)
		defer cancel()
		s.createOrAgain(ctx, all, false)
		return make([]struct{}, len(all))
	})
	s.confirms = layout.SharedCalls(l, func(w write) task.Ref { return w.ref }, confirmShared, func(writes []write) []error {
		ctx, cancel := context.WithTimeout(context.Background(), createTime)
		defer cancel()
		return s.confirm(ctx, writes)
	})
	return s
}

// publicError translates a script's refusal to a *task.Error by the table codes, and any other failure of Redis to
// CodeUnavailable. nil stays nil.
func publicError(err error, codes map[lua.Code]task.Code, ref task.Ref) error {
	if err == nil {
		return nil
	}
	var r *redisx.Refusal
	if !errors.As(err, &r) {
		return layout.Unavailable(err)
	}
	code, known := codes[r.Code]
	if !known {
		return fmt.Errorf("task %s: %w", ref, err)
	}
	return &task.Error{Code: code, Message: sentence(code, ref, r.Detail)}
}

// sentence is the message of an error; detail is the detail of the script's refusal.
func sentence(code task.Code, ref task.Ref, detail string) string {
	switch code {
	case task.CodeTaskNotFound:
		return fmt.Sprintf("no task %q in namespace %q", ref.ID, ref.Namespace)
	case task.CodeTaskConflict:
		return fmt.Sprintf("the id %q is taken by a task with other content", ref.ID)
	case task.CodeNotWaiting:
		return fmt.Sprintf("task %q is %s: only one that waits can be changed", ref.ID, detail)
	case task.CodeFinished:
		return fmt.Sprintf("task %q has already ended: it is %s", ref.ID, detail)
	case task.CodeNotFinished:
		return fmt.Sprintf("task %q has not ended yet: it is %s", ref.ID, detail)
	case task.CodeNotRunning:
		return fmt.Sprintf("task %q is not running: it is %s", ref.ID, detail)
	case task.CodeStaleAttempt:
		return fmt.Sprintf("task %q runs attempt %s now", ref.ID, detail)
	case task.CodeChanged:
		return fmt.Sprintf("another request has just changed task %q: read it and try again", ref.ID)
	}
	return detail
}
