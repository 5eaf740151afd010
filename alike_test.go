package dts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/testkit"
)

// badCall is a call with an input that is invalid, and the field that the error names.
type badCall struct {
	field string
	call  func(ctx context.Context, c *dts.Client) error
}

// errOf returns the error of a call that returns a value as well.
func errOf[T any](_ T, err error) error { return err }

// errIn returns the error that a sequence yields.
func errIn[T any](all iter.Seq2[T, error]) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// submitOf returns a call that submits.
func submitOf(s dts.Submission) func(context.Context, *dts.Client) error {
	return func(ctx context.Context, c *dts.Client) error { return errOf(c.Submit(ctx, s)) }
}

// manyOf returns a call that submits among others.
func manyOf(s dts.Submission) func(context.Context, *dts.Client) error {
	return func(ctx context.Context, c *dts.Client) error {
		results, err := c.SubmitMany(ctx, []dts.Submission{{ID: "fine", Type: "noop", Delay: time.Hour}, s})
		if err != nil || results[0].Err != nil {
			return fmt.Errorf("not alone: %w", errors.Join(err, results[0].Err))
		}
		return results[1].Err
	}
}

func badSubmissions() map[string]struct {
	dts.Submission
	field string
} {
	long := strings.Repeat("x", 201)
	farAway := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	rows := map[string]struct {
		dts.Submission
		field string
	}{
		"no type":                      {dts.Submission{}, "type"},
		"a type with a blank":          {dts.Submission{Type: "a b"}, "type"},
		"a long type":                  {dts.Submission{Type: long}, "type"},
		"an id that is a path":         {dts.Submission{ID: ".."}, "id"},
		"an id that is here":           {dts.Submission{ID: "."}, "id"},
		"an id with a slash":           {dts.Submission{ID: "a/b"}, "id"},
		"an id of a tick":              {dts.Submission{ID: "a@b"}, "id"},
		"an id of a tick, twice":       {dts.Submission{ID: "a@b@c"}, "id"},
		"a long id":                    {dts.Submission{ID: long}, "id"},
		"an endless id":                {dts.Submission{ID: strings.Repeat("x", 2<<20)}, "id"},
		"an id of another alphabet":    {dts.Submission{ID: "Ärger"}, "id"},
		"an id that is no text":        {dts.Submission{ID: "a\xff"}, "id"},
		"a queue with a blank":         {dts.Submission{Queue: "a b"}, "queue"},
		"a queue that is a path":       {dts.Submission{Queue: ".."}, "queue"},
		"a long queue":                 {dts.Submission{Queue: long}, "queue"},
		"a payload that is no JSON":    {dts.Submission{Payload: json.RawMessage("{")}, "payload"},
		"a payload of nothing":         {dts.Submission{Payload: json.RawMessage("  ")}, "payload"},
		"a payload of two":             {dts.Submission{Payload: json.RawMessage("1 2")}, "payload"},
		"a member given twice":         {dts.Submission{Payload: json.RawMessage(`{"a":1,"a":2}`)}, "payload"},
		"a payload that cannot be":     {dts.Submission{Payload: math.NaN()}, "payload"},
		"a payload that is a function": {dts.Submission{Payload: func() {}}, "payload"},
		"a long payload":               {dts.Submission{Payload: strings.Repeat("x", 256<<10)}, "payload"},
		"a deep payload":               {dts.Submission{Payload: json.RawMessage(strings.Repeat("[", 200) + strings.Repeat("]", 200))}, "payload"},
		"a payload of another type":    {dts.Submission{Payload: map[string]int{"sleep": 1}}, "payload.sleep"},
		"two times":                    {dts.Submission{RunAt: time.Now(), Delay: time.Hour}, "delay"},
		"a negative delay":             {dts.Submission{Delay: -time.Hour}, "delay"},
		"a part of a ms":               {dts.Submission{Delay: time.Microsecond}, "delay"},
		"a delay that is too long":     {dts.Submission{Delay: math.MaxInt64 / time.Millisecond * time.Millisecond}, "delay"},
		"a time that is too far away":  {dts.Submission{RunAt: farAway}, "run_at"},
		"a time that is too far ago":   {dts.Submission{RunAt: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)}, "run_at"},
		"a time of the last century":   {dts.Submission{RunAt: time.Unix(1, 0)}, "run_at"},
		"a negative timeout":           {dts.Submission{Timeout: -1}, "timeout"},
		"a timeout that is too long":   {dts.Submission{Timeout: 169 * time.Hour}, "timeout"},
		"a negative retention":         {dts.Submission{Retention: -time.Hour}, "retention"},
		"a retention that is too long": {dts.Submission{Retention: 1e6 * time.Hour}, "retention"},
		"negative attempts":            {dts.Submission{Retry: dts.Retry{MaxAttempts: -1}}, "retry.max_attempts"},
		"too many attempts":            {dts.Submission{Retry: dts.Retry{MaxAttempts: 1001}}, "retry.max_attempts"},
		"a negative max elapsed":       {dts.Submission{Retry: dts.Retry{MaxElapsed: -1}}, "retry.max_elapsed"},
		"a factor below 1":             {dts.Submission{Retry: dts.Retry{Backoff: dts.Backoff{Factor: 0.5}}}, "retry.backoff.factor"},
		"a factor that is none":        {dts.Submission{Retry: dts.Retry{Backoff: dts.Backoff{Factor: math.NaN()}}}, "retry.backoff.factor"},
		"a factor without end":         {dts.Submission{Retry: dts.Retry{Backoff: dts.Backoff{Factor: math.Inf(1)}}}, "retry.backoff.factor"},
		"a jitter over 1":              {dts.Submission{Retry: dts.Retry{Backoff: dts.Backoff{Jitter: new(1.5)}}}, "retry.backoff.jitter"},
		"a jitter that is none":        {dts.Submission{Retry: dts.Retry{Backoff: dts.Backoff{Jitter: new(math.NaN())}}}, "retry.backoff.jitter"},
		"a negative wait":              {dts.Submission{Retry: dts.Retry{Backoff: dts.Backoff{Initial: -time.Second}}}, "retry.backoff.initial"},
		"a longest wait too short":     {dts.Submission{Retry: dts.Retry{Backoff: dts.Backoff{Max: time.Millisecond}}}, "retry.backoff.max"},
		"a negative wait in a list":    {dts.Submission{Retry: dts.Retry{Delays: []time.Duration{time.Second, -time.Second}}}, "retry.delays[1]"},
		"too many waits":               {dts.Submission{Retry: dts.Retry{Delays: make([]time.Duration, 101)}}, "retry.delays"},
		"waits and a backoff":          {dts.Submission{Retry: dts.Retry{Delays: make([]time.Duration, 1), Backoff: dts.Backoff{Factor: 2}}}, "retry.delays"},
		"a long owner":                 {dts.Submission{Owner: long}, "owner"},
		"an endless owner":             {dts.Submission{Owner: strings.Repeat("x", 2<<20)}, "owner"},
		"an owner that is no text":     {dts.Submission{Owner: "a\xff"}, "owner"},
		"a label without a name":       {dts.Submission{Labels: map[string]string{"": "x", "a": long}}, "labels"},
		"a long label":                 {dts.Submission{Labels: map[string]string{"a": long, "b": long}}, "labels.a"},
		"a label that is no text":      {dts.Submission{Labels: map[string]string{"a": "\xff"}}, "labels.a"},
		"a name that is no text":       {dts.Submission{Labels: map[string]string{"\xff": "a"}}, "labels"},
		"too many labels":              {dts.Submission{Labels: manyLabels(33)}, "labels"},
	}
	for name, row := range rows {
		if row.field != "type" {
			row.Type = "noop"
			rows[name] = row
		}
	}
	return rows
}

func manyLabels(n int) map[string]string {
	labels := make(map[string]string)
	for i := range n {
		labels[fmt.Sprint("label-", i)] = "x"
	}
	return labels
}

// withSchedule returns calls that put a definition of a schedule.
func badSchedules() map[string]badCall {
	rows := make(map[string]badCall)
	put := func(name, field string, d dts.ScheduleDefinition) {
		if d.Every == 0 && d.Cron == "" && d.Specs == nil {
			d.Every = time.Hour
		}
		if d.Task.Type == "" && field != "task.type" {
			d.Task.Type = "noop"
		}
		rows["schedule: "+name] = badCall{field, func(ctx context.Context, c *dts.Client) error { return errOf(c.PutSchedule(ctx, "s", d)) }}
	}
	long := strings.Repeat("x", 1001)
	farAway := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	put("no task", "task.type", dts.ScheduleDefinition{})
	put("two rules", "every", dts.ScheduleDefinition{Cron: "@daily", Every: time.Hour})
	put("a bad expression", "cron", dts.ScheduleDefinition{Cron: "61 * * * *"})
	put("a long expression", "cron", dts.ScheduleDefinition{Cron: long})
	put("an expression that is no text", "cron", dts.ScheduleDefinition{Cron: "* * * * \xff"})
	put("a negative interval", "every", dts.ScheduleDefinition{Every: -time.Hour})
	put("a short interval", "every", dts.ScheduleDefinition{Every: time.Millisecond})
	put("a part of a ms", "every", dts.ScheduleDefinition{Every: time.Hour + 1})
	put("no specs", "cron", dts.ScheduleDefinition{Specs: []dts.Spec{}})
	put("a spec of nothing", "specs[1]", dts.ScheduleDefinition{Specs: []dts.Spec{{Every: time.Hour}, {}}})
	put("a spec of two", "specs[1].every", dts.ScheduleDefinition{Specs: []dts.Spec{{Every: time.Hour}, {Every: time.Hour, Cron: "@daily"}}})
	put("a negative spec", "specs[1].every", dts.ScheduleDefinition{Specs: []dts.Spec{{Every: time.Hour}, {Every: -time.Hour}}})
	put("too many specs", "specs", dts.ScheduleDefinition{Specs: slices.Repeat([]dts.Spec{{Every: time.Hour}}, 21)})
	put("a bad exclusion", "exclude[1]", dts.ScheduleDefinition{Exclude: []string{"2026-12-25", "Christmas"}})
	put("an empty exclusion", "exclude[0]", dts.ScheduleDefinition{Exclude: []string{""}})
	put("an unknown zone", "timezone", dts.ScheduleDefinition{Timezone: "Europe/Bärlin"})
	put("a zone that is a path", "timezone", dts.ScheduleDefinition{Timezone: "../../etc/passwd"})
	put("the zone of the machine", "timezone", dts.ScheduleDefinition{Timezone: "Local"})
	put("a long zone", "timezone", dts.ScheduleDefinition{Timezone: long})
	put("a zone that is no text", "timezone", dts.ScheduleDefinition{Timezone: "\xff"})
	put("a start too far away", "start_at", dts.ScheduleDefinition{StartAt: farAway})
	put("an end too far away", "end_at", dts.ScheduleDefinition{EndAt: farAway})
	put("an end before the start", "end_at", dts.ScheduleDefinition{StartAt: time.Unix(2e9, 0), EndAt: time.Unix(1e9, 0)})
	put("negative runs", "max_runs", dts.ScheduleDefinition{MaxRuns: -1})
	put("a negative jitter", "jitter", dts.ScheduleDefinition{Jitter: -time.Second})
	put("a long jitter", "jitter", dts.ScheduleDefinition{Jitter: 25 * time.Hour})
	put("a misfire policy that is none", "misfire.policy", dts.ScheduleDefinition{Misfire: dts.Misfire{Policy: "twice"}})
	put("a negative window", "misfire.window", dts.ScheduleDefinition{Misfire: dts.Misfire{Window: -time.Second}})
	put("too many misfires", "misfire.max", dts.ScheduleDefinition{Misfire: dts.Misfire{Max: 1001}})
	put("an overlap policy that is none", "overlap", dts.ScheduleDefinition{Overlap: "wait"})
	put("negative failures", "pause_on_failure", dts.ScheduleDefinition{PauseOnFailure: -1})
	put("a long owner", "owner", dts.ScheduleDefinition{Owner: long})
	put("an owner that is no text", "owner", dts.ScheduleDefinition{Owner: "\xff"})
	put("a long description", "description", dts.ScheduleDefinition{Description: long})
	put("an endless description", "description", dts.ScheduleDefinition{Description: strings.Repeat("x", 2<<20)})
	put("a description that is no text", "description", dts.ScheduleDefinition{Description: "\xff"})
	put("a label that is no text", "labels.a", dts.ScheduleDefinition{Labels: map[string]string{"a": "\xff"}})
	for name, row := range badSubmissions() {
		s := row.Submission
		if s.ID != "" || !s.RunAt.IsZero() || s.Delay != 0 {
			continue
		}
		put("its task: "+name, "task."+row.field, dts.ScheduleDefinition{Task: dts.TaskTemplate{
			Type: s.Type, Queue: s.Queue, Payload: s.Payload, Timeout: s.Timeout, Retry: s.Retry, Retention: s.Retention, Owner: s.Owner, Labels: s.Labels,
		}})
	}
	return rows
}

// badNames are what no task, schedule, queue or lock is called. Most of them would have another meaning in the path of a URL.
var badNames = []string{
	"", ".", "..", "/", "a/b", "../nodes", "%2e%2e", "a?b", "a#b", "a b", "a\x00", "\xff", "é", "*", "a@", "@a", strings.Repeat("x", 201), strings.Repeat("x", 1<<20),
}

// calls are the methods that take a name, by the kind of what it names.
var calls = map[string]map[string]func(ctx context.Context, c *dts.Client, name string) error{
	"id": {
		"Get":        func(ctx context.Context, c *dts.Client, id string) error { return errOf(c.Get(ctx, id)) },
		"Wait":       func(ctx context.Context, c *dts.Client, id string) error { return errOf(c.Wait(ctx, id)) },
		"Cancel":     func(ctx context.Context, c *dts.Client, id string) error { return errOf(c.Cancel(ctx, id)) },
		"Retry":      func(ctx context.Context, c *dts.Client, id string) error { return errOf(c.Retry(ctx, id)) },
		"Attempts":   func(ctx context.Context, c *dts.Client, id string) error { return errOf(c.Attempts(ctx, id)) },
		"Logs":       func(ctx context.Context, c *dts.Client, id string) error { return errIn(c.Logs(ctx, id)) },
		"FollowLogs": func(ctx context.Context, c *dts.Client, id string) error { return errIn(c.FollowLogs(ctx, id)) },
		"Change": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.Change(ctx, id, dts.TaskChange{Queue: new("low")}))
		},
		"PutSchedule": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.PutSchedule(ctx, id, dts.ScheduleDefinition{Every: time.Hour, Task: dts.TaskTemplate{Type: "noop"}}))
		},
		"GetSchedule":       func(ctx context.Context, c *dts.Client, id string) error { return errOf(c.GetSchedule(ctx, id)) },
		"PauseSchedule":     func(ctx context.Context, c *dts.Client, id string) error { return errOf(c.PauseSchedule(ctx, id, "")) },
		"ResumeSchedule":    func(ctx context.Context, c *dts.Client, id string) error { return errOf(c.ResumeSchedule(ctx, id)) },
		"TriggerSchedule":   func(ctx context.Context, c *dts.Client, id string) error { return errOf(c.TriggerSchedule(ctx, id)) },
		"DeleteSchedule":    func(ctx context.Context, c *dts.Client, id string) error { return errOf(c.DeleteSchedule(ctx, id, "")) },
		"UpcomingTicks":     func(ctx context.Context, c *dts.Client, id string) error { return errOf(c.UpcomingTicks(ctx, id, 1)) },
		"ScheduleRevisions": func(ctx context.Context, c *dts.Client, id string) error { return errOf(c.ScheduleRevisions(ctx, id)) },
		"RollbackSchedule": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.RollbackSchedule(ctx, id, 1))
		},
		"ScheduleLedger": func(ctx context.Context, c *dts.Client, id string) error {
			return errIn(c.ScheduleLedger(ctx, id, dts.LedgerFilter{}))
		},
		"AuditSchedule": func(ctx context.Context, c *dts.Client, id string) error {
			return errOf(c.AuditSchedule(ctx, id, time.Time{}, time.Time{}))
		},
		"BackfillSchedule": func(ctx context.Context, c *dts.Client, id string) error {
			_, _, err := c.BackfillSchedule(ctx, id, dts.Backfill{From: time.Unix(1e9, 0), To: time.Unix(1e9, 0)})
			return err
		},
	},
	"queue": {
		"PauseQueue":  func(ctx context.Context, c *dts.Client, name string) error { return c.PauseQueue(ctx, name) },
		"LimitQueue":  func(ctx context.Context, c *dts.Client, name string) error { return c.LimitQueue(ctx, name, 1) },
		"ResumeQueue": func(ctx context.Context, c *dts.Client, name string) error { return c.ResumeQueue(ctx, name) },
	},
	"name": {
		"Lock": func(ctx context.Context, c *dts.Client, name string) error {
			return errOf(c.Lock(ctx, name, time.Minute))
		},
	},
}

// otherCalls are calls with invalid inputs of other kinds.
func otherCalls() map[string]badCall {
	type client = *dts.Client
	rows := map[string]badCall{
		"Lock: too short":    {"ttl", func(ctx context.Context, c client) error { return errOf(c.Lock(ctx, "l", time.Millisecond)) }},
		"Lock: negative":     {"ttl", func(ctx context.Context, c client) error { return errOf(c.Lock(ctx, "l", -time.Minute)) }},
		"Lock: too long":     {"ttl", func(ctx context.Context, c client) error { return errOf(c.Lock(ctx, "l", 25*time.Hour)) }},
		"Lock: part of a ms": {"ttl", func(ctx context.Context, c client) error { return errOf(c.Lock(ctx, "l", time.Minute+1)) }},
		"Lock: a negative wait": {"wait", func(ctx context.Context, c client) error {
			return errOf(c.Lock(ctx, "l", time.Minute, dts.LockWait(-1)))
		}},
		"Lock: a long note":   {"note", lockNoted(strings.Repeat("x", 501))},
		"Lock: no text":       {"note", lockNoted("\xff")},
		"Change: nothing":     {"", changeOf(dts.TaskChange{})},
		"Change: two times":   {"delay", changeOf(dts.TaskChange{RunAt: new(time.Now()), Delay: new(time.Hour)})},
		"Change: far away":    {"run_at", changeOf(dts.TaskChange{RunAt: new(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC))})},
		"Change: negative":    {"delay", changeOf(dts.TaskChange{Delay: new(-time.Hour)})},
		"Change: a bad queue": {"queue", changeOf(dts.TaskChange{Queue: new("a b")})},
		"Change: no queue":    {"queue", changeOf(dts.TaskChange{Queue: new("")})},
		"Change: no JSON":     {"payload", changeOf(dts.TaskChange{Payload: json.RawMessage("{")})},
		"List: a bad state": {"state[1]", func(ctx context.Context, c client) error {
			return errIn(c.List(ctx, dts.TaskFilter{States: []dts.State{"failed", "broken"}}))
		}},
		"List: a bad queue": {"queue", func(ctx context.Context, c client) error { return errIn(c.List(ctx, dts.TaskFilter{Queue: "a b"})) }},
		"List: a bad type":  {"type", func(ctx context.Context, c client) error { return errIn(c.List(ctx, dts.TaskFilter{Type: "a b"})) }},
		"List: a long owner": {"owner", func(ctx context.Context, c client) error {
			return errIn(c.List(ctx, dts.TaskFilter{Owner: strings.Repeat("x", 201)}))
		}},
		"List: a bad schedule": {"schedule", func(ctx context.Context, c client) error { return errIn(c.List(ctx, dts.TaskFilter{Schedule: "a@b"})) }},
		"Events: a bad schedule": {"schedule", func(ctx context.Context, c client) error {
			return errIn(c.Events(ctx, dts.TaskFilter{Schedule: "a@b"}))
		}},
		"Events: a bad state": {"state[0]", func(ctx context.Context, c client) error {
			return errIn(c.Events(ctx, dts.TaskFilter{States: []dts.State{"broken"}}))
		}},
		"ListSchedules: a label without a name": {"label[0]", func(ctx context.Context, c client) error {
			return errIn(c.ListSchedules(ctx, dts.ScheduleFilter{Labels: map[string]string{"": "x", "a": "b"}}))
		}},
		"PauseSchedule: a long note": {"note", func(ctx context.Context, c client) error {
			return errOf(c.PauseSchedule(ctx, "s", strings.Repeat("x", 501)))
		}},
		"DeleteSchedule: some tasks": {"tasks", func(ctx context.Context, c client) error { return errOf(c.DeleteSchedule(ctx, "s", "some")) }},
		"UpcomingTicks: negative":    {"count", func(ctx context.Context, c client) error { return errOf(c.UpcomingTicks(ctx, "s", -1)) }},
		"UpcomingTicks: too many":    {"count", func(ctx context.Context, c client) error { return errOf(c.UpcomingTicks(ctx, "s", 501)) }},
		"RollbackSchedule: to 0":     {"revision", func(ctx context.Context, c client) error { return errOf(c.RollbackSchedule(ctx, "s", 0)) }},
		"PutSchedule: revision 0": {"If-Match", func(ctx context.Context, c client) error {
			return errOf(c.PutSchedule(ctx, "s", dts.ScheduleDefinition{Every: time.Hour, Task: dts.TaskTemplate{Type: "noop"}}, dts.IfRevision(0)))
		}},
		"ScheduleLedger: ends before it starts": {"until", func(ctx context.Context, c client) error {
			return errIn(c.ScheduleLedger(ctx, "s", dts.LedgerFilter{Since: time.Unix(2e9, 0), Until: time.Unix(1e9, 0)}))
		}},
		"AuditSchedule: ends before it starts": {"to", func(ctx context.Context, c client) error {
			return errOf(c.AuditSchedule(ctx, "s", time.Unix(2e9, 0), time.Unix(1e9, 0)))
		}},
		"BackfillSchedule: ends before it starts": {"to", backfillOf(dts.Backfill{From: time.Unix(2e9, 0), To: time.Unix(1e9, 0)})},
		"BackfillSchedule: too far away":          {"to", backfillOf(dts.Backfill{From: time.Unix(2e9, 0), To: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)})},
		"BackfillSchedule: a negative pace":       {"pace", backfillOf(dts.Backfill{From: time.Unix(1e9, 0), To: time.Unix(2e9, 0), Pace: new(-time.Second)})},
	}
	for kind, methods := range calls {
		for method, call := range methods {
			for _, name := range badNames {
				rows[fmt.Sprintf("%s: %.20q", method, name)] = badCall{kind, func(ctx context.Context, c client) error { return call(ctx, c, name) }}
			}
			if kind != "queue" {
				for _, namespace := range []string{"", ".", "..", "a b", "*", "\xff", strings.Repeat("x", 201)} {
					rows[fmt.Sprintf("%s in %.20q", method, namespace)] = badCall{
						"namespace", func(ctx context.Context, c client) error { return call(ctx, c.In(namespace), "s") },
					}
				}
			}
		}
	}
	for _, namespace := range []string{"", ".", "..", "a b", "*", "\xff", strings.Repeat("x", 201)} {
		for method, call := range map[string]func(ctx context.Context, c client) error{
			"Submit": submitOf(dts.Submission{Type: "noop"}),
			"SubmitMany": func(ctx context.Context, c client) error {
				return errOf(c.SubmitMany(ctx, []dts.Submission{{Type: "noop"}}))
			},
			"List":          func(ctx context.Context, c client) error { return errIn(c.List(ctx, dts.TaskFilter{})) },
			"ListSchedules": func(ctx context.Context, c client) error { return errIn(c.ListSchedules(ctx, dts.ScheduleFilter{})) },
			"ListLocks":     func(ctx context.Context, c client) error { return errIn(c.ListLocks(ctx)) },
		} {
			rows[fmt.Sprintf("%s in %.20q", method, namespace)] = badCall{"namespace", func(ctx context.Context, c client) error { return call(ctx, c.In(namespace)) }}
		}
		if namespace != "*" { // stands for all of them there
			rows[fmt.Sprintf("Events in %.20q", namespace)] = badCall{"namespace", func(ctx context.Context, c client) error {
				return errIn(c.In(namespace).Events(ctx, dts.TaskFilter{}))
			}}
		}
	}
	return rows
}

func lockNoted(note string) func(context.Context, *dts.Client) error {
	return func(ctx context.Context, c *dts.Client) error {
		return errOf(c.Lock(ctx, "l", time.Minute, dts.LockNote(note)))
	}
}

func changeOf(change dts.TaskChange) func(context.Context, *dts.Client) error {
	return func(ctx context.Context, c *dts.Client) error { return errOf(c.Change(ctx, "s", change)) }
}

func backfillOf(b dts.Backfill) func(context.Context, *dts.Client) error {
	return func(ctx context.Context, c *dts.Client) error {
		_, _, err := c.BackfillSchedule(ctx, "s", b)
		return err
	}
}

// counting is a transport that counts requests.
type counting struct{ requests atomic.Int64 }

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return http.DefaultTransport.RoundTrip(r)
}

// call makes a call, which ends in time even if it is not refused.
func call(ctx context.Context, b badCall, c *dts.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return b.call(ctx, c)
}

// TestClient_RefusesAlikeOverBothWays has everything refused with the same words, whichever way a client takes.
func TestClient_RefusesAlikeOverBothWays(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var sent counting
	dial, err := dts.Dial(f.address, dts.WithTransport(&sent))
	testkit.Must(t, err)
	open, err := dts.Open(f.redis)
	testkit.Must(t, err)
	defer func() { testkit.Must(t, errors.Join(dial.Close(), open.Close())) }()
	ctx := t.Context()
	for _, c := range []*dts.Client{dial, open} {
		_, err = c.PutSchedule(ctx, "s", dts.ScheduleDefinition{Every: time.Hour, Task: dts.TaskTemplate{Type: "noop"}})
		testkit.Must(t, err)
		_, err = c.Submit(ctx, dts.Submission{ID: "s", Type: "noop", Delay: time.Hour})
		testkit.Must(t, err)
	}
	rows := otherCalls()
	maps.Copy(rows, badSchedules())
	for name, row := range badSubmissions() {
		rows["Submit: "+name] = badCall{row.field, submitOf(row.Submission)}
		rows["SubmitMany: "+name] = badCall{row.field, manyOf(row.Submission)}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		before := sent.requests.Load()
		one, other := call(ctx, row, dial), call(ctx, row, open)
		requests := sent.requests.Load() - before
		var overHTTP, direct *dts.Error
		if !errors.As(one, &overHTTP) || !errors.As(other, &direct) {
			t.Errorf("%s: %v over HTTP, %v directly", name, one, other)
			continue
		}
		if overHTTP.Code != dts.CodeInvalid || overHTTP.Field != row.field {
			t.Errorf("%s: %s for %q, want it for %q: %.300s", name, overHTTP.Code, overHTTP.Field, row.field, overHTTP.Message)
		}
		if direct.Code != overHTTP.Code || direct.Field != overHTTP.Field || direct.Message != overHTTP.Message {
			t.Errorf("%s:\n over HTTP %s for %q: %.300s\n  directly %s for %q: %.300s", name,
				overHTTP.Code, overHTTP.Field, overHTTP.Message, direct.Code, direct.Field, direct.Message)
		}
		if strings.Contains(overHTTP.Message, "^") {
			t.Errorf("%s: the message has a pattern: %.300s", name, overHTTP.Message)
		}
		_, isName := calls[row.field]
		if method, _, _ := strings.Cut(name, ":"); isName && requests > 0 && calls[row.field][method] != nil {
			t.Errorf("%s: sent %d requests with a name that may mean something else", name, requests)
		}
	}
}
