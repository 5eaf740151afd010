// Package wiretest makes up what clients may send, for tests.
package wiretest

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
)

// Definition returns a definition that fits the document. It says each thing that can be said, or leaves it out, by
// chance.
func Definition(r *rand.Rand) wire.ScheduleDefinition {
	d := wire.ScheduleDefinition{
		Exclude:  wire.Value(maybe(r, []string{"2026-12-25", "* 12 * * *"})),
		Timezone: maybe(r, "Asia/Kolkata"),
		StartAt:  maybe(r, anyTime(r)),
		EndAt:    maybe(r, anyTime(r)),
		MaxRuns:  maybe(r, 1+r.IntN(1000)),
		Jitter:   maybe(r, anySpan(r)),
		Misfire: wire.Given(wire.Misfire{
			Policy: maybe(r, wire.MisfirePolicy("all")), Window: maybe(r, anySpan(r)), Max: maybe(r, 1+r.IntN(1000)),
		}),
		Overlap:     maybe(r, wire.Overlap("replace")),
		Owner:       maybe(r, "ops"),
		Description: maybe(r, "Größe <b>&"),
		Labels:      maybe(r, wire.Labels{"team": "x", "": "y"}),
		Task: wire.TaskTemplate{
			Type: "http", Queue: maybe(r, "low"), Timeout: maybe(r, anySpan(r)),
			Payload:   wire.Value(maybe(r, json.RawMessage(`{"url":"http://x"}`))),
			Retention: maybe(r, anySpan(r)), Owner: maybe(r, "dev"), Labels: maybe(r, wire.Labels{"a": "b"}),
			Retry: maybe(r, anyRetry(r)), Priority: maybe(r, 1+r.IntN(9)),
		},
		PauseOnFailure: maybe(r, 1+r.IntN(1000)),
	}
	if d.Task.FairKey = maybe(r, "customer-7"); d.Task.FairKey != nil {
		d.Task.FairWeight = maybe(r, 2+r.IntN(99))
	}
	d.Task.LimitKey, d.Task.Select = maybe(r, "tenant-7,api-x"), maybe(r, "gpu,zone in (eu,us)")
	d.Task.Cost = maybe(r, 2+r.IntN(99))
	d.Task.Slots = maybe(r, 2+r.IntN(3))
	d.Task.Prefer = wire.Value(maybe(r, wire.Preferences{{Select: "a", Weight: new(2)}, {Select: "!b", Weight: new(1)}}))
	d.Task.Route = maybe(r, wire.Route{By: new(wire.RouteHash), Key: new("a"), Sticky: maybe(r, wire.StickyPrefer)})
	switch r.IntN(3) {
	case 0:
		d.Cron = new("30 2 * * MON-FRI")
	case 1:
		d.Every = new(anySpan(r))
	case 2:
		d.Specs = []wire.ScheduleRule{{Cron: new("@daily")}, {Every: new(anySpan(r))}, {Every: new(anySpan(r))}}[:2+r.IntN(2)]
	}
	return d
}

func anyRetry(r *rand.Rand) wire.Retry {
	out := wire.Retry{MaxAttempts: new(1 + r.IntN(1000)), MaxElapsed: maybe(r, anySpan(r))}
	if r.IntN(2) == 0 {
		out.Delays = []string{"0s", anySpan(r)}
		return out
	}
	out.Backoff = wire.Given(wire.Backoff{
		Initial: maybe(r, anySpan(r)), Factor: maybe(r, 1+r.Float64()), Max: maybe(r, anySpan(r)),
		Jitter: maybe(r, float64(r.IntN(2))),
	})
	return out
}

func maybe[T any](r *rand.Rand, v T) *T {
	if r.IntN(2) == 0 {
		return nil
	}
	return &v
}

// anySpan returns a duration as the server writes it.
func anySpan(r *rand.Rand) string {
	unit := []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour}[r.IntN(4)]
	text := (time.Duration(1+r.IntN(1000)) * unit).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func anyTime(r *rand.Rand) wire.Time {
	return wire.At(time.UnixMilli(1_767_366_245_120).Add(time.Duration(r.Int64N(1 << 50))).Truncate(time.Millisecond))
}
