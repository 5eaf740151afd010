package web

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/control"
)

// inFields is what somebody types who wants that an address is called.
func (w *world) inFields(do string, fields ...string) url.Values {
	w.t.Helper()
	first := []string{"id", "a", "namespace", "shop", "timezone", "UTC", "do", do}
	return w.fill(newSchedulePath, append(first, fields...)...)
}

func TestGolden_ScheduleFields(t *testing.T) {
	inWorld(t, func(w *world) {
		w.page("schedule_edit-fields", newSchedulePath+"?namespace=payments", http.StatusOK)
		right := w.inFields("check", "every", "5m", "payload.url", "http://localhost/</textarea>", "queue", "reports")
		w.compare("schedule_edit-fields-checked", w.send(http.MethodPost, newSchedulePath, right))
		w.get("/prefer/language/zh")
		wrong := w.inFields("check", "every", "5", "timezone", "Mars", "payload.url", "http://localhost/a")
		w.compare("schedule_edit-fields-wrong", w.send(http.MethodPost, newSchedulePath, wrong))
	})
}

// Fields make the schedule that the text of them makes.
func TestScheduleFields_PutWhatTheirTextPuts(t *testing.T) {
	inWorld(t, func(w *world) {
		form := w.inFields("check", "cron", "0 9 * * MON-FRI", "timezone", "Europe/Berlin", "queue", "reports",
			"payload.url", "http://localhost/a", "payload.headers", "X-A: 1\r\n", "payload.body", `{"n": 1}`)
		asText := w.reshaped(newSchedulePath, maps.Clone(form), showText, "true")
		form = w.checked(newSchedulePath, form)
		form.Set("do", "put")
		w.expectDone(newSchedulePath, form, "/schedules/shop/a?n=1&said=put")
		got, err := w.control.GetSchedule(w.ctx, control.Caller{Namespace: "shop"}, "a")
		const payload = `{"url": "http://localhost/a", "headers": {"X-A": "1"}, "body": {"n": 1}}`
		if err != nil || got.Rules[0].Cron != "0 9 * * MON-FRI" || got.Timezone != "Europe/Berlin" ||
			got.Task.Queue != "reports" || !sameJSON(got.Task.Payload, json.RawMessage(payload)) {
			t.Errorf("%v, %+v", err, got.Definition)
		}
		asText.Set("do", "put") // the same definition: nothing is put
		w.expectDone(newSchedulePath, asText, "/schedules/shop/a?n=1&said=put-before")
	})
}

func TestScheduleFields_SayWhatIsWrongBesideThem(t *testing.T) {
	inWorld(t, func(w *world) {
		for name, c := range map[string]struct {
			fields []string
			wrong  []string // the fields
		}{
			"no time":         {nil, []string{"every"}},
			"two times":       {[]string{"every", "1h", "cron", "@daily"}, []string{"every"}},
			"wrong times":     {[]string{"cron", "1 2 3", "timezone", "Mars"}, []string{"cron", "timezone"}},
			"no interval":     {[]string{"every", "often"}, []string{"every"}},
			"no id":           {[]string{"every", "1h", "id", ""}, []string{"id"}},
			"a wrong id":      {[]string{"every", "1h", "id", "a b"}, []string{"id"}},
			"a wrong queue":   {[]string{"every", "1h", "queue", "a b"}, []string{"queue"}},
			"wrong headers":   {[]string{"every", "1h", "payload.headers", "X"}, []string{"payload.headers"}},
			"no such type":    {[]string{"every", "1h", "type", "a b", "other", "true"}, []string{"type"}},
			"no JSON":         {[]string{"every", "1h", "as", "json", "payload", "{"}, []string{"payload"}},
			"all, as if YAML": {[]string{showText, "true", "payload.expect", "{"}, []string{"payload.expect"}},
		} {
			t.Run(name, func(t *testing.T) {
				got := w.send(http.MethodPost, newSchedulePath, w.inFields("put", c.fields...))
				if got.status != http.StatusUnprocessableEntity {
					t.Errorf("status %d", got.status)
				}
				for _, field := range c.wrong {
					if !strings.Contains(got.text, `aria-describedby="w-`+field+`"`) {
						t.Errorf("%s is not marked:\n%s", field, got.text)
					}
				}
				if strings.Contains(got.text, "schedules[0]") || strings.Contains(got.text, `value="put"`) {
					t.Errorf("the page speaks of a text, or offers to put it:\n%s", got.text)
				}
			})
		}
	})
}

// A schedule with the id is not replaced by a new one.
func TestScheduleFields_LeadToTheScheduleThatIsThere(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("a", nil)
		got := w.send(http.MethodPost, newSchedulePath, w.inFields("put", "namespace", "default", "every", "2h"))
		if !strings.Contains(got.text, `<a href="/schedules/default/a/edit">Edit it</a>`) ||
			!strings.Contains(got.text, `name="every" value="2h"`) {
			t.Errorf("%d: %s", got.status, got.text)
		}
		if s := w.schedule("a"); s.Rules[0].Every != time.Hour {
			t.Errorf("it is %+v", s.Rules)
		}
	})
}

func TestSchedule_SaysThatItsIdIsMissing(t *testing.T) {
	inWorld(t, func(w *world) {
		form := w.inFields(doCheck, "every", "1h", "payload.url", "http://localhost/a", "id", "")
		got := w.send(http.MethodPost, newSchedulePath, form)
		if !strings.Contains(got.text, "Id: is missing") || strings.Contains(got.text, "cannot be a name") {
			t.Errorf("%d: %s", got.status, got.text)
		}
	})
}
