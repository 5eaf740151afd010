package rules_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/rules"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func nameOf(t *testing.T, text string) limit.Name {
	t.Helper()
	n, err := limit.ParseName(text)
	testkit.Must(t, err)
	return n
}

func set(t *testing.T, w *storetest.World, name string, r limit.Rule) rules.Entry {
	t.Helper()
	e, err := w.Rules.Set(w.Ctx, rules.Entry{Name: nameOf(t, name), Rule: r, By: "ann", Note: "a note"})
	testkit.Must(t, err)
	return e
}

func TestSet_WritesWhatAllReads(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	want := []rules.Entry{
		set(t, w, "key:*", limit.Rule{Slots: 1, Paused: limit.UntilResumed}),
		set(t, w, "key:a", limit.Rule{Rate: 5, Per: time.Minute, Burst: 9}),
		set(t, w, "all", limit.Rule{Slots: 1_000_000}),
	}
	got, now, err := w.Rules.All(w.Ctx)
	testkit.Must(t, err)
	toTheMs := cmp.Comparer(func(a, b time.Time) bool { return a.UnixMilli() == b.UnixMilli() })
	if diff := cmp.Diff(want, got, toTheMs); diff != "" {
		t.Error(diff)
	}
	if age := now.Sub(got[0].At); age < 0 || age > testkit.Limit {
		t.Errorf("it was set %s ago", age)
	}
	if _, err := w.Rules.Set(w.Ctx, rules.Entry{Name: nameOf(t, "all")}); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("a limit that allows everything: %v", err)
	}
}

func TestAll_LeavesOutWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	set(t, w, "all", limit.Rule{Slots: 1})
	testkit.Must(t, w.DB.HSet(w.Ctx, string(w.Keys.Rules()), "nobody", `{"slots":1}`, "key:a", "5").Err())
	ctx, left := redisx.LeavingOut(w.Ctx)
	got, _, err := w.Rules.All(ctx)
	if err != nil || len(got) != 1 || len(left.Texts()) != 2 {
		t.Errorf("%+v, %v, %q", got, err, left.Texts())
	}
}

func TestSet_RefusesOneTooMany(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	fields := make(map[string]string)
	for i := range limit.Most {
		fields[fmt.Sprint("key:", i)] = `{"slots":1}`
	}
	testkit.Must(t, w.DB.HSet(w.Ctx, string(w.Keys.Rules()), fields).Err())
	var invalid *task.Error
	_, err := w.Rules.Set(w.Ctx, rules.Entry{Name: nameOf(t, "all"), Rule: limit.Rule{Slots: 1}})
	if !errors.As(err, &invalid) || invalid.Field != "name" {
		t.Errorf("one more: %v", err)
	}
	set(t, w, "key:0", limit.Rule{Slots: 2})
}

// Somebody else changes the limit between the reading and the writing.
func TestChange_DecidesByWhatItReplaces(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	all := nameOf(t, "all")
	calls := 0
	got, err := w.Rules.Change(w.Ctx, all, "bob", func(e rules.Entry, _ time.Time) (rules.Entry, error) {
		if calls++; calls <= 2 {
			set(t, w, "all", limit.Rule{Slots: calls, Paused: time.Unix(int64(calls), 0)})
		}
		e.Rule.Slots = 7
		return e, nil
	})
	want := limit.Rule{Slots: 7, Paused: time.Unix(2, 0).UTC()}
	if err != nil || calls != 3 || got.Rule != want || got.By != "bob" || got.Name != all {
		t.Errorf("after %d calls %+v, %v", calls, got, err)
	}
	if entries, _, err := w.Rules.All(w.Ctx); err != nil || entries[0].Rule != want {
		t.Errorf("%+v, %v", entries, err)
	}
	_, err = w.Rules.Change(w.Ctx, all, "", func(e rules.Entry, _ time.Time) (rules.Entry, error) {
		calls++
		set(t, w, "all", limit.Rule{Slots: 100 + calls})
		e.Rule.Slots = 8
		return e, nil
	})
	if task.CodeOf(err) != task.CodeUnavailable {
		t.Errorf("a limit that changes all the time: %v", err)
	}
}

func TestChange_DeletesALimitWithoutARule(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	set(t, w, "all", limit.Rule{Slots: 1})
	lift := func(e rules.Entry, _ time.Time) (rules.Entry, error) { e.Rule = limit.Rule{}; return e, nil }
	for range 2 {
		_, err := w.Rules.Change(w.Ctx, nameOf(t, "all"), "", lift)
		testkit.Must(t, err)
	}
	if entries, _, err := w.Rules.All(w.Ctx); err != nil || len(entries) > 0 {
		t.Errorf("%+v, %v", entries, err)
	}
}

// claim claims tasks of a partition, with so many slots of limits.
func claim(t *testing.T, w *storetest.World, p int, of limit.Rules, slots map[string]int) {
	t.Helper()
	g := handover.Grant{Default: 1000, Limits: limit.NewTable(of)}
	for name, n := range slots {
		g.Slots = append(g.Slots, limit.Grant{Limit: name, Count: n, Tokens: -1})
	}
	_, err := w.Partitions.At(p).Lead(storetest.Fence).Claim(w.Ctx, 1000, g, time.Minute)
	testkit.Must(t, err)
}

func every(string) bool { return true }

func TestUse_CountsTasksInAllPartitions(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	of := limit.Rules{nameOf(t, "key:*"): {Slots: 3}, nameOf(t, "queue:mails"): {Slots: 3}}
	for p := range w.Partitions.Count() {
		for i := range 5 {
			w.Create(task.Definition{
				Ref: w.NameIn(p, "default", fmt.Sprint("a", i)), Type: "http", Queue: "mails", LimitKey: "a",
			})
		}
		w.Create(task.Definition{Ref: w.NameIn(p, "default", "b"), Type: "http", LimitKey: "b"})
		w.Create(task.Definition{Ref: w.NameIn(p, "default", "none"), Type: "http"})
		claim(t, w, p, of, map[string]int{"key:a": 2 + p, "queue:mails": 4})
	}
	uses, more, err := w.Rules.Use(w.Ctx, every)
	want := map[string]rules.Use{
		"key:a": {Held: 5, Waiting: 5}, "queue:mails": {Held: 5, Waiting: 5}, "key:b": {Waiting: 2},
	}
	if diff := cmp.Diff(want, uses); err != nil || more || diff != "" {
		t.Errorf("%v, %v, %s", err, more, diff)
	}
	uses, _, err = w.Rules.Use(w.Ctx, func(limit string) bool { return limit == "key:a" })
	if diff := cmp.Diff(map[string]rules.Use{"key:a": {Held: 5, Waiting: 5}}, uses); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
}

// Under a name with "*", all of its keys count. A limit that nobody uses is there, too.
func TestTotals_CountsTheKeysOfAName(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	of := limit.Rules{}
	for name, slots := range map[string]int{"key:*": 3, "key:a1": 1, "type:http": 9, "all": 2} {
		rule := limit.Rule{Slots: slots}
		if name == "type:http" {
			rule.Paused = limit.UntilResumed
		}
		set(t, w, name, rule)
		if name != "type:http" {
			of[nameOf(t, name)] = limit.Rule{Slots: slots}
		}
	}
	for i := range 4 {
		ref := w.NameIn(0, "default", fmt.Sprint("a", i))
		w.Create(task.Definition{Ref: ref, Type: "noop", LimitKey: fmt.Sprint("a", i)})
	}
	claim(t, w, 0, of, map[string]int{"key:a0": 1, "key:a1": 1, "key:a2": 1, "all": 2})
	totals, err := w.Rules.Totals(w.Ctx)
	testkit.Must(t, err)
	got := make(map[string]rules.Use)
	held := 0
	for _, total := range totals {
		got[total.Name.String()] = rules.Use{Waiting: total.Waiting + total.Held}
		if total.Paused != (total.Name.String() == "type:http") {
			t.Errorf("%s is paused: %v", total.Name, total.Paused)
		}
		held += total.Held
	}
	want := map[string]rules.Use{"key:*": {Waiting: 3}, "key:a1": {Waiting: 1}, "type:http": {}, "all": {Waiting: 4}}
	if diff := cmp.Diff(want, got); diff != "" || held != 4 {
		t.Errorf("%s; %d slots are held of two limits, want 4", diff, held)
	}
}

func TestUse_SaysThatThereIsMore(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	fill := func(from, to int) {
		fields := make(map[string]string)
		for i := from; i < to; i++ {
			fields[fmt.Sprint("key:", i)] = "1 1 0"
		}
		testkit.Must(t, w.DB.HSet(w.Ctx, string(w.Keys.Partition(1).Caps()), fields).Err())
	}
	fill(0, rules.UsesMost)
	if _, more, err := w.Rules.Use(w.Ctx, every); err != nil || more {
		t.Errorf("as many as are counted: %v, %v", more, err)
	}
	fill(rules.UsesMost, rules.UsesMost+1)
	if _, more, err := w.Rules.Use(w.Ctx, every); err != nil || !more {
		t.Errorf("one more: %v, %v", more, err)
	}
}

func TestUse_LeavesOutDamagedKeys(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	k := w.Keys.Partition(0)
	testkit.Must(t, w.DB.HSet(w.Ctx, string(k.Caps()), "key:a", "1 1 0").Err())
	testkit.Must(t, w.DB.Set(w.Ctx, string(k.Holds("key:a")), "x", 0).Err())
	if _, _, err := w.Rules.Use(w.Ctx, every); task.CodeOf(err) != task.CodeUnreadable {
		t.Errorf("%v", err)
	}
	ctx, left := redisx.LeavingOut(w.Ctx)
	if uses, _, err := w.Rules.Use(ctx, every); err != nil || len(uses) > 0 || len(left.Texts()) != 1 {
		t.Errorf("%v, %v, %q", uses, err, left.Texts())
	}
	ctx, cancel := context.WithCancel(w.Ctx)
	cancel()
	if _, _, err := w.Rules.Use(ctx, every); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
