package web

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// limits sets limits of which tasks hold slots, or wait.
func (w *world) limits() {
	w.t.Helper()
	testkit.Must(w.t, w.store.Advance(w.ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
	w.setLimit("key:*", control.LimitRule{Slots: 5})
	w.setLimit("queue:mails", control.LimitRule{Rate: 100, Per: time.Minute, Burst: 20})
}

func (w *world) setLimit(name string, rule control.LimitRule) {
	w.t.Helper()
	_, err := w.control.SetLimit(w.ctx, me, name, control.LimitPut{Rule: rule})
	testkit.Must(w.t, err)
}

// limit is a limit as the API shows it.
func (w *world) limit(name string) control.LimitInfo {
	w.t.Helper()
	l, err := w.control.GetLimit(w.ctx, me, name)
	testkit.Must(w.t, err)
	return l
}

// hasLimit reports whether there is a limit.
func (w *world) hasLimit(name string) bool {
	_, err := w.control.GetLimit(w.ctx, me, name)
	return err == nil
}

// claimUnderLimits does what claim does, with two slots in each partition of each limit that is not paused, and one of
// each of some further names.
func (w *world) claimUnderLimits(further ...string) {
	w.t.Helper()
	entries, now, err := w.store.Rules.All(w.ctx)
	testkit.Must(w.t, err)
	all, grant := limit.Rules{}, handover.Grant{Default: 100}
	for _, e := range entries {
		all[e.Name] = e.Rule
		if !e.Rule.Paused.After(now) {
			grant.Slots = append(grant.Slots, limit.Grant{Limit: e.Name.String(), Count: 2, Tokens: -1})
		}
	}
	for _, name := range further {
		grant.Slots = append(grant.Slots, limit.Grant{Limit: name, Count: 1, Tokens: -1})
	}
	grant.Limits = limit.NewTable(all)
	for p := range w.store.Partitions.Count() {
		_, err := w.store.Partitions.At(p).Lead(fence).Claim(w.ctx, 100, grant, time.Second)
		testkit.Must(w.t, err)
	}
}

// limited submits a task with a limit key.
func (w *world) limited(id, key string) {
	w.t.Helper()
	w.submit(id, func(d *task.Definition) { d.LimitKey = key })
}

func TestGolden_Limits(t *testing.T) {
	inWorld(t, func(w *world) {
		w.page("limits-none", "/limits", http.StatusOK) // no node has told that limits work
		w.limits()
		w.pass(2 * time.Second)
		pause := control.LimitPause{For: time.Hour, Note: "their <server> is down"}
		testkit.Must(t, w.control.PauseLimit(w.ctx, me, "key:tenant-7", pause))
		testkit.Must(t, w.control.PauseLimit(w.ctx, me, "all", control.LimitPause{}))
		w.setLimit("type:http", control.LimitRule{Slots: 2, Rate: 5, Per: time.Second})
		w.page("limits", "/limits", http.StatusOK)
		w.page("limit-paused", "/limits/key:tenant-7", http.StatusOK)
		w.page("limit", "/limits/type:http", http.StatusOK)
		w.page("limit-all", "/limits/key:*", http.StatusOK)
		w.page("limit-not-found", "/limits/key:tenant-8", http.StatusNotFound)
		w.page("limit_new", "/limits/new?name=key:tenant-8", http.StatusOK)
	})
}

func TestLimits_SayWhatHoldsTasksUp(t *testing.T) {
	t.Parallel()
	v := inEnglish(start)
	row := func(name string, slots, held, waiting int, paused bool) limitRow {
		return limitRowOf(control.LimitInfo{
			LimitUse: control.LimitUse{Name: name, Held: held, Waiting: waiting}, Rule: control.LimitRule{Slots: slots},
			Paused: paused, IsWildcard: strings.HasSuffix(name, "*"), Names: 2,
		})
	}
	const none = "<b>No limit is full or paused while its tasks wait.</b>"
	const one = `<b>One limit holds tasks up: <code dir="auto">all</code>.</b>`
	const four = `<b>4 limits hold tasks up: <code dir="auto">a</code>, <code dir="auto">b</code>, ` +
		`<code dir="auto">c</code>, and 1 more.</b>`
	keys := func(full ...string) limitRow {
		l := control.LimitInfo{
			LimitUse: control.LimitUse{Name: "key:*", Held: 9, Waiting: 9}, Rule: control.LimitRule{Slots: 2}, IsWildcard: true,
			Uses: []control.LimitUse{{Name: "key:free", Held: 1, Waiting: 3}, {Name: "key:idle", Held: 2}},
		}
		for _, name := range full {
			l.Uses = append(l.Uses, control.LimitUse{Name: name, Held: 2, Waiting: 1})
		}
		return limitRowOf(l)
	}
	const key = `<b>One limit holds tasks up: <code dir="auto">key:*</code> (<code dir="auto">key:a</code>).</b>`
	const others = `<b>One limit holds tasks up: <code dir="auto">key:*</code> ` +
		`(<code dir="auto">key:a</code> and others).</b>`
	for want, rows := range map[string][]limitRow{
		key:    {keys("key:a")},
		others: {keys("key:a", "key:b")},
		none: {
			row("all", 2, 2, 0, false), row("key:a", 2, 1, 3, false), row("key:*", 2, 4, 3, false), keys(),
			row("key:b", 0, 0, 0, true),
		},
		one: {row("all", 2, 2, 1, false), row("key:a", 2, 1, 3, false)},
		four: {
			row("a", 2, 2, 1, false), row("b", 0, 0, 1, true), row("c", 1, 1, 1, false), row("d", 1, 1, 1, false),
		},
	} {
		if got := string(v.limitsSentence(rows)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := row("key:*", 2, 4, 3, false).Slots(); got != 4 {
		t.Errorf("two names with two slots each have %d", got)
	}
}

// What the page of the forms of limits cannot read, or the API refuses, is said at the field.
func TestLimitForms_NameTheFieldAtFault(t *testing.T) {
	inWorld(t, func(w *world) {
		w.limits()
		refused := func(page, path, field, value, said string) {
			t.Helper()
			form := w.fill(page, "slots", "6")
			form.Set(field, value)
			w.expectRefused(path, form, said, `aria-describedby="w-`+field+`"`)
		}
		refused("/limits/new", "/limits/new", "name", "tenant-7", "must be key:KEY")
		refused("/limits/new", "/limits/new", "name", "key:*", "there is a limit of this name")
		for _, path := range []string{"/limits/new", "/limits/queue:mails/set"} {
			page := strings.TrimSuffix(path, "/set")
			refused(page, path, "slots", "many", "must be a whole number of at least 1")
			refused(page, path, "slots", "2000000", "2000000 must be 1 to 1000000")
			refused(page, path, "rate", "0", "must be a whole number of at least 1")
			refused(page, path, "per", "soon", "is not a duration")
		}
		refused("/limits/key:*", "/limits/key:*/pause", "for", "10ms", "is 10ms: write 1s to")
		refused("/limits/key:*", "/limits/key:*/pause", "until", "2020-01-02 15:04", "write a time after now")
		refused("/limits/key:*", "/limits/key:*/pause", "until", "tomorrow", "must be a time such as")
		refused("/limits/key:*", "/limits/key:*/pause", "note", strings.Repeat("x", 1000), "note")
	})
}

func TestLimitForms_SetPauseResumeAndDelete(t *testing.T) {
	inWorld(t, func(w *world) {
		w.limits()
		form := w.fill("/limits/new", "name", "key:tenant-7", "slots", "20", "rate", "100", "per", "1m", "burst", "7")
		w.expectDone("/limits/new", form, "/limits/key:tenant-7?said=limit-set")
		want := control.LimitRule{Slots: 20, Rate: 100, Per: time.Minute, Burst: 7}
		if got := w.limit("key:tenant-7").Rule; got != want {
			t.Errorf("it allows %+v, want %+v", got, want)
		}
		w.serve()
		w.expectDone("/limits/new", form, "/limits/key:tenant-7?said=limit-set") // the same, at another node
		w.pass(time.Second)
		const page = "/limits/key:tenant-7"
		form = w.fill(page, "slots", "30", "rate", "", "per", "", "burst", "")
		w.expectDone(page+"/set", form, page+"?said=limit-set")
		if got, want := w.limit("key:tenant-7").Rule, (control.LimitRule{Slots: 30}); got != want {
			t.Errorf("it allows %+v, want %+v", got, want)
		}
		w.pass(time.Second)
		form = w.fill(page, "for", "1h", "note", "they move")
		w.expectDone(page+"/pause", form, page+"?said=limit-paused")
		l := w.limit("key:tenant-7")
		if !l.Paused || l.Note != "they move" || l.Until.Sub(w.control.Now(w.ctx)) != time.Hour {
			t.Errorf("it is %+v", l)
		}
		w.pass(time.Second)
		w.serve()
		w.expectDone(page+"/pause", form, page+"?said=limit-paused")
		if again := w.limit("key:tenant-7"); again.Until != l.Until {
			t.Errorf("the same form, sent again, pauses it until %s, not %s", again.Until, l.Until)
		}
		w.expectDone(page+"/resume", w.fill(page), page+"?said=limit-resumed")
		form = w.fill(page, "until", "2026-01-03 15:04")
		w.pass(time.Second)
		w.expectDone(page+"/pause", form, page+"?said=limit-paused")
		if got := w.limit("key:tenant-7").Until; !got.Equal(time.Date(2026, 1, 3, 15, 4, 0, 0, time.UTC)) {
			t.Errorf("it is paused until %s", got)
		}
		w.pass(time.Second)
		form = w.fill(page)
		w.expectDone(page+"/delete", form, "/limits?said=limit-deleted")
		w.serve()
		w.expectDone(page+"/delete", form, "/limits?said=limit-gone")
		w.expectNot("/limits", "key:tenant-7")
	})
}

// A limit that is only paused ends when it is resumed, so that it has no page any more.
func TestLimitResume_LeadsFromAPauseToTheList(t *testing.T) {
	inWorld(t, func(w *world) {
		w.limits()
		testkit.Must(t, w.control.PauseLimit(w.ctx, me, "key:a", control.LimitPause{}))
		form := w.fill("/limits/key:a")
		w.expectDone("/limits/key:a/resume", form, "/limits?said=limit-resumed")
		w.serve()
		w.expectDone("/limits/key:a/resume", form, "/limits?said=limit-gone")
	})
}

// An old page undoes nothing that somebody else has done since.
func TestLimitForms_RefuseWhatHasChangedSince(t *testing.T) {
	inWorld(t, func(w *world) {
		w.limits()
		const page = "/limits/key:*"
		form := w.fill(page, "slots", "9", "note", "a move")
		w.pass(time.Second)
		w.setLimit("key:*", control.LimitRule{Slots: 7})
		w.pass(time.Second)
		const changed = "It has changed since this page was read."
		for path, said := range map[string]string{"set": changed, "delete": changed, "pause": changed} {
			if got := w.send(http.MethodPost, page+"/"+path, form); got.status != http.StatusConflict ||
				!strings.Contains(got.text, said) {
				t.Errorf("%s: %d %s", path, got.status, got.text)
			}
		}
		w.pass(time.Second)
		form = w.fill(page, "note", "a move")
		w.pass(time.Second)
		testkit.Must(t, w.control.PauseLimit(w.ctx, me, "key:*", control.LimitPause{Note: "a 429"}))
		for path, said := range map[string]string{
			"pause": "The note is: <bdi>a 429</bdi>", "resume": changed,
		} {
			if got := w.send(http.MethodPost, page+"/"+path, form); got.status != http.StatusConflict ||
				!strings.Contains(got.text, said) {
				t.Errorf("%s: %d %s", path, got.status, got.text)
			}
		}
		if l := w.limit("key:*"); l.Rule.Slots != 7 || l.Note != "a 429" {
			t.Errorf("it is %+v", l)
		}
	})
}

// The list shows who holds slots and who waits, and the page of a task leads to the limit for which it waits.
func TestLimits_ShowTasksThatHoldAndWait(t *testing.T) {
	inWorld(t, func(w *world) {
		w.limits()
		w.setLimit("type:http", control.LimitRule{Slots: 2})
		w.submit("b", nil)
		w.expect("/limits", "No limit is full or paused")
		testkit.Must(t, w.control.PauseLimit(w.ctx, me, "key:tenant-7", control.LimitPause{}))
		w.limited("a", "tenant-7")
		w.claimUnderLimits()
		w.pass(time.Second)
		w.expect("/limits/type:http", `Held</h2><p class="val">1 <small>of 2 slots</small>`, `"/tasks?type=http"`)
		w.expect("/limits", `One limit holds tasks up: <code dir="auto">key:tenant-7</code>`)
		w.expect("/limits/key:tenant-7", "Paused: none of its tasks", "until it is resumed", `Waiting</h2><p class="val">1`)
		w.setLimit("key:*", control.LimitRule{Slots: 1})
		for _, id := range []string{"c", "d", "e"} { // the two partitions begin two of these at most
			w.limited(id, "tenant-8")
		}
		w.claimUnderLimits("key:tenant-8")
		w.pass(time.Second)
		const key = `<code dir="auto">key:tenant-8</code>`
		w.expect("/limits", "3 limits hold tasks up: ", "full for some names</span></span><span class=\"sub\">"+key)
		w.expect("/limits/key:*", "Full for "+key+": tasks wait for a slot", `<span class="mute">of 1</span>`)
		w.expect("/limits/type:http", `<a href="/tasks?type=http&amp;state=scheduled">Waiting tasks</a>`)
		w.expect("/tasks/default/a", "key:tenant-7 is paused", `href="/limits/key:tenant-7">resume it</a>`)
	})
}
