package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/testkit"
)

// TestPutSchedule_NamesTheInvalidField covers the document, the translation and what package schedule finds out: a
// client cannot tell which.
func TestPutSchedule_NamesTheInvalidField(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for _, c := range []struct{ name, fields, field string }{
		{"no times", ``, "cron"},
		{"two ways to name times", `"cron":"@daily","every":"1h",`, "every"},
		{"two other ways", `"every":"1h","specs":[{"every":"1h"}],`, "specs"},
		{"no specs", `"specs":[],`, "specs"},
		{"a spec of nothing", `"specs":[{"every":"1h"},{}],`, "specs[1]"},
		{"a spec of two", `"specs":[{"every":"1h"},{"every":"1h","cron":"@daily"}],`, "specs[1].every"},
		{"an unknown field of a spec", `"specs":[{"evry":"1h"}],`, "specs[0].evry"},
		{"a bad expression", `"cron":"61 * * * *",`, "cron"},
		{"a bad expression among others", `"specs":[{"every":"1h"},{"cron":"* * *"}],`, "specs[1].cron"},
		{"a bad expression alone in a list", `"specs":[{"cron":"* * *"}],`, "cron"},
		{"an empty expression", `"cron":"",`, "cron"},
		{"a zone in an expression", `"cron":"TZ=UTC * * * * *",`, "cron"},
		{"an interval in an expression", `"cron":"@every 1h",`, "cron"},
		{"a date that never comes", `"cron":"0 0 30 2 *",`, "cron"},
		{"an interval of nothing", `"every":"0s",`, "every"},
		{"an interval that is too short", `"every":"99ms",`, "every"},
		{"an interval that is none", `"every":"daily",`, "every"},
		{"a negative interval", `"every":"-1h",`, "every"},
		{"an interval of nothing among others", `"specs":[{"every":"1h"},{"every":"0s"}],`, "specs[1].every"},
		{"an unknown zone", `"every":"1h","timezone":"Europe/Bärlin",`, "timezone"},
		{"an empty zone", `"every":"1h","timezone":"",`, "timezone"},
		{"a start that is no time", `"every":"1h","start_at":"noon",`, "start_at"},
		{"an end before the start", `"every":"1h","start_at":"2026-02-02T00:00:00Z","end_at":"2026-02-01T00:00:00Z",`, "end_at"},
		{"no runs", `"every":"1h","max_runs":0,`, "max_runs"},
		{"a bad exclusion", `"every":"1h","exclude":["2026-12-25","Christmas"],`, "exclude[1]"},
		{"an exclusion that is no text", `"every":"1h","exclude":[20261225],`, "exclude[0]"},
		{"a jitter that is too long", `"every":"1h","jitter":"25h",`, "jitter"},
		{"a jitter in microseconds", `"every":"1h","jitter":"1us",`, "jitter"},
		{"a misfire policy that is none", `"every":"1h","misfire":{"policy":"twice"},`, "misfire.policy"},
		{"a window of nothing", `"every":"1h","misfire":{"window":"0s"},`, "misfire.window"},
		{"a window that is too long", `"every":"1h","misfire":{"window":"9000h"},`, "misfire.window"},
		{"too many misfires", `"every":"1h","misfire":{"max":1001},`, "misfire.max"},
		{"an unknown field of misfire", `"every":"1h","misfire":{"windw":"1h"},`, "misfire.windw"},
		{"an overlap policy that is none", `"every":"1h","overlap":"wait",`, "overlap"},
		{"no failures", `"every":"1h","pause_on_failure":0,`, "pause_on_failure"},
		{"paused that is no boolean", `"every":"1h","paused":"yes",`, "paused"},
		{"an owner that is too long", `"every":"1h","owner":"` + strings.Repeat("é", 101) + `",`, "owner"},
		{"a description that is too long", `"every":"1h","description":"` + strings.Repeat("é", 501) + `",`, "description"},
		{"a label that is no text", `"every":"1h","labels":{"a":1},`, "labels.a"},
		{"a bad namespace", `"every":"1h","namespace":"a b",`, "namespace"},
		{"an id in the body", `"every":"1h","id":"a",`, "id"},
		{"a revision in the body", `"every":"1h","revision":1,`, "revision"},
		{"an unknown field", `"every":"1h","overlp":"skip",`, "overlp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := r.call("PUT", "/v1/schedules/a", `{`+c.fields+`"task":{"type":"http"}}`).problem(t)
			if p.Code != "invalid" || wire.Value(p.Field) != c.field || p.Status != http.StatusBadRequest {
				t.Errorf("%+v, want field %q", p, c.field)
			}
		})
	}
}

// Neither the task of a tick nor a follow-up has a key.
func TestPutSchedule_SaysWhatToUseInsteadOfAKey(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	const once = `{"type":"http","once":{"mode":"singleton","key":"a"}}`
	for body, want := range map[string]string{
		`{"every":"1h","task":` + once + `}`: "task.once: is not a field of this request: use overlap of the schedule, " +
			"which says what becomes of a tick while a task before it has not ended",
		`{"every":"1h","task":{"type":"http","on_end":{"when":"failed","task":` + once + `}}}`: "task.on_end.task.once: " +
			"is not a field of this request: leave it out, as a follow-up has no key",
	} {
		if p := r.call("PUT", "/v1/schedules/a", body).problem(t); p.Detail != want {
			t.Errorf("%s: %q, want %q", body, p.Detail, want)
		}
	}
}

func TestPutSchedule_NamesTheInvalidFieldOfItsTask(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for _, c := range []struct{ name, task, field string }{
		{"no task", ``, "task"},
		{"no type", `"task":{}`, "task.type"},
		{"an id", `"task":{"type":"http","id":"a"}`, "task.id"},
		{"a time", `"task":{"type":"http","run_at":"2026-02-03T00:00:00Z"}`, "task.run_at"},
		{"a delay", `"task":{"type":"http","delay":"1s"}`, "task.delay"},
		{"a bad queue", `"task":{"type":"http","queue":"a b"}`, "task.queue"},
		{"a timeout of nothing", `"task":{"type":"http","timeout":"0s"}`, "task.timeout"},
		{"a timeout that is too long", `"task":{"type":"http","timeout":"169h"}`, "task.timeout"},
		{"a factor out of range", `"task":{"type":"http","retry":{"backoff":{"factor":0.5}}}`, "task.retry.backoff.factor"},
		{"a longest wait that is shorter", `"task":{"type":"http","retry":{"backoff":{"initial":"1m","max":"1s"}}}`, "task.retry.backoff.max"},
		{"a wait that Go cannot hold", `"task":{"type":"http","retry":{"delays":["1m","99999999h"]}}`, "task.retry.delays[1]"},
		{"a wait that is too long", `"task":{"type":"http","retry":{"delays":["1m","1000h"]}}`, "task.retry.delays[1]"},
		{"a payload that is too big", `"task":{"type":"http","payload":"` + strings.Repeat("x", 256<<10) + `"}`, "task.payload"},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := `{"every":"1h"}`
			if c.task != "" {
				body = `{"every":"1h",` + c.task + `}`
			}
			p := r.call("PUT", "/v1/schedules/a", body).problem(t)
			if p.Code != "invalid" || wire.Value(p.Field) != c.field || p.Status != http.StatusBadRequest {
				t.Errorf("%+v, want field %q", p, c.field)
			}
		})
	}
}

func TestScheduleCalls_NameTheInvalidField(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("PUT", "/v1/schedules/a", hourly)
	const from = `"from":"2026-01-01T00:00:00Z"`
	for _, c := range []struct{ name, method, path, body, field string }{
		{"an id of a tick", "PUT", "/v1/schedules/a@b", hourly, "id"},
		{"an id that is too long", "PUT", "/v1/schedules/" + strings.Repeat("a", 161), hourly, "id"},
		{"a body of blanks", "PUT", "/v1/schedules/a", "  ", ""},
		{"no body", "POST", "/v1/schedules/a/backfill", "", ""},
		{"a filter that is no boolean", "GET", "/v1/schedules?paused=maybe", "", "paused"},
		{"a label without a value", "GET", "/v1/schedules?label=team", "", "label[0]"},
		{"a label without a name", "GET", "/v1/schedules?label=a%3Db&label=%3Dx", "", "label[1]"},
		{"a label of two values", "GET", "/v1/schedules?label=a=b&label=a=c", "", "label"},
		{"an owner given twice", "GET", "/v1/schedules?owner=a&owner=b", "", "owner"},
		{"a bad cursor", "GET", "/v1/schedules?cursor=!", "", "cursor"},
		{"an unknown parameter", "GET", "/v1/schedules/a?full=true", "", "full"},
		{"tasks that are none", "DELETE", "/v1/schedules/a?tasks=some", "", "tasks"},
		{"a note that is too long", "POST", "/v1/schedules/a/pause", `{"note":"` + strings.Repeat("é", 251) + `"}`, "note"},
		{"an unknown field of a pause", "POST", "/v1/schedules/a/pause", `{"reason":"x"}`, "reason"},
		{"a backfill without an end", "POST", "/v1/schedules/a/backfill", `{` + from + `}`, "to"},
		{"a backfill that ends before it starts", "POST", "/v1/schedules/a/backfill", `{` + from + `,"to":"2025-12-31T00:00:00Z"}`, "to"},
		{"a backfill of no time", "POST", "/v1/schedules/a/backfill", `{` + from + `,"to":"today"}`, "to"},
		{"a pace that is too slow", "POST", "/v1/schedules/a/backfill", `{` + from + `,"to":"2026-01-02T00:00:00Z","pace":"25h"}`, "pace"},
		{"a pace in microseconds", "POST", "/v1/schedules/a/backfill", `{` + from + `,"to":"2026-01-02T00:00:00Z","pace":"1us"}`, "pace"},
		{"a pace that is none", "POST", "/v1/schedules/a/backfill", `{` + from + `,"to":"2026-01-02T00:00:00Z","pace":"fast"}`, "pace"},
		{"a count of 0", "GET", "/v1/schedules/a/next?count=0", "", "count"},
		{"a count over the limit", "GET", "/v1/schedules/a/next?count=501", "", "count"},
		{"after what is no time", "GET", "/v1/schedules/a/next?after=now", "", "after"},
		{"since what is no time", "GET", "/v1/schedules/a/ledger?since=1h", "", "since"},
		{"a ledger that ends before it starts", "GET", "/v1/schedules/a/ledger?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "", "until"},
		{"gaps that are no boolean", "GET", "/v1/schedules/a/ledger?gaps=all", "", "gaps"},
		{"a bad cursor of a ledger", "GET", "/v1/schedules/a/ledger?cursor=nonsense", "", "cursor"},
		{"an audit that ends before it starts", "GET", "/v1/schedules/a/audit?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "", "to"},
		{"an audit of no time", "GET", "/v1/schedules/a/audit?from=yesterday", "", "from"},
		{"revision 0", "POST", "/v1/schedules/a/rollback", `{"revision":0}`, "revision"},
		{"no revision", "POST", "/v1/schedules/a/rollback", `{}`, "revision"},
		{"no hours", "GET", "/v1/forecast?hours=0", "", "hours"},
		{"hours over the limit", "GET", "/v1/forecast?hours=169", "", "hours"},
		{"a namespace that is none", "GET", "/v1/forecast?namespace=**", "", "namespace"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := r.call(c.method, c.path, c.body, "Content-Type", "application/json").problem(t)
			if p.Code != "invalid" || wire.Value(p.Field) != c.field || p.Status != http.StatusBadRequest {
				t.Errorf("%s %s %.80s: %+v, want field %q", c.method, c.path, c.body, p, c.field)
			}
		})
	}
}

func TestRollbackSchedule_HasACodeForAMissingRevision(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("PUT", "/v1/schedules/a", hourly)
	if p := r.call("POST", "/v1/schedules/a/rollback", `{"revision":2}`).problem(t); p.Code != "revision_not_found" || p.Status != http.StatusNotFound {
		t.Errorf("a revision that never was: %+v", p)
	}
	if p := r.call("POST", "/v1/schedules/a/rollback", `{"revision":1}`, "If-Match", `"2"`).problem(t); p.Code != "schedule_changed" || p.Status != http.StatusPreconditionFailed {
		t.Errorf("a rollback of another revision: %+v", p)
	}
	if got := r.call("POST", "/v1/schedules/a/rollback", `{"revision":1}`, "If-Match", `*`); got.status != http.StatusOK {
		t.Errorf("a rollback of any revision: %d %s", got.status, got.body)
	}
}

// A definition with several faults is told of all of them at once, in its values and in its meaning.
func TestPutSchedule_NamesAllInvalidFields(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for body, want := range map[string][]string{
		`{"every":"daily","jitter":"x","overlap":"wait","misfire":{"max":0},"task":{"type":"a b","retry":{"max_attempts":-1}}}`: {
			"every", "jitter", "misfire.max", "overlap", "task.retry.max_attempts", "task.type",
		},
		`{"cron":"61 * * * *","timezone":"Nowhere/City","exclude":["x","y"],"jitter":"25h","misfire":{"window":"9000h"},` +
			`"task":{"type":"http","timeout":"9000h"}}`: {
			"exclude[0]", "exclude[1]", "cron", "jitter", "misfire.window", "task.timeout", "timezone",
		},
		`{"cron":"61 * * * *","timezone":"Nowhere/City","overlap":"wait","misfire":{"window":"x"},"task":{"type":"noop","timeout":"1x"}}`: {
			"cron", "misfire.window", "overlap", "task.timeout", "timezone",
		},
		`{"cron":"61 * * * *","specs":[{"cron":"x"}],"jitter":"25h","task":{"type":"noop"}}`: {"cron", "jitter", "specs"},
		`{"cron":"61 * * * *","timezone":7,"task":{"type":"noop"}}`:                          nil,
		`{"cron":"61 * * * *","task":{"type":"noop"}}`:                                       nil,
	} {
		answer := r.call("PUT", "/v1/schedules/a", body)
		var p wire.Problem
		testkit.Must(t, json.Unmarshal(answer.body, &p))
		var fields []string
		for _, one := range p.Errors {
			fields = append(fields, wire.Value(one.Field))
		}
		slices.Sort(fields)
		slices.Sort(want)
		if answer.status != 400 || !slices.Equal(fields, want) {
			t.Errorf("%s: %s, fields %q", body, answer.body, fields)
		}
		if len(want) > 0 && (wire.Value(p.Errors[0].Field) != wire.Value(p.Field) || p.Errors[0].Detail != p.Detail) {
			t.Errorf("%s: %s: the first error is another", body, answer.body)
		}
	}
}

// Each task of a batch is told of its own.
func TestSubmitTasks_NamesAllInvalidFieldsOfEach(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	answer := r.call("POST", "/v1/tasks/batch", `{"tasks":[{"type":"a b","timeout":"x"},{"type":"noop"},{"type":"http","id":"a@b","timeout":"x"}]}`)
	var batch wire.BatchAnswer
	testkit.Must(t, json.Unmarshal(answer.body, &batch))
	var got []int
	for _, one := range batch.Results {
		got = append(got, len(wire.Value(one.Error).Errors))
	}
	if !slices.Equal(got, []int{2, 0, 2}) {
		t.Errorf("%s", answer.body)
	}
}
