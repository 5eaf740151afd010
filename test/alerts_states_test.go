package test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// scrape is what the nodes of a fleet export at one time: the values, by series in the notation of Prometheus.
type scrape map[string]float64

// exported is a line of an answer of /metrics.
var exported = regexp.MustCompile(`^(dts_[a-z0-9_]+)(?:\{(.*)\})? (\S+)$`)

// scrapeAll scrapes nodes as Prometheus would: each series gets the label of its node.
func scrapeAll(t *testing.T, nodes map[string]*node) scrape {
	t.Helper()
	found := scrape{}
	for instance, n := range nodes {
		answer, err := http.Get(n.url + "/metrics")
		testkit.Must(t, err)
		body, err := io.ReadAll(answer.Body)
		testkit.Must(t, err)
		testkit.Must(t, answer.Body.Close())
		for line := range strings.Lines(string(body)) {
			m := exported.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil {
				continue
			}
			value, err := strconv.ParseFloat(m[3], 64)
			testkit.Must(t, err)
			labels := fmt.Sprintf("instance=%q", instance)
			if m[2] != "" {
				labels += "," + m[2]
			}
			found[fmt.Sprintf("%s{%s}", m[1], labels)] = value
		}
	}
	return found
}

// total adds up the series of a metric that have a text in their labels.
func (s scrape) total(metric, labels string) (sum float64) {
	for series, value := range s {
		if strings.HasPrefix(series, metric+"{") && strings.Contains(series, labels) {
			sum += value
		}
	}
	return sum
}

// condition is one in which nodes were scraped, and the alerts that it must raise.
type condition struct {
	name   string
	before scrape // when the condition began
	in     scrape
	alerts []string
}

// The alerts see what nodes really export: a metric or a label that is renamed fails the test.
func TestAlerts_FireInTheStatesOfRealNodes(t *testing.T) {
	t.Parallel()
	rules := alertRules(t)
	conditions := liveThrough(t)
	var all []string
	for _, c := range conditions {
		for series := range c.in {
			all = append(all, series)
		}
	}
	for _, r := range rules {
		checkNames(t, r, all)
	}
	folder := t.TempDir()
	text, err := os.ReadFile(filepath.Join(alertsFolder, alertsFile))
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(filepath.Join(folder, alertsFile), text, 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(folder, "states.yaml"), unitTests(t, rules, conditions), 0o600))
	promtool(t, folder, "test", "rules", "states.yaml")
}

// liveThrough leads a fleet of two nodes through conditions, one after the other, and scrapes it in each.
func liveThrough(t *testing.T) (conditions []condition) {
	t.Helper()
	redis := redistest.Start(t)
	testkit.Must(t, redis.DB(t).ConfigSet(t.Context(), "maxmemory", "1gb").Err())
	serve := []string{"serve", "--redis", redis.URL(), "--heartbeat", "300ms", "--enable-shell", "--concurrency", "2"}
	front := startProcess(t, append(serve, "--roles", "scheduler,api")...)
	worker := startProcess(t, append(serve, "--roles", "worker")...)
	nodes := map[string]*node{"front": front, "worker": worker}
	before := scrape{}
	enter := func(name string, reached func(scrape) bool, alerts ...string) {
		t.Helper()
		var now scrape
		await(t, 30*time.Second, name, func() bool { now = scrapeAll(t, nodes); return reached(now) })
		conditions = append(conditions, condition{name: name, before: before, in: now, alerts: alerts})
		before = now
	}
	shell := func(id, script string) wire.Submission {
		return wire.Submission{
			ID: ptr(id), Type: "shell", Payload: fmt.Appendf(nil, `{"command": ["sh", "-c", %q]}`, script),
			Retry: &wire.Retry{MaxAttempts: ptr(1)},
		}
	}

	front.submit(noop("calm", "{}"))
	enter("all is well", func(s scrape) bool {
		return s.total("dts_tasks_ended_total", "succeeded") == 1 && s.total("dts_leases_held", "") == 16
	})
	conditions[0].before = conditions[0].in

	front.putSecondly("failing", func(d *wire.ScheduleDefinition) {
		d.PauseOnFailure = ptr(1)
		d.Task = wire.TaskTemplate{
			Type: "shell", Payload: []byte(`{"command": ["false"]}`), Retry: &wire.Retry{MaxAttempts: ptr(1)},
		}
	})
	enter("a schedule pauses itself", func(s scrape) bool {
		return s.total("dts_schedules_paused_total", "") == 1 && s.total("dts_tasks_ended_total", `"failed"`) >= 1 &&
			s.total("dts_queue_attempts_total", `"failed"`) >= 1
	}, "DtsSchedulePaused", "DtsFailuresJumped")

	front.submit(shell("long-1", "sleep 600"), shell("long-2", "sleep 600"), shell("next", "true"))
	enter("all slots are taken", func(s scrape) bool { return s.total("dts_running", "") == 2 }, "DtsWorkersFull")

	front.bound("closed", 1)
	refused := noop("full", "{}")
	refused.Queue = ptr("closed")
	enter("a queue is full", func(s scrape) bool {
		_, err := front.SubmitTaskWithResponse(t.Context(), nil, refused)
		testkit.Must(t, err)
		refused.ID = ptr(fmt.Sprint(*refused.ID, "-"))
		return s.total("dts_refused_submissions_total", "queue_full") >= 1
	}, "DtsSubmissionsRefused")

	worker.kill()
	delete(nodes, "worker")
	enter("the worker has died", func(s scrape) bool {
		return s.total("dts_nodes", `"dead"`) == 1 && s.total("dts_reaped_attempts_total", "") == 2 &&
			s.total("dts_overdue", "") > 0
	}, "DtsNodeDied", "DtsAttemptsLost", "DtsNoWorkers")

	redis.Kill()
	enter("Redis is away", func(s scrape) bool {
		if s.total("dts_redis_up", "") > 0 { // before, a request takes seconds
			return false
		}
		_, err := front.GetTaskWithResponse(t.Context(), "calm", nil)
		testkit.Must(t, err)
		return s.total("dts_api_requests_total", `route="/v1/tasks/{id}",status="503"`) > 0
	}, "DtsRedisDown", "DtsApiErrors")

	redis.Restart() // it had no persistence
	enter("Redis has lost its data", func(s scrape) bool { return s.total("dts_redis_data_lost_total", "") > 0 },
		"DtsRedisLostWrites")

	front.kill()
	clear(nodes)
	enter("no node is there", func(scrape) bool { return true }, "DtsAbsent")
	return conditions
}

// promSeries and the others are the parts of a file of unit tests of promtool that this one needs.
type (
	promSeries struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	}
	promSample struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
	}
	promQuery struct {
		Expr    string       `yaml:"expr"`
		At      string       `yaml:"eval_time"`
		Samples []promSample `yaml:"exp_samples"`
	}
	promTest struct {
		Name     string       `yaml:"name"`
		Interval string       `yaml:"interval"`
		Series   []promSeries `yaml:"input_series"`
		Queries  []promQuery  `yaml:"promql_expr_test"`
	}
	promFile struct {
		Rules []string   `yaml:"rule_files"`
		Every string     `yaml:"evaluation_interval"`
		Tests []promTest `yaml:"tests"`
	}
)

// unitTests writes unit tests in which each condition begins after 20 minutes and lasts for 40.
func unitTests(t *testing.T, rules []rule, conditions []condition) []byte {
	t.Helper()
	file := promFile{Rules: []string{alertsFile}, Every: "1m"}
	used := func(series string) bool {
		name, _, _ := strings.Cut(series, "{")
		return slices.ContainsFunc(rules, func(r rule) bool { return strings.Contains(r.Expr, name) })
	}
	for _, c := range conditions {
		test := promTest{Name: c.name, Interval: "1m"}
		for _, series := range slices.Sorted(keysOf(c.before, c.in)) {
			if used(series) && (!isCounter(series) || c.before[series]+c.in[series] > 0) {
				test.Series = append(test.Series, promSeries{series, c.values(series)})
			}
		}
		for _, alert := range c.alerts {
			query := promQuery{Expr: fmt.Sprintf(`count(ALERTS{alertname=%q,alertstate="firing"}) > bool 0`, alert), At: "50m"}
			query.Samples = []promSample{{Labels: "{}", Value: 1}}
			test.Queries = append(test.Queries, query)
		}
		if len(c.alerts) == 0 {
			test.Queries = append(test.Queries, promQuery{Expr: `ALERTS{alertstate="firing"}`, At: "50m"})
		}
		file.Tests = append(file.Tests, test)
	}
	var out bytes.Buffer
	testkit.Must(t, yaml.NewEncoder(&out).Encode(file))
	return out.Bytes()
}

// isCounter reports whether a series only grows. Those that stay at 0 raise no alert, and there are hundreds.
func isCounter(series string) bool {
	name, _, _ := strings.Cut(series, "{")
	return strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_bucket")
}

// keysOf yields the series of two scrapes, each once.
func keysOf(a, b scrape) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for series := range a {
			if !yield(series) {
				return
			}
		}
		for series := range b {
			if _, both := a[series]; !both && !yield(series) {
				return
			}
		}
	}
}

// values are those of a series, one for each minute: as before for 20 minutes, and then as in the condition. A counter
// that has grown grows by as much each minute.
func (c condition) values(series string) string {
	const first, second = 19, 40
	before, was := c.before[series]
	in, is := c.in[series]
	values := fmt.Sprintf("_x%d", first+1)
	if was {
		values = fmt.Sprintf("%gx%d", before, first)
	}
	switch {
	case !is:
		return values + fmt.Sprintf(" _x%d", second)
	case isCounter(series) && was && in > before:
		return values + fmt.Sprintf(" %g+%gx%d", in, in-before, second)
	}
	return values + fmt.Sprintf(" %gx%d", in, second)
}
