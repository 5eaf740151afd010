package asynqexec

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

const (
	defaultQueue = "default"
	// safeRetention is how long asynq keeps the outcome of a task that does not say, if DTS has not deleted it before: as long as all
	// workers of DTS may be away.
	safeRetention = 24 * time.Hour
	// retentionLeast is longer than it takes until another worker of DTS looks for the outcome.
	retentionLeast = time.Minute
	// handOverSlack is by how much the times may differ that two attempts had left when they handed the same order over.
	handOverSlack = 2 * time.Second
	nameLimit     = 200
)

// order is the payload of a task: what asynq's client is to enqueue.
type order struct {
	taskType  string
	payload   []byte
	headers   map[string]string
	queue     string // asynq's name
	retries   int
	timeout   time.Duration // 0: as long as the attempt
	retention time.Duration // 0: until DTS has recorded the outcome
	final     bool          // whether there is no other attempt once asynq has archived the task
}

// fields are the members of a payload as JSON has them.
type fields struct {
	taskType, queue, base64, timeout, retention string
	payload                                     json.RawMessage
	headers                                     map[string]string
	retries                                     int
	final                                       bool
}

// parseOrder reads a payload. Error: *executor.InvalidPayloadError.
func parseOrder(payload json.RawMessage) (*order, error) {
	f := fields{queue: defaultQueue}
	err := executor.DecodePayload(payload, map[string]executor.Field{
		"type":              {Into: &f.taskType, Want: "a string"},
		"payload":           {Into: &f.payload, Want: "a JSON value"},
		"payload_base64":    {Into: &f.base64, Want: "a string"},
		"archived_is_final": {Into: &f.final, Want: "true or false"},
		"headers":           {Into: &f.headers, Want: "an object of strings"},
		"queue":             {Into: &f.queue, Want: "a string"},
		"max_retry":         {Into: &f.retries, Want: "a whole number"},
		"timeout":           {Into: &f.timeout, Want: "a string"},
		"retention":         {Into: &f.retention, Want: "a string"},
	})
	if err != nil {
		return nil, err
	}
	return f.order()
}

func (f fields) order() (*order, error) {
	for name, value := range map[string]string{"type": f.taskType, "queue": f.queue} {
		if strings.TrimSpace(value) == "" || len(value) > nameLimit {
			return nil, executor.Invalid(name, "must have 1 to %d characters", nameLimit)
		}
	}
	if f.retries < 0 || f.retries > math.MaxInt32 {
		return nil, executor.Invalid("max_retry", "must be at least 0: how often asynq tries again by itself")
	}
	if string(f.payload) == "null" { // as if it were left out
		f.payload = nil
	}
	o := &order{taskType: f.taskType, payload: f.payload, headers: f.headers, queue: f.queue, retries: f.retries, final: f.final}
	if f.base64 != "" {
		if f.payload != nil {
			return nil, executor.Invalid("payload_base64", "must not be there together with payload")
		}
		var err error
		if o.payload, err = base64.StdEncoding.DecodeString(f.base64); err != nil {
			return nil, executor.Invalid("payload_base64", "must be in base64 (RFC 4648, with padding)")
		}
	}
	return o, f.spans(o)
}

// spans reads the durations.
func (f fields) spans(o *order) (err error) {
	if o.timeout, err = span("timeout", f.timeout, time.Second, task.TimeoutLimit); err != nil {
		return err
	}
	o.retention, err = span("retention", f.retention, retentionLeast, task.RetentionLimit)
	return err
}

// span reads a duration of whole seconds, as asynq has them; 0 if there is none.
func span(name, text string, least, most time.Duration) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most || d%time.Second != 0 {
		return 0, executor.Invalid(name, "%q must be a duration of whole seconds from %s to %s, such as 5m", text, least, most)
	}
	return d, nil
}

// task returns what asynq's client takes. ctx is the attempt's: its deadline is the timeout of an order that has none.
func (o *order) task(ctx context.Context, id string) *asynq.Task {
	options := []asynq.Option{
		asynq.TaskID(id), asynq.Queue(o.queue), asynq.MaxRetry(o.retries), asynq.Retention(o.kept()), asynq.Timeout(o.timeLeft(ctx)),
	}
	return asynq.NewTaskWithHeaders(o.taskType, o.payload, o.headers, options...)
}

// describes reports whether the order is what an asynq task was enqueued from, by an attempt with the same timeout as that of ctx.
func (o *order) describes(ctx context.Context, info *asynq.TaskInfo) bool {
	off := (info.Timeout - o.timeLeft(ctx)).Abs()
	return info.Type == o.taskType && bytes.Equal(info.Payload, o.payload) && maps.Equal(info.Headers, o.headers) &&
		info.MaxRetry == o.retries && info.Retention == o.kept() && (off == 0 || o.timeout == 0 && off <= handOverSlack)
}

// kept is how long asynq is to keep the completed task.
func (o *order) kept() time.Duration { return cmp.Or(o.retention, safeRetention) }

// timeLeft is in whole seconds, and at least one: asynq reads less as half an hour.
func (o *order) timeLeft(ctx context.Context) time.Duration {
	if o.timeout > 0 {
		return o.timeout
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return task.DefaultTimeout
	}
	return max(clock.Until(deadline)+time.Second-1, time.Second).Truncate(time.Second)
}
