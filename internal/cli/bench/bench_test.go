package bench_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// deployment is a stub that runs tasks as the test says.
type deployment struct {
	*clitest.Stub

	// run turns an accepted task, the n-th, into what became of it by the first look.
	run func(n int, t *wire.Task)
	// unlisted keeps tasks off the list of finished ones.
	unlisted bool
	page     int // rows of a page

	mu          sync.Mutex
	submissions []wire.Submission
	tasks       map[string]*wire.Task
	cancelled   []string
	looked      chan struct{} // gets one for each look at the list, if there is room
}

// deploy starts a deployment whose worker serves the queues bench and default.
func deploy(t *testing.T, run func(n int, t *wire.Task)) *deployment {
	d := &deployment{Stub: clitest.Start(t), run: run, page: 4, tasks: map[string]*wire.Task{}, looked: make(chan struct{}, 1)}
	d.On("GET /v1/nodes", 200, wire.NodeList{Nodes: []wire.Node{node(wire.Alive, "bench", "default")}})
	d.Handle("POST /v1/tasks/batch", d.accept)
	d.Handle("GET /v1/tasks", d.list)
	d.Handle("GET /v1/tasks/{id}", func(w http.ResponseWriter, r *http.Request) { d.answer(w, r.PathValue("id"), false) })
	d.Handle("DELETE /v1/tasks/{id}", func(w http.ResponseWriter, r *http.Request) { d.answer(w, r.PathValue("id"), true) })
	return d
}

func node(state wire.NodeState, queues ...string) wire.Node {
	weights := map[string]int{}
	for _, q := range queues {
		weights[q] = 1
	}
	return wire.Node{ID: "n1", Roles: []string{"worker"}, State: state, Partitions: []int{}, Queues: weights}
}

func (d *deployment) accept(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var batch wire.SubmissionBatch
	testkit.Must(d.T, json.NewDecoder(r.Body).Decode(&batch))
	var a wire.BatchAnswer
	for _, s := range batch.Tasks {
		task := clitest.Task(*s.ID, wire.StateScheduled)
		a.Results = append(a.Results, wire.BatchResult{Status: 201, Task: &task})
		ran := task
		d.run(len(d.submissions), &ran)
		d.submissions = append(d.submissions, s)
		d.tasks[ran.ID] = &ran
	}
	d.Reply(w, 200, a)
}

// list answers tasks that have ended, among tasks of others.
func (d *deployment) list(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rows := []wire.Task{clitest.Task("other", wire.StateSucceeded, clitest.Ran), clitest.Task("bench-other-000000", wire.StateFailed)}
	for _, id := range slices.Sorted(maps.Keys(d.tasks)) {
		if t := d.tasks[id]; t.FinishedAt != nil && !d.unlisted {
			rows = append(rows, *t)
		}
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor")) // no cursor is the start
	page := wire.TaskList{Tasks: rows[from:min(from+d.page, len(rows))]}
	if from+d.page < len(rows) {
		page.NextCursor = new(strconv.Itoa(from + d.page))
	}
	select {
	case d.looked <- struct{}{}:
	default:
	}
	d.Reply(w, 200, page)
}

// answer shows or cancels a task.
func (d *deployment) answer(w http.ResponseWriter, id string, cancel bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tasks[id]
	switch {
	case t == nil:
		d.Reply(w, 404, clitest.Problem(404, wire.TaskNotFound, "", "no such task"))
		return
	case cancel && t.FinishedAt != nil:
		d.Reply(w, 409, clitest.Problem(409, wire.TaskFinished, "", "it has ended"))
		return
	case cancel:
		d.cancelled = append(d.cancelled, id)
		t.State, t.FinishedAt = wire.StateCancelled, new(wire.At(clitest.Now))
	}
	d.Reply(w, 200, t)
}

// startedAfter makes a task one that succeeded and was started so long after its due time.
func startedAfter(late time.Duration) func(*wire.Task) {
	return func(t *wire.Task) {
		t.State, t.StartedAt, t.FinishedAt = wire.StateSucceeded, new(wire.At(t.RunAt.Add(late))), new(wire.At(t.RunAt.Add(late+time.Millisecond)))
	}
}

// varying are the parts of the output that differ from run to run.
var varying = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`bench-[a-z2-7]{8}`), "NAME"},
	{regexp.MustCompile(`(submitted[_ ]per[_ ]second"?[\t :]*)[0-9.]+`), "${1}RATE"},
}

func fixed(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.by)
	}
	return text
}

func lateInTurn(late ...time.Duration) func(int, *wire.Task) {
	return func(n int, t *wire.Task) { startedAfter(late[n%len(late)])(t) }
}

func TestBench_PrintsALineForEachFigureInAPipe(t *testing.T) {
	t.Parallel()
	d := deploy(t, lateInTurn(time.Millisecond, 2*time.Millisecond, 2*time.Millisecond, 3*time.Millisecond, 1500*time.Millisecond))
	got := d.Pipe().Run(t, "bench", "--tasks", "10", "--delay", "0")
	want := "name\tNAME\nqueue\tbench\ndelay\t0s\nrate\t0\ntasks\t10\nsubmitted\t10\nsubmitted_per_second\tRATE\nsucceeded\t10\nfailed\t0\n" +
		"cancelled\t0\nunread\t0\nearly\t0\nlateness_p50\t2ms\nlateness_p90\t1.5s\nlateness_p99\t1.5s\nlateness_max\t1.5s\n"
	if got.Code != 0 || fixed(got.Out) != want || got.Err != "" {
		t.Errorf("%+v\nwant %q", got, want)
	}
}

func TestBench_ShowsAHistogramAndItsProgressOnATerminal(t *testing.T) {
	t.Parallel()
	d := deploy(t, lateInTurn(time.Millisecond, 2*time.Millisecond, 2*time.Millisecond, 7*time.Millisecond))
	got := d.Terminal().Run(t, "bench", "--tasks", "4", "--delay", "0")
	bar := func(n int) string { return strings.Repeat("█", n) }
	want := "lateness max          7ms\n\nTasks by lateness:\n\n" +
		"  1 ms │" + bar(35) + " 1\n" + "2-4 ms │" + bar(70) + " 2\n" + "5-9 ms │" + bar(35) + " 1\n\n" +
		"The tasks expire a minute after their end.\n"
	if got.Code != 0 || !strings.HasSuffix(got.Out, want) || !strings.Contains(got.Out, "\nearly                 0\n") {
		t.Errorf("code %d\n%s\nwant an end of\n%s", got.Code, got.Out, want)
	}
	if last := bar(30) + " 4 of 4 ended, 4 submitted\r\x1b[K"; !strings.HasSuffix(got.Err, last) {
		t.Errorf("messages %q, want %q at the end", got.Err, last)
	}
}

func TestBench_GivesTheFiguresAsData(t *testing.T) {
	t.Parallel()
	d := deploy(t, lateInTurn(0, time.Millisecond))
	got := d.Pipe().Run(t, "bench", "--tasks", "2", "--delay", "0", "--rate", "1000", "-o", "json")
	want := `{"name":"NAME","queue":"bench","delay":"0s","rate":1000,"tasks":2,"submitted":2,"submitted_per_second":RATE,"succeeded":2,"failed":0,` +
		`"cancelled":0,"unread":0,"early":0,"lateness_ms":{"p50":0,"p90":1,"p99":1,"max":1},` +
		`"histogram":[{"from_ms":0,"to_ms":0,"tasks":1},{"from_ms":1,"to_ms":1,"tasks":1}]}` + "\n"
	if got.Code != 0 || fixed(got.Out) != want {
		t.Errorf("%+v\nwant %s", got, want)
	}
	if got := d.Pipe().Run(t, "bench", "--tasks", "1", "--delay", "0", "-o", "yaml"); got.Code != 0 || !strings.Contains(got.Out, "\nlateness_ms:\n  p50: 0\n") {
		t.Errorf("%+v", got)
	}
}

func TestBench_SubmitsTasksThatLeaveNoTrace(t *testing.T) {
	t.Parallel()
	d := deploy(t, lateInTurn(0))
	d.page = 500
	if got := d.Pipe().Run(t, "bench", "-n", "space", "--tasks", "1001", "--delay", "1ms", "--queue", "default"); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	batches := slices.DeleteFunc(d.Lines(), func(line string) bool { return !strings.HasPrefix(line, "POST") })
	if want := "POST /v1/tasks/batch?namespace=space"; !slices.Equal(batches, []string{want, want}) {
		t.Errorf("submitted with %q, want two of %s", batches, want)
	}
	name := (*d.submissions[0].Labels)["bench"]
	for i, want := range map[int]string{0: name + "-000000", 999: name + "-000999", 1000: name + "-001000"} {
		s := d.submissions[i]
		if *s.ID != want || s.Type != "noop" || *s.Queue != "default" || *s.Delay != "1ms" || *s.Retry.MaxAttempts != 1 || *s.Retention != "1m0s" ||
			*s.Owner != "dtsctl bench" || (*s.Labels)["bench"] != name {
			t.Errorf("submitted %+v, want the id %s", s, want)
		}
	}
}

func TestBench_RefusesAQueueThatNoWorkerServes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nodes []wire.Node
		want  string
	}{
		"others": {
			[]wire.Node{node(wire.Alive, "low", "default"), node(wire.Draining, "bench"), node(wire.Dead, "bench")},
			"Use one that workers serve (default, low), such as with --queue default,\n" +
				"or start a worker that serves it: dtsd serve --queues ...,bench=1\n",
		},
		"none of the usual name": {
			[]wire.Node{node(wire.Alive, "reports")},
			"Use one that workers serve (reports), such as with --queue reports,\n" +
				"or start a worker that serves it: dtsd serve --queues ...,bench=1\n",
		},
		"no worker": {[]wire.Node{node(wire.Alive)}, "There is no worker at all. Start one: dtsd serve --queues default,bench=1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := clitest.Start(t)
			s.On("GET /v1/nodes", 200, wire.NodeList{Nodes: c.nodes})
			s.Pipe().Run(t, "bench").Expect(t, 1, "", "dtsctl: no worker serves the queue bench, so nothing was submitted\n"+c.want)
		})
	}
}

func TestBench_EndsWithOneIfATaskDidNotRunAsItShould(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run  func(*wire.Task)
		want string
	}{
		"failed": {func(t *wire.Task) {
			startedAfter(0)(t)
			t.State, t.Error = wire.StateFailed, new("lost")
		}, "dtsctl: 1 task failed, such as NAME-000001: lost\n"},
		"early":     {startedAfter(-2 * time.Millisecond), "dtsctl: 1 task started before they were due\n"},
		"cancelled": {func(t *wire.Task) { t.State, t.FinishedAt = wire.StateCancelled, new(t.RunAt) }, "dtsctl: somebody cancelled 1 task\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, func(n int, t *wire.Task) {
				startedAfter(time.Millisecond)(t)
				if n == 1 {
					*t = clitest.Task(t.ID, wire.StateScheduled, c.run)
				}
			})
			got := d.Pipe().Run(t, "bench", "--tasks", "3", "--delay", "0")
			if got.Code != 1 || fixed(got.Err) != c.want || !strings.Contains(got.Out, "\n"+name+"\t1\n") {
				t.Errorf("%+v\nwant %q", got, c.want)
			}
		})
	}
}

func TestBench_AsksForTasksThatAreNotOnTheList(t *testing.T) {
	t.Parallel()
	d := deploy(t, lateInTurn(5*time.Millisecond))
	d.unlisted = true
	got := d.Pipe().Run(t, "bench", "--tasks", "3", "--delay", "0")
	if got.Code != 0 || got.Err != "" || !strings.Contains(got.Out, "\nsucceeded\t3\n") || !strings.Contains(got.Out, "\nlateness_p50\t5ms\n") {
		t.Errorf("%+v", got)
	}
}

func TestBench_TellsOfTasksThatTheServerForgot(t *testing.T) {
	t.Parallel()
	d := deploy(t, func(n int, t *wire.Task) {
		startedAfter(time.Millisecond)(t)
		if n > 0 {
			t.ID = "forgotten"
		}
	})
	got := d.Pipe().Run(t, "bench", "--tasks", "3", "--delay", "0")
	want := "dtsctl: the server had forgotten 2 tasks before their ends could be read; the figures lack them\n"
	if got.Code != 0 || got.Err != want || !strings.Contains(got.Out, "\nsucceeded\t1\n") || !strings.Contains(got.Out, "\nunread\t2\n") {
		t.Errorf("%+v", got)
	}
}

// oneOfThree lets the first of three tasks end.
func oneOfThree(n int, t *wire.Task) {
	if n == 0 {
		startedAfter(time.Millisecond)(t)
	}
}

func TestBench_CancelsWhatHasNotBegunWhenInterrupted(t *testing.T) {
	t.Parallel()
	d := deploy(t, oneOfThree)
	j := d.Pipe().Start(t, "bench", "--tasks", "3", "--delay", "0")
	testkit.Receive(t, d.looked, "a look at the list")
	j.Interrupt()
	got := j.Wait()
	if got.Code != 130 || got.Err != "Cancelled 2 tasks that had not begun. Those that have ended expire after a minute.\n" {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.Out, "\nsucceeded\t1\n") || !strings.Contains(got.Out, "\ncancelled\t2\n") || len(d.cancelled) != 2 {
		t.Errorf("cancelled %q and printed\n%s", d.cancelled, got.Out)
	}
}

func TestBench_CancelsWhatHasNotBegunAtTheTimeout(t *testing.T) {
	t.Parallel()
	d := deploy(t, oneOfThree)
	got := d.Pipe().Run(t, "bench", "--tasks", "3", "--delay", "0", "--timeout", "1.5s")
	want := "Cancelled 2 tasks that had not begun. Those that have ended expire after a minute.\n" +
		"dtsctl: only 1 of 3 tasks have ended within 1.5s: are the workers busy, or is the queue bench paused?\n"
	if got.Code != 1 || got.Err != want || !strings.Contains(got.Out, "\ncancelled\t2\n") || len(d.cancelled) != 2 {
		t.Errorf("%+v\nwant %s", got, want)
	}
}

func TestBench_StopsAtTheFirstRefusal(t *testing.T) {
	t.Parallel()
	d := deploy(t, oneOfThree)
	full := clitest.Problem(503, wire.Unavailable, "", "Redis is nearly full")
	sh := d.Pipe()
	sh.Transport = clitest.RoundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := d.Transport.RoundTrip(r)
		if err != nil || !strings.HasSuffix(r.URL.Path, "/batch") {
			return answer, err
		}
		var a wire.BatchAnswer
		testkit.Must(t, json.NewDecoder(answer.Body).Decode(&a))
		_ = answer.Body.Close()
		a.Results[2] = wire.BatchResult{Status: 503, Error: &full}
		return clitest.Answer(r, 200, clitest.JSON(t, a)), nil
	})
	got := sh.Run(t, "bench", "--tasks", "3", "--delay", "0")
	if got.Code != 1 || got.Out != "" || !strings.HasSuffix(got.Err, "dtsctl: Redis is nearly full (unavailable)\n") || len(d.cancelled) != 2 {
		t.Errorf("%+v; cancelled %q", got, d.cancelled)
	}
}

func TestBench_TellsWhatIsLeftIfTheServerGoesAway(t *testing.T) {
	t.Parallel()
	d := deploy(t, oneOfThree)
	sh := d.Pipe()
	sh.Transport = clitest.RoundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet && r.URL.Path == "/v1/tasks" || r.Method == http.MethodDelete {
			return nil, http.ErrServerClosed
		}
		return d.Transport.RoundTrip(r)
	})
	got := sh.Run(t, "bench", "--tasks", "3", "--delay", "0")
	want := "dtsctl: cannot cancel all that has not begun: http: Server closed; the ids of the tasks begin with NAME\n"
	if got.Code != 3 || got.Out != "" || !strings.HasPrefix(fixed(got.Err), want) {
		t.Errorf("%+v\nwant %s", got, want)
	}
}
