package web

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/testkit"
)

// inKnowing is inWorld, where all nodes know priorities and fair keys.
func inKnowing(t *testing.T, test func(w *world)) {
	t.Helper()
	inWorld(t, func(w *world) {
		testkit.Must(t, w.store.Advance(w.ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
		test(w)
	})
}

// typedPrecedence is what somebody types who says which task comes first.
var typedPrecedence = []string{"priority", "9", "fair_key", "customer-7", "fair_weight", "3", "limit_key", "b,a"}

// shownPrecedence is how a form shows it.
var shownPrecedence = []string{
	`name="priority" value="9"`, `name="fair_key" value="customer-7"`, `name="fair_weight" value="3"`,
	`name="limit_key" value="b,a"`,
}

// typedReach is what somebody types who says where a task runs.
var typedReach = []string{
	"select", "zone in (us, eu),gpu", "prefer", "10:a=b\r\n!spot", "route", `{"by": "hash", "key": "tenant-7"}`,
	"slots", "4",
}

// The form takes where a task runs, the page of the task shows it, and a copy has it.
func TestSubmit_TakesWhereATaskRuns(t *testing.T) {
	inKnowing(t, func(w *world) {
		fields := append([]string{"type", "http", "id", "a", "payload.url", "http://localhost/a"}, typedReach...)
		w.expectDone("/submit", w.typed("/submit?type=http", fields...), "/tasks/default/a?said=submitted")
		const route = `{&#34;by&#34;:&#34;hash&#34;,&#34;key&#34;:&#34;tenant-7&#34;}`
		w.expect("/tasks/default/a", `<dt>Nodes, by labels</dt><dd><code dir="auto">gpu,zone in (eu,us)</code></dd>`,
			`<dt>Preferred nodes</dt><dd><code dir="auto">a=b</code>, weight 10<br><code dir="auto">!spot</code>, weight 1</dd>`,
			`<dt>Route</dt><dd><code dir="auto">hash</code>: the node of the key <code dir="auto">tenant-7</code></dd>`,
			`<dt>Slots of its node that it holds</dt><dd>4</dd>`)
		w.expect("/submit?from=default/a", `name="select" value="gpu,zone in (eu,us)"`, "10:a=b\n1:!spot</textarea>",
			`name="route" value="`+route+`"`, `name="slots" value="4"`)
		w.submit("b", nil)
		text := w.get("/tasks/default/b").text
		if strings.Contains(text, "Nodes, by labels") || strings.Contains(text, "<dt>Route") {
			t.Errorf("a task that runs anywhere shows where:\n%s", text)
		}
		w.get("/prefer/language/zh")
		w.expect("/tasks/default/a", "<dt>节点（按标签）</dt>", "<dt>优先节点</dt>", "<dt>路由</dt>")
	})
}

// The form takes the precedence of a task, the page of the task shows it, and a copy has it.
func TestSubmit_TakesThePrecedence(t *testing.T) {
	inKnowing(t, func(w *world) {
		fields := append([]string{"type", "http", "id", "a", "payload.url", "http://localhost/a"}, typedPrecedence...)
		w.expectDone("/submit", w.typed("/submit?type=http", fields...), "/tasks/default/a?said=submitted")
		w.expect("/tasks/default/a", "<dt>Priority</dt><dd>9</dd>",
			`<dt>Fair key</dt><dd><code dir="auto">customer-7</code>, weight 3</dd>`,
			`<dt>Limit keys</dt><dd><code dir="auto">b,a</code></dd>`)
		w.expect("/submit?from=default/a", append(shownPrecedence, `<details class="sec" open>`)...)
		w.submit("b", nil)
		text := w.get("/tasks/default/b").text
		for _, none := range []string{"Priority", "Fair key", "Limit keys"} {
			if strings.Contains(text, none) {
				t.Errorf("a task without precedence shows %q:\n%s", none, text)
			}
		}
		w.get("/prefer/language/zh")
		w.expect("/tasks/default/a", "<dt>优先级</dt><dd>9</dd>", "，权重 3</dd>", "<dt>限制键</dt>")
	})
}

func TestForms_SayWhatIsWrongWithAPrecedence(t *testing.T) {
	inKnowing(t, func(w *world) {
		for name, c := range map[string]struct {
			fields []string
			wrong  string // the field
			said   string
		}{
			"no number":       {[]string{"priority", "high"}, "priority", "a whole number from 0 on"},
			"too urgent":      {[]string{"priority", "10"}, "priority", "10 must be 0 to 9"},
			"a blank":         {[]string{"fair_key", "customer 7"}, "fair_key", "must be 1 to 100 characters of"},
			"no weight":       {[]string{"fair_key", "a", "fair_weight", "x"}, "fair_weight", "a whole number from 1 on"},
			"a weight alone":  {[]string{"fair_weight", "2"}, "fair_weight", "key: belongs to the fair key"},
			"a weight of 0":   {[]string{"fair_key", "a", "fair_weight", "0"}, "fair_weight", "a whole number from 1 on"},
			"a great weight":  {[]string{"fair_key", "a", "fair_weight", "101"}, "fair_weight", "101 must be 1 to 100"},
			"a weight of -1":  {[]string{"fair_key", "a", "fair_weight", "-1"}, "fair_weight", "a whole number from 1 on"},
			"a wrong key":     {[]string{"limit_key", "a, b"}, "limit_key", "must be 1 to 100 characters of"},
			"a key twice":     {[]string{"limit_key", "a,a"}, "limit_key", "twice: name each key once"},
			"below the least": {[]string{"priority", "-1"}, "priority", "a whole number from 0 on"},
			"a wrong label":   {[]string{"select", "a=b=c"}, "select", "term 1"},
			"no preference":   {[]string{"prefer", "a:b"}, "prefer", "must be like 10:zone=eu"},
			"a wrong wish":    {[]string{"prefer", "a\n101:b"}, "prefer", "[1].weight: 101 must be 1 to 100"},
			"no route":        {[]string{"route", "nearest"}, "route", "by: &#34;nearest&#34; must be one of any, first"},
			"no JSON":         {[]string{"route", `{"by": "hash"`}, "route", "must be like round, or"},
			"a route's field": {[]string{"route", `{"by": "hash", "name": "a"}`}, "route", "must be like round, or"},
			"no key":          {[]string{"route", "hash"}, "route", "key: is missing"},
		} {
			t.Run(name, func(t *testing.T) {
				fields := append([]string{"type", "http", "payload.url", "http://localhost/a"}, c.fields...)
				w.expectRefused("/submit", w.typed("/submit?type=http", fields...), `id="w-`+c.wrong+`"`, c.said)
				fields = append([]string{"every", "1h", "payload.url", "http://localhost/a"}, c.fields...)
				got := w.send(http.MethodPost, newSchedulePath, w.inFields("put", fields...))
				if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.text, `id="w-`+c.wrong+`"`) ||
					!strings.Contains(got.text, c.said) || !strings.Contains(got.text, `<details class="sec" open>`) {
					t.Errorf("a schedule: %d\n%s", got.status, got.text)
				}
			})
		}
	})
}

// The fields of a new schedule give its tasks their precedence, and so does the text that they make.
func TestScheduleFields_TakeThePrecedence(t *testing.T) {
	inKnowing(t, func(w *world) {
		fields := append([]string{"every", "1h", "payload.url", "http://localhost/a"}, typedPrecedence...)
		fields = append(fields, typedReach...)
		form := w.inFields("check", fields...)
		text := w.reshaped(newSchedulePath, maps.Clone(form), showText, "true").Get("text")
		for _, line := range []string{"priority: 9\n", "fair_key: customer-7\n", "fair_weight: 3\n", "limit_key: b,a\n"} {
			if !strings.Contains(text, line) {
				t.Errorf("the text lacks %q:\n%s", line, text)
			}
		}
		form.Set("do", "put")
		w.expectDone(newSchedulePath, w.checked(newSchedulePath, form), "/schedules/shop/a?n=1&said=put")
		got, err := w.control.GetSchedule(w.ctx, control.Caller{Namespace: "shop"}, "a")
		if err != nil || got.Task.Priority != 9 || got.Task.FairKey != "customer-7" || got.Task.FairWeight != 3 ||
			got.Task.LimitKey != "b,a" || got.Task.Reach != "gpu,zone~in~(eu,us);10*a=b|1*!spot;hash:61:;4" {
			t.Errorf("%v, %+v, reach %q", err, got.Task, got.Task.Reach)
		}
	})
}
