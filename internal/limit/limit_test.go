package limit_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func name(t *testing.T, text string) limit.Name {
	t.Helper()
	n, err := limit.ParseName(text)
	testkit.Must(t, err)
	return n
}

func TestParseName(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"key:tenant-7", "key:*", "type:http", "queue:mails*", "namespace:reports", "all"} {
		if got := name(t, text).String(); got != text {
			t.Errorf("%s became %s", text, got)
		}
	}
	for _, text := range []string{"", "key", "key:", "all:x", "worker:a", "key:a b", "key:a*b", "key:**"} {
		if n, err := limit.ParseName(text); task.CodeOf(err) != task.CodeInvalid {
			t.Errorf("%q became %v, %v", text, n, err)
		}
	}
}

func TestRule_Validate(t *testing.T) {
	t.Parallel()
	for _, r := range []limit.Rule{
		{Slots: 1}, {Rate: 5, Per: time.Minute}, {Rate: 5, Per: time.Hour, Burst: 9, Slots: 2}, {Paused: time.Unix(1, 0)},
	} {
		testkit.Must(t, r.Validate())
	}
	for field, r := range map[string]limit.Rule{
		"slots": {Slots: -1}, "rate": {Rate: limit.RateLimit + 1, Per: time.Second}, "per": {Rate: 1, Per: 2 * time.Second},
		"burst": {Slots: 1, Burst: 2},
	} {
		var invalid *task.Error
		if err := r.Validate(); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%+v: %v", r, err)
		}
	}
	const missing = "per: is left out beside a rate: give 1s, 1m or 1h"
	if err := (limit.Rule{Rate: 1}).Validate(); err == nil || err.Error() != missing {
		t.Errorf("a rate without a time: %v", err)
	}
	if err := (limit.Rule{}).Validate(); err == nil {
		t.Error("a rule that allows everything")
	}
}

// The narrowest limit comes first, so that leaders cannot wait for each other in a circle. The longest name counts.
func TestRules_Of(t *testing.T) {
	t.Parallel()
	rules := limit.Rules{}
	for i, text := range []string{
		"all", "namespace:*", "queue:mails", "type:h*", "key:tenant-*", "key:tenant-7", "key:t*", "queue:other",
	} {
		rules[name(t, text)] = limit.Rule{Slots: i + 1}
	}
	s := limit.Subject{Keys: []string{"tenant-8", "tenant-7", "x"}, Type: "http", Queue: "mails", Namespace: "default"}
	var got []string
	for _, n := range rules.Of(s) {
		got = append(got, n.String())
	}
	want := []string{"key:tenant-7", "key:tenant-8", "type:http", "queue:mails", "namespace:default", "all"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for text, slots := range map[string]int{"key:tenant-7": 6, "key:tenant-8": 5, "key:tea": 7, "queue:mails": 3} {
		if rule, is := rules.For(name(t, text)); !is || rule.Slots != slots {
			t.Errorf("%s has %d slots, want %d", text, rule.Slots, slots)
		}
	}
}

// In no window does a bucket give more than its size and what flows in meanwhile, and it gives that much.
func TestBucket_Take(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		r := limit.Rule{Rate: 1 + random.IntN(50), Per: time.Minute, Burst: random.IntN(80)}
		size := max(r.Burst, 1)
		if r.Burst == 0 {
			size = r.Rate
		}
		each := r.Per / time.Duration(r.Rate)
		var b limit.Bucket
		start := time.UnixMilli(1e12)
		now, tokens := start, time.Duration(size)*each // the oracle counts the parts of tokens that are there
		for range 300 {
			pass := time.Duration(random.Int64N(int64(3 * each)))
			now, tokens = now.Add(pass), min(tokens+pass, time.Duration(size)*each)
			want := random.IntN(6)
			took, next := b.Take(r, now, want)
			if expected := min(want, int(tokens/each)); took != expected {
				t.Fatalf("%+v: it took %d of %d, the oracle %d", r, took, want, expected)
			}
			tokens -= time.Duration(took) * each
			if (tokens >= each) != next.IsZero() {
				t.Fatalf("%+v: it has %s left, and says that there is a further one at %s", r, tokens, next)
			}
			if !next.IsZero() && next.Sub(now) != each-tokens {
				t.Fatalf("%+v: a further one comes in %s, want %s", r, next.Sub(now), each-tokens)
			}
		}
	}
}
