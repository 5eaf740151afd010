package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/worker/executor"
)

const (
	httpLease = "3s" // as dtsd's workers have it
	takeWait  = "1s"
	extending = time.Second
	pause     = 200 * time.Millisecond // before a call that failed is repeated
)

// httpWorker is a worker by HTTP.
type httpWorker struct {
	api    *client.ClientWithResponses
	id     string
	labels *wire.NodeLabels
	log    *slog.Logger
	slots  chan struct{} // one entry for each attempt that runs, or may come with the answer of a take
	calls  int           // of take

	mu      sync.Mutex
	running map[string]*httpAttempt // by token
}

// httpAttempt is an attempt that the worker runs.
type httpAttempt struct {
	wire.TakenAttempt
	ctx     context.Context
	cancel  context.CancelFunc
	args    payload
	err     error                       // of its payload
	verdict wire.ExtendedAttemptVerdict // guarded by the worker's mu
	moved   bool                        // it was asked to; guarded by the worker's mu
	ended   bool                        // its work has; guarded by the worker's mu
}

// runHTTP takes and runs attempts until ctx ends; then it lets them go on for drain.
func runHTTP(ctx context.Context, server string, concurrency int, drain time.Duration, labels map[string]string,
	log *slog.Logger) error {
	api, err := client.NewClientWithResponses(server)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	w := &httpWorker{
		api: api, id: fmt.Sprintf("%s-%d", host, os.Getpid()), labels: (*wire.NodeLabels)(&labels), log: log,
		slots: make(chan struct{}, concurrency), running: map[string]*httpAttempt{},
	}
	log.Info("running", "node", w.id)
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go w.extend(work)
	for ctx.Err() == nil {
		w.take(ctx, work)
	}
	deadline := time.After(drain)
	for range cap(w.slots) { // each that is free is one whose attempt has ended
		select {
		case w.slots <- struct{}{}:
		case <-deadline:
			return nil // what runs still is lost when its lease is over
		}
	}
	_, err = api.LeaveWorkerWithResponse(work, w.id)
	return err
}

// take takes as many attempts as there are free slots, and runs them.
func (w *httpWorker) take(ctx, work context.Context) {
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	n := 1
	for ; n < cap(w.slots) && len(w.slots) < cap(w.slots); n++ {
		w.slots <- struct{}{} // nobody else adds any
	}
	w.calls++
	offer := wire.TakeRequest{
		Types: []string{"http", "go"}, Capacity: ptr(cap(w.slots)), Max: ptr(min(n, 64)), Wait: ptr(takeWait),
		Lease: ptr(httpLease), Request: ptr(fmt.Sprint(w.calls)), Labels: w.labels,
	}
	var taken []wire.TakenAttempt
	until(work, func() bool {
		answer, err := w.api.TakeAttemptsWithResponse(work, w.id, offer)
		if err != nil || answer.JSON200 == nil {
			return false
		}
		taken = answer.JSON200.Attempts
		return true
	})
	for _, given := range taken {
		ctx, cancel := context.WithCancel(work)
		a := &httpAttempt{TakenAttempt: given, ctx: ctx, cancel: cancel, verdict: wire.VerdictRunning}
		a.err = json.Unmarshal(a.Payload, &a.args)
		w.mu.Lock()
		w.running[a.Token] = a
		w.mu.Unlock()
		go w.run(work, a)
	}
	for range n - len(taken) {
		<-w.slots
	}
}

// until calls do until it returns true.
func until(ctx context.Context, do func() bool) {
	for ctx.Err() == nil && !do() {
		_ = clock.Sleep(ctx, pause)
	}
}

func (w *httpWorker) run(work context.Context, a *httpAttempt) {
	defer func() { <-w.slots }()
	defer a.cancel()
	err := a.err
	end := wire.AttemptEnd{Token: a.Token, Outcome: wire.EndSucceeded}
	if err == nil {
		var result string
		result, err = post(a.ctx, a.args.URL, a.Task, a.Attempt)
		end.Result = &result
	}
	defer w.remove(a) // its lease is extended until Redis knows that it has ended, or another worker would begin the next attempt
	w.mu.Lock()
	verdict, moved := a.verdict, a.moved
	a.ended = true
	w.mu.Unlock()
	switch {
	case verdict == wire.VerdictLost:
		return
	case verdict != wire.VerdictRunning:
		end = wire.AttemptEnd{Token: a.Token, Outcome: wire.AttemptEndOutcome(verdict)}
	case err != nil && moved:
		end = wire.AttemptEnd{Token: a.Token, Outcome: wire.EndMoved}
	case err != nil:
		end = wire.AttemptEnd{Token: a.Token, Outcome: wire.EndFailed, Error: ptr(err.Error()), Permanent: ptr(executor.IsPermanent(err))}
	}
	until(work, func() bool {
		answer, err := w.api.FinishAttemptWithResponse(work, a.Task, a.Attempt, nil, end)
		if err == nil && answer.StatusCode() == http.StatusConflict {
			w.dropped(a)
		}
		return err == nil && answer.StatusCode() < http.StatusInternalServerError
	})
}

func (w *httpWorker) remove(a *httpAttempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, a.Token)
}

func (w *httpWorker) dropped(a *httpAttempt) {
	w.log.Warn("this worker no longer holds the attempt", "task", a.Task)
}

// extend extends the leases of what runs, until ctx ends, and stops what is to stop.
func (w *httpWorker) extend(ctx context.Context) {
	for clock.Sleep(ctx, extending) == nil {
		request := wire.ExtendRequest{Attempts: []wire.HeldAttempt{}, Lease: ptr(httpLease)}
		w.mu.Lock()
		for _, a := range w.running {
			request.Attempts = append(request.Attempts, wire.HeldAttempt{Task: a.Task, Attempt: a.Attempt, Token: a.Token})
		}
		w.mu.Unlock()
		answer, err := w.api.ExtendAttemptsWithResponse(ctx, w.id, request)
		if err != nil || answer.JSON200 == nil {
			continue
		}
		for i, e := range answer.JSON200.Attempts {
			w.judge(request.Attempts[i].Token, e.Verdict, e.Move != nil && *e.Move)
		}
	}
}

// judge stops an attempt that is not to go on here.
func (w *httpWorker) judge(token string, verdict wire.ExtendedAttemptVerdict, move bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.running[token]
	if a == nil || a.ended {
		return
	}
	a.moved = a.moved || move && a.args.moves()
	if !a.moved && (verdict == wire.VerdictRunning || verdict == wire.VerdictUnknown) {
		return
	}
	if verdict == wire.VerdictLost {
		w.dropped(a)
	}
	if verdict != wire.VerdictUnknown {
		a.verdict = verdict
	}
	a.cancel()
}

func ptr[T any](v T) *T { return &v }
