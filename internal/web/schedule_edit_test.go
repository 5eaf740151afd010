package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// definitionOf is the text of a schedule a with some lines.
func definitionOf(lines ...string) string {
	return "namespace: default\nschedules:\n  - id: a\n    task: {type: http, payload: {url: http://localhost/a}}\n    " +
		strings.Join(lines, "\n    ") + "\n"
}

// write sends a text from a page on which schedules are written.
func (w *world) write(path, do, text string, fields ...string) answer {
	w.t.Helper()
	form := w.fill(path, append(fields, "text", strings.ReplaceAll(text, "\n", "\r\n"), "do", do)...)
	if do == doPut {
		form = w.checked(path, form)
	}
	return w.send(http.MethodPost, path, form)
}

func TestGolden_ScheduleEdit(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("a", func(d *schedule.Definition) { d.Description = "</textarea><script>" })
		w.pass(2 * time.Second)
		w.page("schedule_edit-new", "/schedules/new?namespace=payments&as=yaml", http.StatusOK)
		w.page("schedule_edit", "/schedules/default/a/edit", http.StatusOK)
		valid := definitionOf("cron: 30 2 * * MON-FRI", "timezone: Europe/Berlin", "paused: true")
		w.compare("schedule_edit-checked", w.write("/schedules/default/a/edit", "check", valid))
		invalid := definitionOf("cron: 30 2 * * FRY", "overlap: sometimes")
		w.compare("schedule_edit-wrong", w.write("/schedules/new", "check", invalid))
	})
}

func TestScheduleEdit_SaysWhatIsWrong(t *testing.T) {
	const edit, one = "/schedules/default/b/edit", "The text must have one schedule"
	two := definitionOf("every: 1h") + "  - {id: b, every: 1h, task: {type: http}}\n"
	other := strings.ReplaceAll(definitionOf("every: 2h"), "id: a", "id: b")
	at := func(place, fault string) string { return place + `:</b> <span dir="auto">` + fault }
	for name, c := range map[string]struct{ path, text, want string }{
		"no YAML": {"/schedules/new", "a: [", "Line 1"},
		"unknown field": {
			"/schedules/new", definitionOf("every: 1h", "evry: 1h"),
			at("Line 6, column 5", "schedules[0].evry: is not a field"),
		},
		"two":     {"/schedules/new", two, one},
		"a task":  {"/schedules/new", "tasks:\n  - {id: b, type: http}\n", one},
		"nothing": {"/schedules/new", "", one},
		"of times": {
			"/schedules/new", definitionOf("cron: 1 2 3"), at("Line 5, column 11", "schedules[0].cron: has 3 fields"),
		},
		"there already": {
			"/schedules/new", other, `exists, at revision 1. <a href="/schedules/default/b/edit">Edit it</a>`,
		},
		"another id": {edit, definitionOf("every: 1h"), at("Line 3, column 9", "schedules[0].id: must stay b")},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.put("b", nil)
				got := w.write(c.path, "put", c.text)
				if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.text, c.want) {
					t.Errorf("%d: the page does not say %q:\n%s", got.status, c.want, got.text)
				}
				if strings.Contains(got.text, `value="put"`) {
					t.Error("the page offers to put it")
				}
				if _, err := w.control.GetSchedule(w.ctx, me, "a"); err == nil {
					t.Error("it was put")
				}
			})
		})
	}
}

// A reader may put what a new schedule begins with.
func TestScheduleEdit_BeginsWithWhatIsValid(t *testing.T) {
	inWorld(t, func(w *world) {
		w.get("/prefer/zone/Europe/Berlin")
		page := w.get("/schedules/new?as=yaml").text
		got := w.send(http.MethodPost, "/schedules/new", w.shownAgain(page, keyOf(page)))
		for _, want := range []string{"It is valid.", "Europe/Berlin"} {
			if got.status != http.StatusOK || !strings.Contains(got.text, want) {
				t.Errorf("%d: the page does not say %q:\n%s", got.status, want, got.text)
			}
		}
	})
}

func TestScheduleEdit_PutsWhatWasChecked(t *testing.T) {
	inWorld(t, func(w *world) {
		first := w.write("/schedules/new", "check", definitionOf("every: 1h"))
		if !strings.Contains(first.text, "Put revision 1") || !strings.Contains(first.text, "every 1h, counted from when") {
			t.Errorf("a check of a new one: %s", first.text)
		}
		form := w.fill("/schedules/new", "text", definitionOf("every: 1h"), "do", "check")
		form = w.checked("/schedules/new", form)
		form.Set("do", "put")
		for _, said := range []string{"put", "put-before"} { // the second time, another node gets it, and nothing is changed
			w.expectDone("/schedules/new", form, "/schedules/default/a?n=1&said="+said)
			w.serve()
		}
		if s := w.schedule("a"); s.Revision != 1 || s.Rules[0].Every != time.Hour {
			t.Errorf("revision %d, %v", s.Revision, s.Rules)
		}
		w.write("/schedules/default/a/edit", "put", definitionOf("every: 2h", "paused: true"))
		if s := w.schedule("a"); s.Revision != 2 || s.Rules[0].Every != 2*time.Hour || s.PausedAt.IsZero() {
			t.Errorf("revision %d, %v, paused at %s", s.Revision, s.Rules, s.PausedAt)
		}
		resumed := w.write("/schedules/default/a/edit", "put", definitionOf("every: 2h", "paused: false"))
		if to := resumed.leadsTo(); to != "/schedules/default/a?n=2&said=resumed" {
			t.Errorf("resumed by its text, it leads to %q", to)
		}
	})
}

// What was changed after the check is checked first, and put only then.
func TestScheduleEdit_PutsNothingUnchecked(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("b", nil)
		const said = "It was changed since it was checked, and is not put yet."
		other := strings.ReplaceAll(definitionOf("every: 7s"), "id: a", "id: b")
		for path, form := range map[string]url.Values{
			newSchedulePath:             w.inFields("check", "every", "1h", "payload.url", "http://localhost/a"),
			"/schedules/default/b/edit": w.fill("/schedules/default/b/edit", "text", strings.Replace(other, "7s", "2h", 1)),
		} {
			form = w.checked(path, form)
			form.Set("every", "7s")
			if form.Has("text") {
				form.Set("text", other)
			}
			form.Set("do", doPut)
			got := w.send(http.MethodPost, path, form)
			if got.status != http.StatusOK || !strings.Contains(got.text, said) || !strings.Contains(got.text, "every 7s") {
				t.Errorf("%s: %d\n%s", path, got.status, got.text)
			}
			again := w.shownAgain(got.text, form.Get(keyField))
			again.Set("do", doPut)
			if got := w.send(http.MethodPost, path, again); got.status != http.StatusSeeOther {
				t.Errorf("%s: then: %d\n%s", path, got.status, got.text)
			}
		}
		if s := w.schedule("b"); s.Revision != 2 || s.Rules[0].Every != 7*time.Second {
			t.Errorf("revision %d, %v", s.Revision, s.Rules)
		}
	})
}

// What the server lacks is no fault of the text, and what caused a refusal is not told.
func TestScheduleEdit_TellsOnlyRefusals(t *testing.T) {
	t.Parallel()
	secret := errors.New("dial tcp 192.0.2.1:6379")
	conflict := &task.Error{Code: schedule.CodeChanged, Message: "is at revision 2", Err: secret}
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("putting it: %w", conflict), "is at revision 2"},
		{secret, ""},
		{&task.Error{Code: task.CodeUnavailable, Message: "Redis does not answer", Err: secret}, ""},
		{&task.Error{Code: task.CodeInternal, Message: "see the log", Err: secret}, ""},
	} {
		var e scheduleEdit
		if err := e.refuse(nil, c.err); e.Wrong != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%v: the page says %q, and the error is %v", c.err, e.Wrong, err)
		}
	}
}

// A revision that somebody has put meanwhile is not replaced before the writer has seen it.
func TestScheduleEdit_ShowsWhatOthersHavePut(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("a", nil)
		w.put("a", func(d *schedule.Definition) { d.Owner = "finance" })
		got := w.write("/schedules/default/a/edit", "put", definitionOf("every: 2h"), "revision", "1")
		if got.status != http.StatusOK || !strings.Contains(got.text, "Somebody has put revision 2 meanwhile.") ||
			!strings.Contains(got.text, "<del>owner: <bdi>finance</bdi></del>") {
			t.Errorf("%d: %s", got.status, got.text)
		}
		if s := w.schedule("a"); s.Revision != 2 {
			t.Errorf("revision %d is in force", s.Revision)
		}
		if got := w.write("/schedules/default/a/edit", "put", definitionOf("every: 2h")); got.status != http.StatusSeeOther {
			t.Errorf("then: %d", got.status)
		}
	})
}

// A new schedule does not tick as it is created, so a check does not promise that.
func TestScheduleEdit_PromisesOnlyTicksThatFire(t *testing.T) {
	inWorld(t, func(w *world) {
		w.delay.Store(int64(10 * time.Millisecond))
		page := w.write("/schedules/new", "check", definitionOf("every: 1h")).text
		if strings.Contains(page, "data-rel>in 0 s<") || !strings.Contains(page, "data-rel>in 60 min<") {
			t.Errorf("the page has\n%s", page)
		}
	})
}
