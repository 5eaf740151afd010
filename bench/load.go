package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dts-sched/dts/internal/clock"
)

func now() time.Time { return clock.Now() }

// callers is the HTTP client of all callers.
var callers = &http.Client{Transport: &http.Transport{MaxIdleConns: 256, MaxIdleConnsPerHost: 256, IdleConnTimeout: 5 * time.Second}}

const (
	batchLimit = 1000 // tasks in one request, as the API limits them
	stowers    = 8    // callers that store tasks which a row needs
)

// text returns n random letters and digits, which nothing can compress.
func text(n int) string {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	out := make([]byte, n)
	for i := range out {
		out[i] = letters[rand.IntN(len(letters))]
	}
	return string(out)
}

// payloadSize is the size of payloads in bytes, as JSON.
const payloadSize = 200

// payload is a JSON string of payloadSize bytes.
func payload() string { return `"` + text(payloadSize-2) + `"` }

// submission is what POST /v1/tasks takes, as far as rows use it.
type submission struct {
	ID        string            `json:"id,omitempty"`
	Namespace string            `json:"namespace,omitempty"`
	Type      string            `json:"type"`
	Queue     string            `json:"queue,omitempty"`
	Owner     string            `json:"owner,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Payload   json.RawMessage   `json:"payload,omitempty"`
	RunAt     *time.Time        `json:"run_at,omitempty"`
	Delay     string            `json:"delay,omitempty"`
	FairKey   string            `json:"fair_key,omitempty"`
	LimitKey  string            `json:"limit_key,omitempty"`
	Priority  int               `json:"priority,omitempty"`
	Select    string            `json:"select,omitempty"`
	Route     *route            `json:"route,omitempty"`
}

type route struct {
	By  string `json:"by"`
	Key string `json:"key,omitempty"`
}

// plain is a task of the bench's type with a payload of its own.
func plain() submission { return submission{Type: benchType, Payload: json.RawMessage(payload())} }

// post sends a body and returns the answer. It fails unless the status is the wanted one.
func post(ctx context.Context, url string, body []byte, want int) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := callers.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != want {
		err = fmt.Errorf("%s answered %s: %.300s", url, answer.Status, raw)
	}
	return raw, err
}

// submit submits one task.
func submit(ctx context.Context, base string, s submission) error {
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = post(ctx, base+"/v1/tasks", body, http.StatusCreated)
	return err
}

// batchOf is the body of a batch.
func batchOf(tasks []submission) ([]byte, error) {
	return json.Marshal(map[string]any{"tasks": tasks})
}

// acceptedMark is in the answer to a batch once for each task that was accepted.
const acceptedMark = `"status":201`

// submitBatch submits tasks in one request, each of which must be accepted.
func submitBatch(ctx context.Context, base string, tasks []submission) error {
	body, err := batchOf(tasks)
	if err != nil {
		return err
	}
	answer, err := post(ctx, base+"/v1/tasks/batch", body, http.StatusOK)
	if err != nil {
		return err
	}
	if accepted := bytes.Count(answer, []byte(acceptedMark)); accepted != len(tasks) {
		return fmt.Errorf("%d of %d tasks were accepted: %.300s", accepted, len(tasks), answer)
	}
	return nil
}

// stow submits n tasks, made by task, in batches.
func stow(ctx context.Context, base string, n int, task func(i int) submission) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(stowers)
	for from := 0; from < n && ctx.Err() == nil; from += batchLimit {
		g.Go(func() error {
			tasks := make([]submission, 0, batchLimit)
			for i := from; i < min(n, from+batchLimit); i++ {
				tasks = append(tasks, task(i))
			}
			return submitBatch(ctx, base, tasks)
		})
	}
	return g.Wait()
}

// share calls f for 0 to n-1 from a number of callers.
func share(ctx context.Context, n, callers int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for c := range callers {
		g.Go(func() error {
			for i := c; i < n; i += callers {
				if err := f(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}
