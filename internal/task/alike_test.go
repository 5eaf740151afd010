package task

import (
	"encoding/json"
	"testing"
	"time"
)

func TestAlike_ComparesValuesAndDefaults(t *testing.T) {
	t.Parallel()
	types := Types{"shell": {Timeout: time.Minute}}
	alike := func(there Task, d Definition) bool {
		return types.AlikeBesides(there, d) && SamePayload(there.Payload)(d.Payload)
	}
	base := func() Definition {
		return Definition{
			Ref: Ref{Namespace: "default", ID: "a"}, Type: "shell", Payload: json.RawMessage(`{"a":1,"b":{"c":[1,2],"d":"<"}}`),
		}
	}
	defaults := Task{Definition: base()}.Policy()
	payload := func(text string) func(*Definition) {
		return func(d *Definition) { d.Payload = json.RawMessage(text) }
	}
	for name, c := range map[string]struct {
		change func(*Definition)
		want   bool
	}{
		"nothing":               {func(*Definition) {}, true},
		"order of members":      {payload(`{"b":{"d":"<","c":[1,2]},"a":1}`), true},
		"blanks":                {payload(` { "a" : 1 , "b" : {"c":[1, 2],"d":"<"} } `), true},
		"escapes":               {payload(`{"\u0061":1,"b":{"c":[1,2],"d":"\u003c"}}`), true},
		"a member with a digit": {payload(`{"a":1.0,"b":{"c":[1.00,2],"d":"<"}}`), true},
		"an exponent":           {payload(`{"a":10e-1,"b":{"c":[1,0.02E+2],"d":"<"}}`), true},
		"default queue":         {func(d *Definition) { d.Queue = DefaultQueue }, true},
		"default timeout":       {func(d *Definition) { d.Timeout = time.Minute }, true},
		"default attempts":      {func(d *Definition) { d.Retry.MaxAttempts = defaults.MaxAttempts }, true},
		"default backoff":       {func(d *Definition) { d.Retry.Backoff = defaults.Backoff }, true},
		"part of the backoff":   {func(d *Definition) { d.Retry.Backoff.Factor = defaults.Backoff.Factor }, true},
		"empty labels":          {func(d *Definition) { d.Labels = map[string]string{} }, true},
		"order of a list":       {payload(`{"a":1,"b":{"c":[2,1],"d":"<"}}`), false},
		"another number":        {payload(`{"a":2,"b":{"c":[1,2],"d":"<"}}`), false},
		"a text for a number":   {payload(`{"a":"1","b":{"c":[1,2],"d":"<"}}`), false},
		"one member more":       {payload(`{"a":1,"b":{"c":[1,2],"d":"<"},"e":null}`), false},
		"no payload":            {payload(""), false},
		"another timeout":       {func(d *Definition) { d.Timeout = DefaultTimeout }, false},
		"more attempts":         {func(d *Definition) { d.Retry.MaxAttempts = defaults.MaxAttempts + 1 }, false},
		"no jitter":             {func(d *Definition) { d.Retry.Backoff.Jitter = new(0.0) }, false},
		"a label":               {func(d *Definition) { d.Labels = map[string]string{"a": ""} }, false},
		"a retention":           {func(d *Definition) { d.Retention = DefaultRetention }, false}, // failed ones stay longer
		"a delay":               {func(d *Definition) { d.Delay = time.Second }, false},
		"a time":                {func(d *Definition) { d.RunAt = time.Unix(1, 0) }, false},
		"another id":            {func(d *Definition) { d.ID = "b" }, false},
		"delays for a backoff":  {func(d *Definition) { d.Retry.Delays = []time.Duration{time.Second} }, false},
		"a number beyond 2^53":  {payload(`{"a":9007199254740993,"b":{"c":[1,2],"d":"<"}}`), false},
	} {
		d := base()
		c.change(&d)
		if got := alike(Task{Definition: base()}, d); got != c.want {
			t.Errorf("%s: alike %t, want %t", name, got, c.want)
		}
		if back := alike(Task{Definition: d}, base()); back != c.want {
			t.Errorf("%s, the other way round: alike %t, want %t", name, back, c.want)
		}
	}
	at := time.Unix(1, 5e6)
	one, other := base(), base()
	one.RunAt, other.RunAt = at.UTC(), at.In(time.FixedZone("CET", 3600))
	if !alike(Task{Definition: one}, other) {
		t.Error("the same time in another zone is another task")
	}
	old, spelledOut := Task{Definition: base(), Earlier: true}, base()
	old.Type, spelledOut.Type, spelledOut.Retry.MaxAttempts = "http", "http", CommandMaxAttempts
	if !alike(old, spelledOut) || alike(Task{Definition: old.Definition}, spelledOut) {
		t.Error("it takes the defaults of one time for those of another")
	}
}

func TestSamePayload_ComparesNumbersByValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		one, other string
		want       bool
	}{
		{"0", "-0.0e9", true},
		{"100", "1e2", true},
		{"-0.25", "-25E-2", true},
		{"9007199254740993", "9007199254740993.0", true},
		{"9007199254740993", "9007199254740992", false},
		{"1", "-1", false},
		{"1", "10", false},
		{"1", "0.1", false},
		{"1", `"1"`, false},
		{"1e99999999999", "1e99999999999", true},
		{"1e99999999999", "1e99999999998", false},
		{"1e99999999999", "0", false},
	} {
		wrap := func(n string) json.RawMessage { return json.RawMessage(`[{"a": ` + n + `}]`) }
		if got := SamePayload(wrap(c.one))(wrap(c.other + " ")); got != c.want {
			t.Errorf("%s and %s: the same %t, want %t", c.one, c.other, got, c.want)
		}
	}
}
