package usage_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/usage"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// The estimate is compared with what Redis says of each single key when it looks at every entry.
func TestRead_IsNearWhatRedisSaysOfEachKey(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := storetest.New(t)
	fill(t, w, "small", 500, 4)
	small := total(truth(t, w.DB))
	fill(t, w, "large", 4500, 36)
	kinds := truth(t, w.DB)
	large := total(kinds) - small

	report, err := usage.Read(w.Ctx, w.Layout)
	testkit.Must(t, err)
	for _, k := range report.Kinds {
		if want, known := kinds[k.Kind]; known {
			near(t, string(k.Kind), k.Bytes, want)
		}
	}
	if len(report.Namespaces) != 2 {
		t.Fatalf("namespaces: %+v", report.Namespaces)
	}
	for i, want := range []struct {
		name             string
		bytes            float64
		tasks, schedules float64
	}{{"large", large, 9000, 36}, {"small", small, 1000, 4}} {
		n := report.Namespaces[i]
		if n.Name != want.name {
			t.Errorf("namespace %d is %s", i, n.Name)
		}
		near(t, "bytes of "+n.Name, n.TaskBytes+n.ScheduleBytes, want.bytes)
		near(t, "tasks of "+n.Name, n.Tasks, want.tasks)
		near(t, "schedules of "+n.Name, n.Schedules, want.schedules)
	}
	if len(report.Schedules) != usage.ScheduleLimit || report.Measured != 40 || report.Existing != 40 {
		t.Errorf("%d of %d schedules, %+v", report.Measured, report.Existing, report.Schedules)
	}
	if first := report.Schedules[0].Ref.ID; first != "s0" {
		t.Errorf("%s takes most", first)
	}
}

// near fails the test if an estimate is off by more than 20 %.
func near(t *testing.T, what string, got int64, want float64) {
	t.Helper()
	t.Logf("%s: %d, measured %.0f: %+.1f %%", what, got, want, 100*(float64(got)/want-1))
	if float64(got) < 0.8*want || float64(got) > 1.2*want {
		t.Errorf("%s: %d, want %.0f", what, got, want)
	}
}

// fill creates n tasks that wait, n that have ended, and schedules with long histories; the first one has the longest.
func fill(t *testing.T, w *storetest.World, namespace string, n, schedules int) {
	t.Helper()
	testkit.Must(t, w.NoteNamespaces(w.Ctx, []string{namespace}))
	var waiting, ended []task.Definition
	for i := range n {
		one := task.Definition{Type: "http", Ref: task.Ref{Namespace: namespace, ID: fmt.Sprint("w", i)}}
		one.Payload = []byte(`{"url":"http://h/` + strings.Repeat("w", 200+i%7*40) + `"}`)
		waiting = append(waiting, one)
		one.ID = fmt.Sprint("e", i)
		one.Payload = []byte(`{"url":"http://h/` + strings.Repeat("e", 700+i%5*60) + `"}`)
		ended = append(ended, one)
	}
	for _, created := range w.Tasks.Create(w.Ctx, append(waiting, ended...)) {
		testkit.Must(t, created.Err)
	}
	pipe := w.DB.Pipeline()
	for i, d := range ended {
		end(w, pipe, d.Ref, i)
	}
	for i := range schedules {
		d := storetest.Daily(func(d *schedule.Definition) { d.Ref = task.Ref{Namespace: namespace, ID: fmt.Sprint("s", i)} })
		w.Put(d)
		p := w.KeysOf(d.Ref)
		for k := range 40 {
			pipe.RPush(w.Ctx, string(p.History(d.Ref)), strings.Repeat("h", 300))
			record := fmt.Sprint("tick", k, strings.Repeat("l", 80))
			pipe.ZAdd(w.Ctx, string(p.Ledger(d.Ref)), redis.Z{Score: float64(k), Member: record})
			if i == 0 {
				pipe.RPush(w.Ctx, string(p.History(d.Ref)), strings.Repeat("h", 900))
			}
		}
	}
	_, err := pipe.Exec(w.Ctx)
	testkit.Must(t, err)
}

// end writes what Redis has of a task that has ended.
func end(w *storetest.World, pipe redis.Pipeliner, ref task.Ref, i int) {
	p, name, at := w.KeysOf(ref), ref.String(), float64(1_790_000_000_000+i)
	pipe.ZRem(w.Ctx, string(p.Wheel()), name)
	pipe.ZAdd(w.Ctx, string(p.Expiry()), redis.Z{Score: at, Member: name})
	pipe.ZAdd(w.Ctx, string(p.Index(ref.Namespace, task.Failed)), redis.Z{Score: at, Member: name})
	pipe.HSet(w.Ctx, string(p.States()), name, "failed 2 4 1790000000000 1790000000000 1790000000000 1790000000000 node")
	pipe.HSet(w.Ctx, string(p.Errors()), name, strings.Repeat("x", 100+i%3*50))
	if i%4 == 0 {
		pipe.HSet(w.Ctx, string(p.Results()), name, strings.Repeat("r", 400+i%9*30))
	}
	pipe.RPush(w.Ctx, string(p.Attempts(ref)), strings.Repeat("a", 150+i%4*20))
	if i%2 == 0 {
		for line := range 5 + i%6 {
			id, values := fmt.Sprintf("1-%d", line+1), []string{"text", strings.Repeat("t", 80)}
			pipe.XAdd(w.Ctx, &redis.XAddArgs{Stream: string(p.Log(ref)), ID: id, Values: values})
		}
	}
}

// words are what keys of a kind contain.
var words = []struct {
	word string
	kind usage.Kind
}{
	{":states", usage.States}, {":results", usage.Results}, {":errors", usage.Errors}, {":attempts:", usage.Attempts},
	{":log:", usage.Logs}, {":schedule:", usage.Schedules}, {":schedules", usage.Schedules}, {":ticks", usage.Schedules},
	{":history:", usage.Histories}, {":ledger:", usage.Ledgers}, {":wheel", usage.Waiting}, {":expiry", usage.Ended},
	{":state:", usage.Ended},
}

// truth is what Redis says of all keys, by kind; of those that belong to tasks and schedules.
func truth(t *testing.T, db *redisx.DB) map[usage.Kind]float64 {
	t.Helper()
	kinds := make(map[usage.Kind]float64)
	for scan := db.Scan(t.Context(), 0, "dts:*", 1000).Iterator(); scan.Next(t.Context()); {
		key := scan.Val()
		bytes, err := db.MemoryUsage(t.Context(), key, 0).Result()
		testkit.Must(t, err)
		if strings.HasSuffix(key, ":defs") || strings.HasSuffix(key, ":payloads") {
			ended := shareOfEnded(t, db, key)
			kinds[usage.Ended] += float64(bytes) * ended
			kinds[usage.Waiting] += float64(bytes) * (1 - ended)
			continue
		}
		for _, w := range words {
			if strings.Contains(key, w.word) {
				kinds[w.kind] += float64(bytes)
				break
			}
		}
	}
	return kinds
}

// shareOfEnded is the share of a hash that belongs to tasks of which fill says that they have ended.
func shareOfEnded(t *testing.T, db *redisx.DB, key string) float64 {
	t.Helper()
	all, err := db.HGetAll(t.Context(), key).Result()
	testkit.Must(t, err)
	var ended, sum float64
	for name, value := range all {
		bytes := float64(len(name) + len(value) + 50)
		sum += bytes
		if strings.Contains(name, ":e") {
			ended += bytes
		}
	}
	return ended / max(1, sum)
}

func total(kinds map[usage.Kind]float64) float64 {
	var sum float64
	for _, bytes := range kinds {
		sum += bytes
	}
	return sum
}

// Keys of queues, of workflows with their runs, and of others than DTS, are told apart from tasks and schedules.
func TestRead_TellsDeliveriesAndForeignKeys(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	testkit.Must(t, w.DB.SAdd(w.Ctx, "asynq:queues", "default").Err())
	testkit.Must(t, w.DB.RPush(w.Ctx, "asynq:{default}:pending", strings.Repeat("p", 3000)).Err())
	testkit.Must(t, w.DB.HSet(w.Ctx, "asynq:{default}:t:acme:a:1", "msg", strings.Repeat("m", 5000)).Err())
	testkit.Must(t, w.DB.Set(w.Ctx, "elsewhere", strings.Repeat("x", 20000), 0).Err())
	k, flow, run := w.Keys.Partition(0), task.Ref{Namespace: "acme", ID: "etl"}, "acme:etl@run"
	testkit.Must(t, w.DB.HSet(w.Ctx, string(k.Workflow(flow)), "def", strings.Repeat("w", 6000)).Err())
	testkit.Must(t, w.DB.RPush(w.Ctx, string(k.Revisions(flow)), strings.Repeat("r", 4000)).Err())
	testkit.Must(t, w.DB.ZAdd(w.Ctx, string(k.Line(flow)), redis.Z{Score: 1, Member: run + " 1"}).Err())
	testkit.Must(t, w.DB.ZAdd(w.Ctx, string(k.Workflows()), redis.Z{Member: flow.String()}).Err())
	testkit.Must(t, w.DB.HSet(w.Ctx, string(k.Runs()), run, strings.Repeat("t", 3000)).Err())
	testkit.Must(t, w.DB.HSet(w.Ctx, string(k.Plans()), run, strings.Repeat("p", 9000)).Err())
	testkit.Must(t, w.DB.HSet(w.Ctx, string(k.Asks()), run, strings.Repeat("a", 500)).Err())
	report, err := usage.Read(w.Ctx, w.Layout)
	testkit.Must(t, err)
	for _, k := range report.Kinds {
		want := map[usage.Kind]float64{
			usage.Deliveries: 8500, usage.Foreign: 20500, usage.Workflows: 10500, usage.Runs: 12800,
		}[k.Kind]
		if want > 0 {
			near(t, string(k.Kind), k.Bytes, want)
		}
		if k.Kind == usage.Waiting && k.Bytes != 0 {
			t.Errorf("waiting: %d", k.Bytes)
		}
	}
	if len(report.Namespaces) != 1 || report.Namespaces[0].Name != "acme" || report.Namespaces[0].TaskBytes < 5000 {
		t.Errorf("%+v", report.Namespaces)
	}
}

func TestRead_AsksEachServerOfACluster(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := storetest.InCluster(t)
	var refs []task.Ref
	for i := range 40 {
		refs = append(refs, w.Create(task.Definition{Ref: task.Ref{Namespace: "acme", ID: fmt.Sprint("t", i)}}).Ref)
	}
	report, err := usage.Read(w.Ctx, w.Layout)
	testkit.Must(t, err)
	if len(report.Namespaces) != 1 || report.Namespaces[0].Tasks != int64(len(refs)) || report.Unknown != "" {
		t.Errorf("%+v", report)
	}
}

func TestRead_SaysWhyRedisDoesNotMeasure(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.User("dts", "~*", "&*", "+@all", "-memory"))
	w := storetest.On(t, server.DB(t))
	report, err := usage.Read(w.Ctx, w.Layout)
	testkit.Must(t, err)
	if !strings.Contains(report.Unknown, "NOPERM") || report.Used != 0 {
		t.Errorf("%+v", report)
	}
}

// What the user has no right to know is part of server, or missing, and a warning says so.
func TestRead_WarnsOfWhatRedisRefusesToMeasure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules []string
		want  string
		kinds int
	}{
		"keys of others": {
			[]string{"~dts:*", "~asynq:*"}, `measure 2 of its \d+ keys, such as those of other programs: .* part of server`,
			len(usage.Kinds),
		},
		"INFO": {
			[]string{"~*", "-info"}, "does not say how much memory it uses, so server is missing: NOPERM",
			len(usage.Kinds) - 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.User("dts", append([]string{"&*", "+@all"}, c.rules...)...))
			w := storetest.On(t, server.DB(t))
			testkit.Must(t, server.Admin().MSet(w.Ctx, "elsewhere", strings.Repeat("x", 20000), "nowhere", "y").Err())
			report, err := usage.Read(w.Ctx, w.Layout)
			testkit.Must(t, err)
			if len(report.Warnings) != 1 || !regexp.MustCompile(c.want).MatchString(report.Warnings[0]) {
				t.Errorf("warnings: %q", report.Warnings)
			}
			if len(report.Kinds) != c.kinds || (report.Used > 0) != (c.kinds == len(usage.Kinds)) {
				t.Errorf("%+v", report)
			}
		})
	}
}
