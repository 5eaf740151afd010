package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// furnish has tasks and schedules in two namespaces.
func (w *world) furnish() {
	w.t.Helper()
	w.submit("order-1", nil)
	w.submit("both", nil)
	w.put("night", nil)
	w.put("nightly", nil)
	w.put("day", nil)
	there := control.Caller{Namespace: "billing"}
	d := task.Definition{
		Ref: task.Ref{Namespace: "billing", ID: "both"}, Type: "http", Payload: []byte(`{"url":"http://x/"}`),
	}
	_, err := w.control.Submit(w.ctx, there, d)
	testkit.Must(w.t, err)
	d.ID, d.Namespace = "", ""
	_, err = w.control.PutSchedule(w.ctx, there, schedule.Definition{
		Ref: task.Ref{Namespace: "billing", ID: "invoices"}, Task: d,
		Spec: schedule.Spec{Rules: []schedule.Rule{{Every: time.Hour}}},
	}, control.PutOptions{})
	testkit.Must(w.t, err)
	w.pass(2 * time.Second)
}

func TestFind_LeadsToWhatHasTheID(t *testing.T) {
	inWorld(t, func(w *world) {
		w.furnish()
		w.putFlow("shop-etl", etl)
		w.startWorkflow("etl-1", "shop-etl", `{"day": "2026-11-25"}`)
		for text, want := range map[string]string{
			"order-1": "/tasks/default/order-1", "inv": "/schedules/billing/invoices", "day": "/schedules/default/day",
			"nightl": "/schedules/default/nightly", "shop-": "/workflows/default/shop-etl", "etl-1": "/runs/default/etl-1",
		} {
			got := w.get("/find?" + url.Values{"q": {" " + text + " "}}.Encode())
			if to := got.header.Get("Location"); got.status != http.StatusSeeOther || to != want {
				t.Errorf("%q: %d to %q, want %q", text, got.status, to, want)
			}
		}
		got := w.get("/find?q=order-1&namespace=billing").header.Get("Location")
		if want := "/tasks/default/order-1?namespace=billing"; got != want {
			t.Errorf("with a namespace: to %q, want %q", got, want)
		}
	})
}

func TestGolden_Find(t *testing.T) {
	inWorld(t, func(w *world) {
		w.furnish()
		w.page("find", "/find", http.StatusOK)
		w.putFlow("night-etl", etl)
		w.page("find-tasks", "/find?q=both", http.StatusOK)
		w.page("find-schedules", "/find?q=nigh", http.StatusOK)
		w.page("find-none", "/find?q=nobody", http.StatusOK)
		w.page("find-tick", "/find?q=nightly%4020260102T150405Z", http.StatusOK)
	})
}

// "Go to" has the same words for a task as lists have.
func TestFind_TellsWhatWasPutOff(t *testing.T) {
	inWorld(t, func(w *world) {
		w.furnish()
		run := w.begin(task.Ref{Namespace: "default", ID: "both"})
		testkit.Must(t, run.Reattempt(w.ctx, time.Hour, task.OutcomeSnoozed, "not yet"))
		w.expect("/find?q=both", "snoozed")
		w.expectNot("/find?q=both", "tries again")
	})
}

func TestFind_ShowsHostileTextAsText(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, text := range append(hostile, strings.Repeat("<", 10_000)) {
			got := w.get("/find?" + url.Values{"q": {text}}.Encode())
			if got.status != http.StatusOK || harmed(got.text) || len(got.text) > sizeLimit {
				t.Errorf("%.40q: status %d, %d bytes", text, got.status, len(got.text))
			}
		}
	})
}
