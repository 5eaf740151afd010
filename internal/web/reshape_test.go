package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/testkit"
)

// reshaped sends a form by a button that asks for another form, and returns what that form would send.
func (w *world) reshaped(path string, form url.Values, button, value string) url.Values {
	w.t.Helper()
	form.Set(button, value)
	got := w.send(http.MethodPost, path, form)
	if got.status != http.StatusOK {
		w.t.Fatalf("%s %s: %d\n%s", button, value, got.status, got.text)
	}
	return w.shownAgain(got.text, form.Get(keyField))
}

// expectTyped expects values of fields.
func (w *world) expectTyped(form url.Values, fields ...string) {
	w.t.Helper()
	for i := 0; i < len(fields); i += 2 {
		if got := form.Get(fields[i]); got != fields[i+1] {
			w.t.Errorf("%s is %q, want %q", fields[i], got, fields[i+1])
		}
	}
}

// Another type, and the payload as JSON, keep what was typed.
func TestReshape_KeepsWhatWasTyped(t *testing.T) {
	inWorld(t, func(w *world) {
		common := []string{"id", "a", "namespace", "shop", "queue", "reports", "timeout", "90s", "retry.max_attempts", "3"}
		for path, more := range map[string][]string{
			"/submit":       {"due", "10m", "labels", "a=b"},
			newSchedulePath: {"every", "5m", "timezone", "Europe/Berlin", "overlap", "queue", "misfire.policy", "all"},
		} {
			typed := append(append([]string{}, common...), more...)
			form := w.fill(path, append(typed, "payload.url", "http://localhost/a", "payload.success_codes", "200")...)
			form = w.reshaped(path, form, showType, "shell")
			w.expectTyped(form, append(typed, "type", "shell", "payload.command", "")...)
			form = w.reshaped(path, form, showType, otherType)
			w.expectTyped(form, append(typed, "type", "", "other", "true", "payload", "")...)
			form = w.reshaped(path, form, showType, "http")
			w.expectTyped(form, append(typed, "type", "http", "payload.url", "http://localhost/a", "other", "")...)
			form = w.reshaped(path, form, showPayload, asJSON)
			w.expectTyped(form, append(typed, "as", asJSON, "payload.url", "")...)
			if text := form.Get("payload"); !strings.Contains(text, `"url": "http://localhost/a"`) {
				t.Errorf("the payload is %s", text)
			}
			form = w.reshaped(path, form, showPayload, asFields)
			w.expectTyped(form, append(typed, "payload.url", "http://localhost/a", "payload.success_codes", "200")...)
			form = w.reshaped(path, form, showPayload, asJSON)
			form.Set("payload", `{"unheard_of": 1}`)
			form.Set(showPayload, asFields)
			got := w.send(http.MethodPost, path, form)
			if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.text, "unheard_of&#34;: 1}</textarea>") ||
				!strings.Contains(got.text, `id="w-payload"`) {
				t.Errorf("what fields cannot have: %d\n%s", got.status, got.text)
			}
		}
		if w.tasks() > 0 {
			t.Error("something was submitted")
		}
	})
}

// A button that asks for another form needs nothing of Redis, and says nothing of what was done.
func TestReshape_WorksWhileRedisIsAway(t *testing.T) {
	inWorld(t, func(w *world) {
		typed := []string{"id", "a", "payload.url", "http://localhost/a", "retry.max_attempts", "3"}
		schedule := w.fill(newSchedulePath, append(typed, "every", "5m")...)
		submission := w.fill("/submit", append(typed, "due", "10m")...)
		w.away.Store(unreachable)
		testkit.Must(t, clock.Sleep(w.ctx, time.Minute)) // as long, a node takes no status that it has read
		press := func(path string, form url.Values, button, value string) url.Values {
			form.Set(button, value)
			got := w.send(http.MethodPost, path, form)
			_, main, _ := strings.Cut(got.text, "<main")
			if got.status != http.StatusOK || !strings.Contains(main, "Redis") ||
				strings.Contains(main, "done") || strings.Contains(main, "not submitted") {
				t.Errorf("%s=%s: %d\n%s", button, value, got.status, main)
			}
			return w.shownAgain(got.text, form.Get(keyField))
		}
		text := press(newSchedulePath, schedule, showText, "true")
		if !strings.Contains(text.Get("text"), "every: 5m") {
			t.Errorf("the text is %s", text.Get("text"))
		}
		w.expectTyped(press(newSchedulePath, text, showPayload, asFields), append(typed, "every", "5m")...)
		submission = press("/submit", submission, showType, "shell")
		w.expectTyped(submission, append(typed, "due", "10m", "type", "shell")...)
		submission = press("/submit", submission, showType, "http")
		submission = press("/submit", submission, showPayload, asJSON)
		w.expectTyped(submission, "due", "10m", "as", asJSON)
		submission.Set("payload", "{")
		submission.Set(showPayload, asFields)
		if got := w.send(http.MethodPost, "/submit", submission); got.status != http.StatusUnprocessableEntity {
			t.Errorf("what is no payload: %d\n%s", got.status, got.text)
		}
	})
}

// A schedule goes from fields to text and back.
func TestReshape_BringsATextBackIntoFields(t *testing.T) {
	inWorld(t, func(w *world) {
		testkit.Must(t, w.store.Advance(w.ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
		typed := []string{
			"id", "a", "namespace", "shop", "cron", "0 9 * * *", "timezone", "Europe/Berlin", "queue", "reports",
			"overlap", "queue", "misfire.policy", "all", "owner", "ann", "timeout", "1m30s", "retention", "24h",
			"start_by", "1h", "retry.max_attempts", "3", "retry.delays", "1m, 5m",
			"priority", "2", "fair_key", "b", "limit_key", "b,a",
			"select", "gpu", "prefer", "3:zone=eu\n1:a", "route", `{"by":"failover","order":["b","a"]}`,
			"payload.url", "http://localhost/a",
			"payload.headers", "X-A: 1",
		}
		text := w.reshaped(newSchedulePath, w.fill(newSchedulePath, typed...), showText, "true")
		if !strings.Contains(text.Get("text"), "max_attempts: 3") {
			t.Errorf("the text is %s", text.Get("text"))
		}
		back := w.reshaped(newSchedulePath, text, showPayload, asFields)
		w.expectTyped(back, typed...)
		back.Set("do", "check")
		if got := w.send(http.MethodPost, newSchedulePath, back); !strings.Contains(got.text, "It is valid.") {
			t.Errorf("%d: %s", got.status, got.text)
		}
		const path = newSchedulePath + "?as=yaml"
		shown := w.get(path).text
		first := w.reshaped(path, w.shownAgain(shown, keyOf(shown)), showPayload, asFields)
		w.expectTyped(first, "id", "", "type", "http")
		const two = "specs: [{every: 1h}, {cron: '@daily'}]"
		for said, text := range map[string]string{
			"cannot have description of this":          definitionOf("every: 1h", "description: more"),
			"cannot have jitter, labels, specs of":     definitionOf(two, "jitter: 1m", "labels: {a: b, c: d}"),
			"cannot have misfire.window, paused of":    definitionOf("every: 1h", "misfire: {window: 2h}", "paused: true"),
			"The text cannot be read: check it first.": "schedules: [",
		} {
			form := w.fill(path, "text", text, showPayload, asFields)
			got := w.send(http.MethodPost, path, form)
			if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.text, said) ||
				strings.TrimSpace(w.shownAgain(got.text, form.Get(keyField)).Get("text")) != strings.TrimSpace(text) {
				t.Errorf("%d: the page does not say %q:\n%s", got.status, said, got.text)
			}
		}
	})
}
