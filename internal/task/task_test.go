package task

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func valid() Definition {
	return Definition{Ref: Ref{ID: "a"}, Type: "http", Payload: json.RawMessage(`{}`)}
}

func TestDefinition_ValidateNamesTheFieldAtFault(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	over, under := 1.5, -0.5
	for name, c := range map[string]struct {
		change func(*Definition)
		field  string
	}{
		"nothing wrong":        {func(*Definition) {}, ""},
		"reach of a move":      {func(d *Definition) { d.Reach = "^a^^" }, "select"},
		"past run_at":          {func(d *Definition) { d.RunAt = now.Add(-time.Hour) }, ""},
		"longest id":           {func(d *Definition) { d.ID = strings.Repeat("a", IDLimit) }, ""},
		"id too long":          {func(d *Definition) { d.ID = strings.Repeat("a", IDLimit+1) }, "id"},
		"id with a space":      {func(d *Definition) { d.ID = "a b" }, "id"},
		"id of a tick":         {func(d *Definition) { d.ID = "a@20260102T150405Z" }, "id"},
		"id that is a path":    {func(d *Definition) { d.ID = ".." }, "id"},
		"queue that is a path": {func(d *Definition) { d.Queue = "." }, "queue"},
		"id with a colon":      {func(d *Definition) { d.ID = "a:b" }, "id"},
		"id with a line break": {func(d *Definition) { d.ID = "a\n" }, "id"},
		"no id":                {func(d *Definition) { d.ID = "" }, "id"},
		"namespace":            {func(d *Definition) { d.Namespace = "a/b" }, "namespace"},
		"no type":              {func(d *Definition) { d.Type = "" }, "type"},
		"type":                 {func(d *Definition) { d.Type = "a b" }, "type"},
		"queue":                {func(d *Definition) { d.Queue = "ä" }, "queue"},
		"payload too big":      {func(d *Definition) { d.Payload = json.RawMessage(`"` + strings.Repeat("x", PayloadLimit) + `"`) }, "payload"},
		"payload just deep enough": {func(d *Definition) {
			d.Payload = json.RawMessage(strings.Repeat("[", 100) + `"[[[\"[["` + strings.Repeat("]", 100))
		}, ""},
		"payload too deep":       {func(d *Definition) { d.Payload = json.RawMessage(strings.Repeat("[", 101) + strings.Repeat("]", 101)) }, "payload"},
		"payload not JSON":       {func(d *Definition) { d.Payload = json.RawMessage(`{`) }, "payload"},
		"payload not UTF-8":      {func(d *Definition) { d.Payload = json.RawMessage("\"\xff\"") }, "payload"},
		"run_at and delay":       {func(d *Definition) { d.RunAt, d.Delay = now, time.Second }, "delay"},
		"negative delay":         {func(d *Definition) { d.Delay = -time.Second }, "delay"},
		"delay below a ms":       {func(d *Definition) { d.Delay = time.Microsecond }, "delay"},
		"delay too long":         {func(d *Definition) { d.Delay = HorizonLimit + time.Second }, "delay"},
		"run_at too far":         {func(d *Definition) { d.RunAt = now.Add(HorizonLimit + time.Second) }, "run_at"},
		"run_at too long ago":    {func(d *Definition) { d.RunAt = time.UnixMilli(0) }, "run_at"},
		"negative timeout":       {func(d *Definition) { d.Timeout = -1 }, "timeout"},
		"timeout too long":       {func(d *Definition) { d.Timeout = TimeoutLimit + time.Second }, "timeout"},
		"retention too long":     {func(d *Definition) { d.Retention = RetentionLimit + time.Second }, "retention"},
		"max_attempts":           {func(d *Definition) { d.Retry.MaxAttempts = AttemptsLimit + 1 }, "retry.max_attempts"},
		"negative max_elapsed":   {func(d *Definition) { d.Retry.MaxElapsed = -time.Second }, "retry.max_elapsed"},
		"negative max_attempts":  {func(d *Definition) { d.Retry.MaxAttempts = -1 }, "retry.max_attempts"},
		"delays and backoff":     {func(d *Definition) { d.Retry = Retry{Delays: []time.Duration{1e9}, Backoff: Backoff{Factor: 2}} }, "retry.delays"},
		"negative delay in list": {func(d *Definition) { d.Retry.Delays = []time.Duration{1e9, -1e9} }, "retry.delays[1]"},
		"factor":                 {func(d *Definition) { d.Retry.Backoff.Factor = 0.5 }, "retry.backoff.factor"},
		"jitter over 1":          {func(d *Definition) { d.Retry.Backoff.Jitter = &over }, "retry.backoff.jitter"},
		"jitter under 0":         {func(d *Definition) { d.Retry.Backoff.Jitter = &under }, "retry.backoff.jitter"},
		"max less than initial":  {func(d *Definition) { d.Retry.Backoff.Max = time.Millisecond }, "retry.backoff.max"},
		"owner too long":         {func(d *Definition) { d.Owner = strings.Repeat("x", OwnerLimit+1) }, "owner"},
		"owner not UTF-8":        {func(d *Definition) { d.Owner = "\xff" }, "owner"},
		"label without a name":   {func(d *Definition) { d.Labels = map[string]string{"": "x"} }, "labels"},
		"label's value too long": {func(d *Definition) { d.Labels = map[string]string{"x": strings.Repeat("x", LabelLimit+1)} }, "labels.x"},
	} {
		t.Run(name, func(t *testing.T) {
			d := valid()
			c.change(&d)
			err := d.Normalize().Validate(now)
			var bad *Error
			switch {
			case c.field == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.field != "" && (!errors.As(err, &bad) || bad.Code != CodeInvalid || bad.Field != c.field || bad.Message == ""):
				t.Errorf("got %v, want field %q", err, c.field)
			}
		})
	}
}

func TestValidateRef_AcceptsTheTaskOfATick(t *testing.T) {
	for id, good := range map[string]bool{
		"a": true, "a@20260102T150405Z": true, "a@20260102T150405.250Z": true, "a@e1": true,
		"a@20260102T150405Z@e1@e2": true, "": false, "@x": false, "a@": false, "a@b@c": false, "a b": false,
	} {
		if err := ValidateRef(Ref{Namespace: "default", ID: id}); (err == nil) != good {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestRetry_TheBackoffGrowsWithinItsBoundsAndJitters(t *testing.T) {
	half := 0.5
	r := Retry{Backoff: Backoff{Initial: time.Second, Factor: 3, Max: 20 * time.Second, Jitter: &half}}
	for _, c := range []struct {
		n      int
		random float64
		want   time.Duration
	}{
		{1, 0.5, time.Second}, {2, 0.5, 3 * time.Second}, {3, 0.5, 9 * time.Second}, {4, 0.5, 20 * time.Second}, {1000, 0.5, 20 * time.Second},
		{2, 0, 1500 * time.Millisecond}, {2, 0.75, 3750 * time.Millisecond},
	} {
		if got := r.after(c.n, c.random); got != c.want {
			t.Errorf("after attempt %d, random %g: %s, want %s", c.n, c.random, got, c.want)
		}
	}
}

// The bounds are those of ADR 31.
func TestPolicy_DefaultsOutlastAnOutage(t *testing.T) {
	patient := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}
	of := func(kind string, r Retry) Task { return Task{Definition: Definition{Type: kind, Retry: r}} }
	brief := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}
	for name, c := range map[string]struct {
		task        Task
		attempts    int
		first       []time.Duration // the longest of the first waits, without jitter
		least, most float64         // a wait as a share of its length, with the least and the greatest random number
		all         time.Duration   // all waits, without jitter
	}{
		"http":            {of("http", Retry{}), 25, patient, 0, 1, 47_295 * time.Second},
		"a Go type":       {of("mail:send", Retry{}), 25, patient, 0, 1, 47_295 * time.Second},
		"commands":        {of("shell", Retry{}), 4, brief, 0.9, 1.1, 7 * time.Second},
		"of before":       {Task{Definition: Definition{Type: "http"}, Earlier: true}, 4, brief, 0.9, 1.1, 7 * time.Second},
		"a number":        {of("http", Retry{MaxAttempts: 3}), 3, patient[:2], 0, 1, 3 * time.Second},
		"a longest wait":  {of("http", Retry{Backoff: Backoff{Max: time.Second}}), 25, patient[:1], 0, 1, 24 * time.Second},
		"a first of 20 s": {of("shell", Retry{Backoff: Backoff{Initial: 20 * time.Second}}), 4, nil, 0.9, 1.1, 140 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			policy := c.task.Policy()
			if policy.MaxAttempts != c.attempts {
				t.Errorf("%d attempts, want %d", policy.MaxAttempts, c.attempts)
			}
			full := policy // without jitter
			full.Backoff.Jitter = new(float64)
			all := time.Duration(0)
			for n := 1; n < c.attempts; n++ {
				wait := full.after(n, 0.5)
				all += wait
				if n <= len(c.first) && wait != c.first[n-1] {
					t.Errorf("after attempt %d it waits %s at most, want %s", n, wait, c.first[n-1])
				}
				for random, share := range map[float64]float64{0: c.least, 0.999_999_999: c.most} {
					want := time.Duration(share * float64(wait)).Round(time.Millisecond)
					if got := policy.after(n, random); got != want {
						t.Errorf("after attempt %d, random %g: %s, want %s", n, random, got, want)
					}
				}
			}
			if all != c.all {
				t.Errorf("all waits are %s, want %s", all, c.all)
			}
		})
	}
}

func TestTask_MakesRoomForTheNextTickByDefault(t *testing.T) {
	const id = "a@20260102T150405Z"
	of := func(id string, r Retry) Task { return Task{Definition: Definition{Ref: Ref{ID: id}, Retry: r}} }
	for name, c := range map[string]struct {
		task Task
		want bool
	}{
		"a tick":        {of(id, Retry{}), true},
		"a command's":   {Task{Definition: Definition{Ref: Ref{ID: id}, Type: "shell"}}, true},
		"no tick":       {of("a", Retry{}), false},
		"with attempts": {of(id, Retry{MaxAttempts: 25}), false},
		"with a time":   {of(id, Retry{MaxElapsed: time.Hour}), false},
		"with delays":   {of(id, Retry{Delays: []time.Duration{1}}), false},
		"with a jitter": {of(id, Retry{Backoff: Backoff{Jitter: new(float64)}}), false},
		"of before":     {Task{Definition: Definition{Ref: Ref{ID: id}}, Earlier: true}, false},
	} {
		if got := c.task.MustEndBeforeTick(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestRetry_AListOfDelaysSetsAttemptsAndWaits(t *testing.T) {
	r := Retry{Delays: []time.Duration{time.Minute, 5 * time.Minute}}
	if got := r.resolved(Retry{MaxAttempts: 9}); got.MaxAttempts != 3 {
		t.Errorf("%d attempts, want one more than there are delays", got.MaxAttempts)
	}
	for n, want := range map[int]time.Duration{1: time.Minute, 2: 5 * time.Minute, 3: 5 * time.Minute} {
		if got := r.after(n, 0.9); got != want {
			t.Errorf("after attempt %d: %s, want %s", n, got, want)
		}
	}
	r.MaxAttempts = 2
	if got := r.resolved(Retry{MaxAttempts: 9}); got.MaxAttempts != 2 {
		t.Errorf("max_attempts counts for more than the list: %d", got.MaxAttempts)
	}
}

func TestNextAttempt_FollowsThePolicy(t *testing.T) {
	ended := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	policy := Definition{Retry: Retry{MaxAttempts: 3, Delays: []time.Duration{time.Minute, time.Hour}}}
	bounded := func(limit time.Duration) Task { // first due a minute before the attempt ended
		return Task{
			Definition: Definition{Retry: Retry{MaxAttempts: 3, MaxElapsed: limit, Delays: policy.Retry.Delays}},
			Attempt:    1, MaxAttempts: 3, DueAt: ended.Add(-time.Minute),
		}
	}
	again := bounded(2 * time.Minute)
	again.Attempt, again.FirstDueAt, again.DueAt = 2, again.DueAt, ended
	for _, c := range []struct {
		name    string
		task    Task
		outcome Outcome
		wait    time.Duration
		ok      bool
		least   time.Duration
	}{
		{"after the first", Task{Definition: policy, Attempt: 1, MaxAttempts: 3}, OutcomeFailed, time.Minute, true, 0},
		{"after the second", Task{Definition: policy, Attempt: 2, MaxAttempts: 3}, OutcomeTimeout, time.Hour, true, 0},
		{"after the last", Task{Definition: policy, Attempt: 3, MaxAttempts: 3}, OutcomeFailed, 0, false, 0},
		{"at once after a loss", Task{Definition: policy, Attempt: 2, MaxAttempts: 3}, OutcomeLost, 0, true, 0},
		{"after the loss of the last", Task{Definition: policy, Attempt: 3, MaxAttempts: 3}, OutcomeLost, 0, false, 0},
		{"just within max_elapsed", bounded(2 * time.Minute), OutcomeFailed, time.Minute, true, 0},
		{"just beyond max_elapsed", bounded(2*time.Minute - 1), OutcomeFailed, 0, false, 0},
		{"beyond max_elapsed since the first", again, OutcomeFailed, 0, false, 0},
		{"lost within max_elapsed", bounded(time.Minute), OutcomeLost, 0, true, 0},
		{"lost beyond max_elapsed", bounded(time.Second), OutcomeLost, 0, false, 0},
		{"anew when it was retried by hand", Task{Definition: policy, Attempt: 4, MaxAttempts: 6}, OutcomeFailed, time.Minute, true, 0},
		{"not before the time that was asked for", Task{Definition: policy, Attempt: 1, MaxAttempts: 3}, OutcomeFailed, 5 * time.Minute, true, 5 * time.Minute},
		{"not before the policy allows it", Task{Definition: policy, Attempt: 1, MaxAttempts: 3}, OutcomeFailed, time.Minute, true, time.Second},
		{"after the longest wait at most", Task{Definition: policy, Attempt: 1, MaxAttempts: 3}, OutcomeFailed, BackoffLimit, true, 2 * BackoffLimit},
		{"asked to wait beyond max_elapsed", bounded(2 * time.Minute), OutcomeFailed, 0, false, 5 * time.Minute},
		{"at once after an interruption", Task{Definition: policy, Attempt: 2, MaxAttempts: 3}, OutcomeInterrupted, 0, true, 0},
		{"at once after a loss, whatever was asked for", Task{Definition: policy, Attempt: 1, MaxAttempts: 3}, OutcomeLost, 0, true, time.Minute},
	} {
		due, ok := c.task.NextAttempt(c.outcome, ended, c.least, 0)
		if ok != c.ok || ok && !due.Equal(ended.Add(c.wait)) {
			t.Errorf("%s: %s, %v; want %s after the end, %v", c.name, due, ok, c.wait, c.ok)
		}
	}
}

func TestSnooze_IsBoundedByTimeAndNumber(t *testing.T) {
	ended := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	task := func(attempt int, since time.Duration, r Retry) Task {
		due := ended.Add(-since)
		return Task{Definition: Definition{Retry: r}, Attempt: attempt, MaxAttempts: max(attempt, 25), FirstDueAt: due}
	}
	for name, c := range map[string]struct {
		task Task
		wait time.Duration
		want bool
	}{
		"the first":               {task(1, 0, Retry{}), time.Minute, true},
		"the last":                {task(25, time.Hour, Retry{}), time.Minute, true},
		"at most once":            {task(1, 0, Retry{MaxAttempts: 1}), time.Minute, false},
		"one of two":              {task(2, 0, Retry{MaxAttempts: 2}), time.Minute, true},
		"no wait":                 {task(1, 0, Retry{}), 0, false},
		"just within a day":       {task(1, 23*time.Hour, Retry{}), time.Hour, true},
		"just beyond a day":       {task(1, 23*time.Hour, Retry{}), time.Hour + time.Millisecond, false},
		"just within max_elapsed": {task(1, 47*time.Hour, Retry{MaxElapsed: 48 * time.Hour}), time.Hour, true},
		"beyond max_elapsed":      {task(1, time.Minute, Retry{MaxElapsed: time.Hour}), time.Hour, false},
		"up to attempt 1,000":     {task(999, time.Hour, Retry{}), time.Second, true},
		"from attempt 1,000 on":   {task(1000, time.Hour, Retry{}), time.Second, false},
	} {
		due, ok := c.task.Snooze(ended, c.wait, 0)
		if ok != c.want || ok && !due.Equal(ended.Add(c.wait)) {
			t.Errorf("%s: %s, %v; want %v", name, due, ok, c.want)
		}
	}
}

// Tasks that were turned away together must not come back together, nor before the time that their target named.
func TestRetry_SpreadsWhatWasToldTheSameTime(t *testing.T) {
	t.Parallel()
	ended := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	of := func(r Retry) Task {
		return Task{Definition: Definition{Retry: r}, Attempt: 1, MaxAttempts: 25, FirstDueAt: ended}
	}
	jitter := func(share float64) Task { return of(Retry{Backoff: Backoff{Jitter: &share}}) }
	earlier := Task{Attempt: 1, MaxAttempts: 4, FirstDueAt: ended, Earlier: true}
	const longer = 66 * time.Minute
	for name, c := range map[string]struct {
		task    Task
		wait    time.Duration
		longest time.Duration // the next attempt is due later than the least wait, up to this
		snoozed time.Duration // the same for a snoozed one
	}{
		"the default":       {of(Retry{}), time.Hour, longer, longer},
		"a list of delays":  {of(Retry{Delays: []time.Duration{1, 1}}), time.Hour, longer, longer},
		"a jitter":          {jitter(0.5), time.Hour, 90 * time.Minute, 90 * time.Minute},
		"no jitter":         {jitter(0), time.Hour, time.Hour, time.Hour},
		"almost a day":      {of(Retry{}), 23 * time.Hour, 23*time.Hour + 138*time.Minute, 24 * time.Hour},
		"the longest wait":  {of(Retry{MaxElapsed: 2 * BackoffLimit}), BackoffLimit, BackoffLimit, BackoffLimit},
		"a task of before":  {earlier, time.Hour, longer, longer},
		"less than backoff": {of(Retry{}), 100 * time.Millisecond, time.Second, 110 * time.Millisecond},
		"no whole ms":       {jitter(0), time.Hour + time.Microsecond, time.Hour, time.Hour},
	} {
		const almost = 1 - 1e-9
		for random, want := range map[float64][2]time.Duration{0: {c.wait, c.wait}, almost: {c.longest, c.snoozed}} {
			next, again := c.task.NextAttempt(OutcomeFailed, ended, c.wait, random)
			later, ok := c.task.Snooze(ended, c.wait, random)
			got := [2]time.Duration{next.Sub(ended), later.Sub(ended)}
			want = [2]time.Duration{want[0].Round(time.Millisecond), want[1].Round(time.Millisecond)}
			if !again || !ok || got != want {
				t.Errorf("%s, with %g drawn: it waits %v, want %v", name, random, got, want)
			}
		}
	}
}

func TestDefinition_OmittedFieldsHaveDefaults(t *testing.T) {
	d := Definition{}
	if d.EffectiveRetention(Succeeded) != 24*time.Hour || d.EffectiveRetention(Failed) != 7*24*time.Hour {
		t.Error("dead letters are kept for a week, the others for a day")
	}
	d.Retention = time.Minute
	if d.EffectiveRetention(Failed) != time.Minute {
		t.Error("a task's own retention counts")
	}
}

func TestState_OnlyFinalOnesExpire(t *testing.T) {
	for _, s := range States {
		_, expires := Next(s, ActExpire)
		if expires != s.Final() {
			t.Errorf("%s: final %v, expires %v", s, s.Final(), expires)
		}
		if !s.Valid() {
			t.Errorf("%s is not valid", s)
		}
	}
	if None.Valid() || State("done").Valid() {
		t.Error("what is no state is valid")
	}
}

func FuzzParseDelivery(f *testing.F) {
	for _, s := range []string{"default:a:1", "default:a@20260102T150405Z:12", "::", "a:b", "a:b:c", "a:b:0", "a:b:-1", ":", "a:b:c:1", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, attempt, err := ParseDelivery(s)
		if err != nil {
			return
		}
		again := Delivery{Ref: ref, Attempt: attempt}.String()
		ref2, attempt2, err := ParseDelivery(again)
		if err != nil || ref2 != ref || attempt2 != attempt {
			t.Errorf("%q -> %q -> %v %d %v", s, again, ref2, attempt2, err)
		}
	})
}

func FuzzDefinition(f *testing.F) {
	f.Add("id", "ns", "http", "q", []byte(`{"a": 1}`), int64(1000), int64(0))
	f.Fuzz(func(t *testing.T, id, namespace, taskType, queue string, payload []byte, delay, runAt int64) {
		d := Definition{Ref: Ref{Namespace: namespace, ID: id}, Type: taskType, Queue: queue, Payload: payload, Delay: time.Duration(delay)}
		if runAt != 0 {
			d.RunAt = time.UnixMilli(runAt % (1 << 45))
		}
		d = d.Normalize()
		if d.Validate(time.UnixMilli(1_790_000_000_000)) != nil {
			return
		}
		if strings.ContainsAny(d.Ref.String(), " \n\"\\") || strings.Count(d.Ref.String(), ":") != 1 {
			t.Errorf("%q is no name for a key", d.Ref)
		}
		if !json.Valid(d.Payload) || strings.Contains(string(d.Payload), "\n") {
			t.Errorf("payload %q", d.Payload)
		}
	})
}

func TestCompactCheckpoint_BoundsNesting(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if _, err := CompactCheckpoint(nested(DepthLimit)); err != nil {
		t.Errorf("%d levels: %v", DepthLimit, err)
	}
	_, err := CompactCheckpoint(nested(DepthLimit + 1))
	var invalid *Error
	if !errors.As(err, &invalid) || invalid.Field != "checkpoint" {
		t.Errorf("one more: %v", err)
	}
}
