package rules_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/store/rules"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// pauseKey pauses the key a, and returns its limit and how long its pause lasts.
func pauseKey(t *testing.T, w *storetest.World, lasts time.Duration) (rules.Entry, time.Duration) {
	t.Helper()
	p := rules.KeyPause{Keys: []string{"a"}, For: lasts, By: "task t", Note: "HTTP 429"}
	testkit.Must(t, w.Rules.PauseKeys(w.Ctx, p))
	entries, now, err := w.Rules.All(w.Ctx)
	testkit.Must(t, err)
	for _, e := range entries {
		if e.Name == nameOf(t, "key:a") {
			return e, e.Rule.Paused.Sub(now)
		}
	}
	return rules.Entry{}, 0
}

func TestPauseKeys_BoundsThePause(t *testing.T) {
	t.Parallel()
	for asked, want := range map[time.Duration]time.Duration{
		0: time.Second, 30 * time.Second: 30 * time.Second, 25 * time.Hour: time.Hour,
	} {
		w := storetest.New(t)
		e, lasts := pauseKey(t, w, asked)
		if lasts > want || lasts < want-500*time.Millisecond || e.By != "task t" || e.Note != "HTTP 429" {
			t.Errorf("a pause of %s lasts %s: %+v", asked, lasts, e)
		}
	}
}

func TestPauseKeys_ShortensNoPause(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"key:a", "key:*"} {
		w := storetest.New(t)
		_, now, err := w.Rules.All(w.Ctx)
		testkit.Must(t, err)
		until := now.Add(10 * time.Minute).UTC().Truncate(time.Millisecond)
		set(t, w, name, limit.Rule{Slots: 3, Paused: until})
		if _, lasts := pauseKey(t, w, time.Minute); lasts != 0 && lasts < 9*time.Minute {
			t.Errorf("the pause of %s became one of %s", name, lasts)
		}
		e, lasts := pauseKey(t, w, time.Hour)
		if lasts < 50*time.Minute || e.Rule.Slots != 3 || e.Ends != (name == "key:*") {
			t.Errorf("a longer pause than that of %s lasts %s: %+v", name, lasts, e)
		}
	}
}

// Tasks that pause many keys leave room for the limits that people set.
func TestPauseKeys_LeavesRoomForOtherLimits(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	_, now, err := w.Rules.All(w.Ctx)
	testkit.Must(t, err)
	text := fmt.Sprintf(`{"paused":%d,"ends":true}`, now.Add(time.Hour).UnixMilli())
	key := string(w.Layout.Keys.Rules())
	for i := range rules.PausesMost {
		testkit.Must(t, w.DB.HSet(w.Ctx, key, fmt.Sprint("key:k", i), text).Err())
	}
	p := rules.KeyPause{Keys: []string{"a"}, For: time.Minute}
	if err := w.Rules.PauseKeys(w.Ctx, p); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("a further key was paused: %v", err)
	}
	p.Keys, p.For = []string{"k1"}, time.Hour
	testkit.Must(t, w.Rules.PauseKeys(w.Ctx, p)) // it has a limit already
	set(t, w, "key:a", limit.Rule{Slots: 1})
	p.Keys = []string{"a"}
	testkit.Must(t, w.Rules.PauseKeys(w.Ctx, p))
}

// A limit that was made for a pause allows what the limit allows that it stands before, and ends with its pause.
func TestPauseKeys_LeavesNoLimitBehind(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	rule := limit.Rule{Slots: 5, Rate: 100, Per: time.Minute}
	set(t, w, "key:*", rule)
	e, _ := pauseKey(t, w, time.Second)
	if got := e.Rule; !e.Ends || got.Slots != rule.Slots || got.Rate != rule.Rate || got.Per != rule.Per {
		t.Errorf("it is %+v", e)
	}
	key := string(w.Layout.Keys.Rules())
	testkit.Eventually(t, "the limit is none", func() bool {
		entries, _, err := w.Rules.All(w.Ctx)
		testkit.Must(t, err)
		return len(entries) == 1
	})
	if n := w.DB.HLen(w.Ctx, key).Val(); n != 2 {
		t.Errorf("Redis has %d limits before the sweep", n)
	}
	entries, _, err := w.Rules.Sweep(w.Ctx)
	if n := w.DB.HLen(w.Ctx, key).Val(); err != nil || len(entries) != 1 || n != 1 {
		t.Errorf("after the sweep, Redis has %d limits: %+v, %v", n, entries, err)
	}
	if again, _ := pauseKey(t, w, time.Minute); !again.Ends || again.Rule.Slots != 5 {
		t.Errorf("the next one is %+v", again)
	}
}

// A person's pause of a name without a limit of its own keeps what applied to it, ends, and is not shorter than the
// pause that applied.
func TestPause_KeepsWhatAppliedToTheName(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	pause := func(name string, lasts time.Duration) rules.Entry {
		t.Helper()
		testkit.Must(t, w.Rules.Pause(w.Ctx, nameOf(t, name), "ann", "why", func(now time.Time) (time.Time, error) {
			return now.Add(lasts), nil
		}))
		entries, _, err := w.Rules.All(w.Ctx)
		testkit.Must(t, err)
		return entries[slices.IndexFunc(entries, func(e rules.Entry) bool { return e.Name == nameOf(t, name) })]
	}
	set(t, w, "key:*", limit.Rule{Slots: 5})
	set(t, w, "key:own", limit.Rule{Slots: 7})
	set(t, w, "type:*", limit.Rule{Slots: 9, Paused: limit.UntilResumed})
	for name, want := range map[string]struct {
		slots        int
		ends, longer bool
	}{
		"key:a": {slots: 5, ends: true}, "key:own": {slots: 7}, "queue:q": {ends: true},
		"type:http": {slots: 9, ends: true, longer: true},
	} {
		e := pause(name, time.Hour)
		longer := e.Rule.Paused.Equal(limit.UntilResumed)
		named := e.Pauser == "ann" && e.Note == "why"
		if e.Rule.Slots != want.slots || e.Ends != want.ends || longer != want.longer || !named {
			t.Errorf("%s is %+v, want %+v", name, e, want)
		}
	}
	if e := pause("type:http", time.Minute); !e.Ends || e.Rule.Paused.Equal(limit.UntilResumed) {
		t.Errorf("a second pause does not replace the first: %+v", e)
	}
}
