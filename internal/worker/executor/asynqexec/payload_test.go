package asynqexec

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

func TestParseOrder_RefusesAPayloadThatCannotWork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ payload, field, message string }{
		"not an object":        {`[]`, "payload", "object"},
		"an unknown field":     {`{"type": "a", "retries": 1}`, "payload.retries", "not known"},
		"no type":              {`{}`, "payload.type", "1 to 200"},
		"a blank type":         {`{"type": " "}`, "payload.type", "1 to 200"},
		"a blank queue":        {`{"type": "a", "queue": " "}`, "payload.queue", "1 to 200"},
		"two payloads":         {`{"type": "a", "payload": 1, "payload_base64": "AA=="}`, "payload.payload_base64", "together"},
		"no base64":            {`{"type": "a", "payload_base64": "?"}`, "payload.payload_base64", "base64"},
		"retries below 0":      {`{"type": "a", "max_retry": -1}`, "payload.max_retry", "at least 0"},
		"half a retry":         {`{"type": "a", "max_retry": 0.5}`, "payload.max_retry", "whole number"},
		"no duration":          {`{"type": "a", "timeout": "soon"}`, "payload.timeout", "whole seconds"},
		"half a second":        {`{"type": "a", "timeout": "500ms"}`, "payload.timeout", "from 1s"},
		"a second and a half":  {`{"type": "a", "timeout": "1.5s"}`, "payload.timeout", "whole seconds"},
		"too short to be seen": {`{"type": "a", "retention": "59s"}`, "payload.retention", "from 1m0s"},
		"headers of numbers":   {`{"type": "a", "headers": {"n": 1}}`, "payload.headers", "object of strings"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseOrder(json.RawMessage(c.payload))
			executortest.WantInvalid(t, err, c.field, c.message)
		})
	}
}

func TestOrder_BecomesTheOptionsOfAsynq(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for name, c := range map[string]struct {
		payload string
		want    asynq.TaskInfo
	}{
		"all": {
			`{"type": "a", "payload": null, "payload_base64": "", "queue": "mails", "max_retry": 7, "timeout": "90s", "retention": "1h"}`,
			asynq.TaskInfo{Queue: "mails", MaxRetry: 7, Timeout: 90 * time.Second, Retention: time.Hour},
		},
		"none": {`{"type": "a"}`, asynq.TaskInfo{Queue: "default", Timeout: 10 * time.Minute, Retention: 24 * time.Hour}},
	} {
		o, err := parseOrder(json.RawMessage(c.payload))
		testkit.Must(t, err)
		got, err := asynq.NewClientFromRedisClient(f.redis.DB(t).UniversalClient).Enqueue(o.task(t.Context(), name))
		testkit.Must(t, err)
		if got.Queue != c.want.Queue || got.MaxRetry != c.want.MaxRetry || got.Timeout != c.want.Timeout || got.Retention != c.want.Retention {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestOrder_WithoutATimeoutMayTakeAsLongAsTheAttempt(t *testing.T) {
	t.Parallel()
	o, err := parseOrder(json.RawMessage(`{"type": "a"}`))
	testkit.Must(t, err)
	for left, want := range map[time.Duration]time.Duration{
		time.Hour - 500*time.Millisecond: time.Hour, -time.Second: time.Second, // asynq takes 0 for half an hour
	} {
		ctx, cancel := context.WithDeadline(t.Context(), clock.Now().Add(left))
		if got := o.timeLeft(ctx); got != want {
			t.Errorf("with %s left: %s", left, got)
		}
		cancel()
	}
}

func TestSettings_RefuseAnAddressThatIsNone(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{"": true, "redis://fleet:6379/3": true, "fleet:6379": false} {
		d := Describe()
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		d.Settings.Declare(flags)
		testkit.Must(t, flags.Parse([]string{"--asynq-redis", url}))
		if err := d.Settings.Validate(); (err == nil) != want {
			t.Errorf("%q: %v", url, err)
		}
	}
}
