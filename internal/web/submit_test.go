package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/language"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestSubmit_MakesTheTaskThatWasTyped(t *testing.T) {
	inWorld(t, func(w *world) {
		form := w.typed("/submit?type=http", "type", "http", "id", "a", "namespace", "shop", "queue", "reports",
			"due", "10 m", "payload.url", " http://localhost/a ",
			"payload.headers", "X-A: 1\r\nX-B:2\r\n", "payload.body", "{\"n\": 1}",
			"payload.success_codes", "200, 300-399", "labels", "order=4711\r\nteam=é=1", "retry.max_attempts", "3",
			"retry.delays", "1m, 5m", "timeout", "90s", "retention", "1h", "owner", "ann")
		w.expectDone("/submit", form, "/tasks/shop/a?said=submitted")
		got, err := w.control.GetTask(w.ctx, control.Caller{Namespace: "shop"}, "a")
		testkit.Must(t, err)
		const payload = `{"url": "http://localhost/a", "headers": {"X-A": "1", "X-B": "2"}, "body": {"n": 1},
			"success_codes": [200, "300-399"]}`
		if !sameJSON(got.Payload, json.RawMessage(payload)) {
			t.Errorf("the payload is %s", got.Payload)
		}
		if got.Queue != "reports" || got.Owner != "ann" || !got.DueAt.Equal(start.Add(10*time.Minute)) ||
			got.Timeout != 90*time.Second || got.Retention != time.Hour || got.MaxAttempts != 3 ||
			len(got.Retry.Delays) != 2 || got.Labels["order"] != "4711" || got.Labels["team"] != "é=1" {
			t.Errorf("the task is %+v", got)
		}
	})
}

// The same form makes one task, whichever node gets it: without an id, the key of the form is that.
func TestSubmit_MakesOneTaskOfAForm(t *testing.T) {
	inWorld(t, func(w *world) {
		form := w.typed("/submit", "type", "http", "payload.url", "http://localhost/a")
		to := "/tasks/default/" + form.Get(keyField) + "?said=submitted"
		w.expectDone("/submit", form, to)
		w.serve()
		w.expectDone("/submit", form, to)
		form.Set("id", form.Get(keyField))
		other := w.typed("/submit", "type", "http", "payload.url", "http://localhost/a", "id", form.Get(keyField))
		w.expectDone("/submit", other, "/tasks/default/"+form.Get(keyField)+"?said=there-before")
	})
}

func TestSubmit_ShowsWhatIsWrongWhereItIs(t *testing.T) {
	inWorld(t, func(w *world) {
		form := w.typed("/submit?type=http", "type", "http", "due", "soon", "payload.url", "http://localhost/<b>",
			"payload.headers", "X", "retry.max_attempts", "none", "timeout", "long", "labels", "a")
		w.expectRefused("/submit", form,
			`value="http://localhost/&lt;b&gt;"`, `value="soon"`, `id="w-due"`, `id="w-payload.headers"`,
			`id="w-retry.max_attempts"`, `id="w-timeout"`, `id="w-labels"`, `<details class="sec" open>`)
		form = w.typed("/submit?type=http", "type", "http", "due", "-5s", "payload.url", "http://localhost/a")
		w.expectRefused("/submit", form, `id="w-due"`)
		form = w.typed("/submit?type=other", "as", "json", "other", "true", "type", "a b", "payload", "{")
		w.expectRefused("/submit", form, `id="w-payload"`, `value="a b"`)
		form.Set("payload", "{}")
		w.expectRefused("/submit", form, `id="w-type"`)
		form = w.typed("/submit", "type", "http", "payload.url", "http://localhost/a", "id", "a")
		w.submit("a", nil)
		if got := w.send(http.MethodPost, "/submit", form); got.status != http.StatusConflict ||
			!strings.Contains(got.text, "The task is not submitted.") {
			t.Errorf("another task has the id: %d\n%s", got.status, got.text)
		}
	})
}

// What is wrong with a field is said with the label that the form has, and of a part of it with the name of the part.
func TestForms_NameFieldsByTheirLabels(t *testing.T) {
	inWorld(t, func(w *world) {
		typed := func(fields ...string) []string {
			return append([]string{"type", "http", "payload.url", "http://localhost/a"}, fields...)
		}
		for text, fields := range map[string][]string{
			"Attempts at most: 2000000 must be 1 to":                                     typed("retry.max_attempts", "2000000"),
			"When: give a duration, as in 10m":                                           typed("due", "-5m"),
			"When: 200000h0m0s is too far ahead":                                         typed("due", "200000h"),
			"Cancel if not begun within: -1m0s":                                          typed("start_by", "-1m"),
			"Waits between attempts: [1]: -5m0s":                                         typed("retry.delays", "1m, -5m"),
			"an attempt: &#34;5x&#34; is not a duration such as 1m30s or 48h":            typed("timeout", "5x"),
			"Timeout of an attempt: must be more than 0":                                 typed("timeout", "0s"),
			"Mode and key: latest says when the task is due: leave the field When empty": typed("once", "latest:a", "due", "5m"),
			"Mode and key: mode: &#34;last&#34; must be singleton":                       typed("once", "last:a", "due", "5m"),
			`write the payload as JSON: {&#34;command&#34;:[&#34;/opt/my tool&#34;]}`: {
				"type", "shell", "payload.command", " /opt/my tool ",
			},
		} {
			w.expectRefused("/submit", w.typed("/submit?type=http", fields...), text)
		}
		for text, fields := range map[string][]string{
			"Queue: &#34;a b&#34;":             {"every", "1h", "queue", "a b"},
			"Every: &#34;5x&#34; is not a dur": {"every", "5x"},
			"Every: give an interval, as in":   nil,
			"Every: give an interval or a cro": {"every", "1h", "cron", "@daily"},
		} {
			form := w.inFields("check", typed(fields...)...)
			if got := w.send(http.MethodPost, newSchedulePath, form); !strings.Contains(got.text, ">"+text) {
				t.Errorf("a schedule lacks %q: %s", text, got.text)
			}
		}
		w.expect("/tasks?since=yesterday", ">Since: give a duration")
		w.expect("/schedules?label=a", ">Label: give a name")
		w.put("a", nil)
		w.expect("/schedules/default/a/backfill?from=1h&pace=-1s", ">One each: give a duration")
		w.expect("/bulk/new/requeue?state=scheduled&to_queue=a+b", ">To queue: &#34;a b&#34;")
		w.expect("/bulk/new/forget", ">State: say which tasks")
		w.get("/prefer/language/zh")
		w.expect("/tasks?since=yesterday", ">起始：请填写时长")
	})
}

// A form for another type, or with the payload as JSON, has what was typed.
func TestForms_KeepWhatWasTypedForAnotherType(t *testing.T) {
	for path, fields := range map[string][]string{
		"/submit":       {"id", "a", "due", "10m", "retry.max_attempts", "7"},
		newSchedulePath: {"id", "a", "every", "5m", "queue", "reports"},
	} {
		inWorld(t, func(w *world) {
			form := w.fill(path, append(fields, "payload.url", "http://localhost/<b>", "payload.headers", "X: 1")...)
			press := func(name, value string, wants ...string) {
				form.Set(name, value)
				got := w.send(http.MethodPost, path, form)
				for i := 0; i < len(fields); i += 2 {
					wants = append(wants, `name="`+fields[i]+`" value="`+fields[i+1]+`"`)
				}
				for _, want := range wants {
					if got.status != http.StatusOK || !strings.Contains(got.text, want) || strings.Contains(got.text, `class="err`) {
						t.Errorf("%s, %s=%s: %d, want %s:\n%s", path, name, value, got.status, want, got.text)
					}
				}
				form = w.shownAgain(got.text, form.Get(keyField))
			}
			const url = `name="payload.url" value="http://localhost/&lt;b&gt;"`
			press(showType, "shell", `id="f-payload.command"`, `<input type="hidden" `+url)
			press(showType, "other", `<input id="f-type"`, `<input type="hidden" `+url)
			press(showType, "http", `<input id="f-payload.url" `+url)
			press(showPayload, "json", `&#34;url&#34;: &#34;http://localhost/`, `name="as" value="json"`)
			press(showPayload, "fields", `<input id="f-payload.url" `+url, "\nX: 1</textarea>")
		})
	}
}

func TestSubmit_OffersTheTypesOfTheNodes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.nodes[0].Types = []string{"http", "report.make"}
		if text := w.get("/submit").text; !strings.Contains(text, `name="show_type" value="report.make"`) {
			t.Errorf("the type is missing:\n%s", text)
		}
		if text := w.get("/submit?from=default/nobody"); text.status != http.StatusNotFound {
			t.Errorf("a copy of nothing: %d", text.status)
		}
	})
}

// What a form can have becomes the same payload again; what it cannot have is shown as JSON.
func TestTypedAs(t *testing.T) {
	t.Parallel()
	v := &visit{printer: newPrinter(language.English)}
	for _, c := range []struct {
		typeName, payload string
		known             bool
	}{
		{"http", `{"url":"http://localhost"}`, true},
		{"http", `{"url":"http://localhost","headers":{"A":"1","B":"x: y"},"body":"text","retry_codes":[404,"4-5"]}`, true},
		{"http", `{"url":"http://localhost","body":{"n":12345678901234567890},"expect":{"contains":"ok"}}`, true},
		{"http", `{"url":"http://localhost","body":"{\"n\":1}"}`, false},
		{"http", `{"url":"http://localhost","headers":{"A":"two\nlines"}}`, false},
		{"http", `{"url":"http://localhost","unheard_of":1}`, false},
		{"http", `{"url":"http://localhost","pause":"key"}`, true},
		{"http", `{"url":"http://localhost","pause":"queue"}`, false},
		{"http", `{"url":" http://localhost"}`, false},
		{"shell", `{"command":["sh","-c","echo a"],"env":{"A":"1=2"},"final_exit_codes":[2],"limits":{"a":"1"}}`, true},
		{"shell", `{"command":["sh","-c","echo a\necho b"]}`, false},
		{"shell", `{"command":"make"}`, false},
		{"grpc", `{"target":"a:1","method":"p.S/M","request":{"a":[1]},"tls":{},"retry_codes":["NOT_FOUND"]}`, true},
		{"asynq", `{"type":"email","payload":{"a":1},"max_retry":3,"archived_is_final":true}`, true},
		{"asynq", `{"type":"email","archived_is_final":false}`, false},
		{"noop", `{"sleep":"10ms"}`, true},
		{"noop", `{}`, true},
		{"noop", `[]`, false},
		{"unheard.of", `{"a":1}`, false},
	} {
		_, known := v.typedAs(v.payloadFields(c.typeName), json.RawMessage(c.payload))
		if known != c.known {
			t.Errorf("%s %s: a form can have it: %t, want %t", c.typeName, c.payload, known, c.known)
		}
	}
	if _, wrong := v.pairsOf("a=1\na=2", "="); wrong == "" {
		t.Error("a name that is there twice is accepted")
	}
}
