package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/text/language"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// nested is JSON of some bytes, as deep as a payload may be.
func nested(size int) []byte {
	depth := task.DepthLimit - 1
	text := strings.Repeat("[", depth) + strings.Repeat(`"<",`, (size-2*depth-4)/4) + `"<"` + strings.Repeat("]", depth)
	return []byte(text)
}

// large submits a task of which there is as much of all as there can be, and lets it fail.
func (w *world) large(id string, payload []byte) {
	w.t.Helper()
	text := func(size int) string { return strings.Repeat("<\"&", size/3) }
	ref := w.submit(id, func(d *task.Definition) {
		d.Payload, d.Owner, d.Retry.MaxAttempts = payload, text(task.OwnerLimit), task.AttemptsLimit
		d.Labels = map[string]string{}
		for i := range task.LabelsLimit {
			d.Labels[text(task.LabelLimit-4)+strconv.Itoa(i)] = text(task.LabelLimit)
		}
	})
	for attempt := 1; ; attempt++ {
		run := w.beginAttempt(ref, attempt)
		if attempt <= shownAttempts {
			reason := strconv.Itoa(attempt) + text(task.ErrorLimit-4)
			testkit.Must(w.t, run.Reattempt(w.ctx, time.Second, task.OutcomeFailed, reason))
			testkit.Must(w.t, clock.Sleep(w.ctx, 2*time.Second))
			continue
		}
		var lines []tasks.Line
		for i := range shownLines + 100 {
			lines = append(lines, tasks.Line{Stream: "stderr", Text: strconv.Itoa(i) + text(task.LogLineLimit-4)})
		}
		testkit.Must(w.t, run.Log(w.ctx, 1, lines))
		testkit.Must(w.t, run.Finish(w.ctx, task.Failed, task.OutcomeFailed, text(task.ResultLimit), text(task.ErrorLimit)))
		return
	}
}

func TestTask_IsBoundedWhateverTheTask(t *testing.T) {
	inWorld(t, func(w *world) {
		id := strings.Repeat("x", task.IDLimit)
		for i, size := range []int{task.PayloadLimit, indentedText} {
			id := id[:len(id)-1] + strconv.Itoa(i)
			w.large(id, nested(size))
			page := w.get("/tasks/default/" + id)
			if page.status != http.StatusOK || len(page.text) > sizeLimit {
				t.Errorf("a payload of %d bytes: status %d, %d bytes", size, page.status, len(page.text))
			}
			for _, want := range []string{
				"The newest attempts; there are earlier ones.", "dtsctl task logs " + id, "and ", "stderr</span> <bdi>299",
			} {
				if !strings.Contains(page.text, want) {
					t.Errorf("the page lacks %q", want)
				}
			}
		}
	})
}

// between lets something happen after the first reading of a task, before the others.
type between struct {
	happens func()
	mu      sync.Mutex
	done    atomic.Bool
}

func (b *between) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *between) reading(cmds []redis.Cmder, next func() error) error {
	reads := func(cmd redis.Cmder) bool { return strings.Contains(fmt.Sprint(cmd.Args()), "attempts:default:runs") }
	script := redis.NewScript(lua.ByName("read_tasks").Source).Hash()
	isScript := func(cmd redis.Cmder) bool { return len(cmd.Args()) > 1 && cmd.Args()[1] == script }
	if b.done.Load() || !slices.ContainsFunc(cmds, reads) && !slices.ContainsFunc(cmds, isScript) {
		return next()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	err := next()
	if b.done.CompareAndSwap(false, true) {
		b.happens()
	}
	return err
}

func (b *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return b.reading([]redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

func (b *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return b.reading(cmds, func() error { return next(ctx, cmds) })
	}
}

// A task that begins or ends while its page is read is shown as it was at one moment.
func TestTask_AgreesWithItsAttempts(t *testing.T) {
	for range 5 { // any of the readings may be the first
		inWorld(t, func(w *world) {
			ref := w.submit("runs", nil)
			w.db.AddHook(&between{happens: func() { w.run(ref, 0, task.Succeeded, "", "") }})
			page := w.get("/tasks/default/runs").text
			for verdict, attempt := range map[string]string{"Runs for": ">running<", "Succeeded in": ">succeeded<"} {
				if strings.Contains(page, verdict) != strings.Contains(page, attempt) {
					t.Errorf("%q and %q do not agree:\n%s", verdict, attempt, page)
				}
			}
		})
	}
}

// An attempt that was put off, interrupted or moved is not told as a failure; a failure may have no reason.
func TestTask_SaysWhyItRunsAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		testkit.Must(t, w.store.Advance(w.ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
		for outcome, want := range map[task.Outcome]string{
			task.OutcomeSnoozed:     "Asked to run again later: runs in 60 min<",
			task.OutcomeInterrupted: "Was interrupted as its worker shut down: runs again in 60 min<",
			task.OutcomeMoved:       "Moves to another worker: runs again in 60 min<",
			task.OutcomeFailed:      "Tries again in 60 min<",
		} {
			run := w.begin(w.submit(string(outcome), nil))
			testkit.Must(t, run.Reattempt(w.ctx, time.Hour, outcome, ""))
			if text := w.get("/tasks/default/" + string(outcome)).text; !strings.Contains(text, want) {
				t.Errorf("%s: the page does not say %q:\n%s", outcome, want, text)
			}
		}
	})
}

// The headline and the lists have the beginning of a long error. The page of the task has all of it.
func TestTask_ShowsItsWholeError(t *testing.T) {
	inWorld(t, func(w *world) {
		for id, reason := range map[string]string{
			"traceback": strings.Repeat("in a line of the program\n", 12) + "KeyError: total",
			"a-word":    strings.Repeat("x", task.ErrorLimit-5) + "total",
		} {
			w.run(w.submit(id, nil), time.Second, task.Failed, "", reason)
			if page := w.get("/tasks/default/" + id).text; strings.Count(page, reason+"</pre>") != 2 {
				t.Errorf("%s: the page has not all of the error in its headline and its row:\n%s", id, page)
			}
		}
		w.failed("short")
		w.expectNot("/tasks/default/short", "The whole error")
	})
}

// A row of an attempt has the beginning of a long error, and all of it for who asks, as far as the page has room.
func TestTask_ShowsTheWholeErrorsOfAttempts(t *testing.T) {
	inWorld(t, func(w *world) {
		body := func(attempt int) string {
			return fmt.Sprintf("HTTP 500: %d%s total", attempt, strings.Repeat(" row", 400))
		}
		ref := w.submit("fails", func(d *task.Definition) { d.Retry.MaxAttempts = 9 })
		fail := func(attempt int, reason string) {
			run := w.beginAttempt(ref, attempt)
			testkit.Must(t, run.Reattempt(w.ctx, time.Second, task.OutcomeFailed, reason))
			testkit.Must(t, clock.Sleep(w.ctx, 2*time.Second))
		}
		fail(1, body(1))
		fail(2, "short")
		fail(3, body(3))
		page := w.get("/tasks/default/fails").text
		if strings.Count(page, body(1)+"</pre></details>") != 1 || strings.Count(page, "<details id=") != 2 {
			t.Errorf("the page has not all of the long errors on demand, and only those:\n%s", page)
		}
		const command = "<code>dtsctl task attempts fails -o yaml</code>"
		if !strings.Contains(page, "… [cut on this page]</summary>") || strings.Contains(page, command) {
			t.Errorf("the page does not say that it has cut an error, or says how to read one that it has:\n%s", page)
		}
		if strings.Count(page, body(3)+"</pre>") != 2 || strings.Count(page, body(3)) != 2 {
			t.Errorf("the page has not all of the newest error in its headline and its row:\n%s", page)
		}
	})
}

// A page says how to read the errors for which it has no room, and which text it has cut itself.
func TestTask_SaysHowToReadOlderErrors(t *testing.T) {
	inWorld(t, func(w *world) {
		ref := w.submit("fails", func(d *task.Definition) { d.Retry.MaxAttempts = 40 })
		for attempt := range 30 {
			run := w.beginAttempt(ref, attempt+1)
			testkit.Must(t, run.Reattempt(w.ctx, time.Second, task.OutcomeFailed, strings.Repeat("row ", 600)))
			testkit.Must(t, clock.Sleep(w.ctx, 2*time.Second))
		}
		w.expect("/tasks/default/fails", "Older errors in full: <code>dtsctl task attempts fails -o yaml</code>",
			task.ErrorMark+"</pre>", "… [cut on this page]</td>")
	})
}

// Who has cancelled a task, and why, is in its headline, also if the task never began.
func TestTask_SaysWhyItIsCancelled(t *testing.T) {
	inWorld(t, func(w *world) {
		cancel := func(id, note string) {
			_, err := w.control.CancelTask(w.ctx, me, id, note)
			testkit.Must(t, err)
		}
		w.submit("waits", nil)
		cancel("waits", "not <needed>")
		w.expect("/tasks/default/waits", "Cancelled by ann (not verified): not &lt;needed&gt;</span>")
		w.submit("silent", nil)
		cancel("silent", "")
		w.expect("/tasks/default/silent", "Cancelled by ann (not verified)</span>")
		run := w.begin(w.submit("runs", nil))
		cancel("runs", "too slow")
		w.expect("/tasks/default/runs", "Runs, and is asked to stop by ann (not verified): too slow</span>")
		testkit.Must(t, run.Finish(w.ctx, task.Cancelled, task.OutcomeCancelled, "", "cancelled"))
		w.expect("/tasks/default/runs", "Cancelled by ann (not verified): too slow</span>")
	})
}

// The sentence about a cancellation has no word twice, and tells who from why, in both languages.
func TestTask_SaysItsCancellationInASentence(t *testing.T) {
	for _, c := range []struct{ state, reason, english, chinese string }{
		{"cancelled", "", "Cancelled", "已取消"},
		{"cancelled", "cancelled", "Cancelled", "已取消"},
		{"cancelled", "sold out: no <seats>", "Cancelled: sold out: no &lt;seats&gt;", "已取消：sold out: no &lt;seats&gt;"},
		{"cancelled", "cancelled by ann", "Cancelled by ann", "由 ann 取消"},
		{"cancelled", "asked to stop by ann: cancelled", "Cancelled by ann", "由 ann 取消"},
		{"cancelled", "cancelled by a newer submission", "Cancelled by a newer submission", "由 更新的提交 取消"},
		{"cancelled", "cancelled by somebody at ::1", "Cancelled by somebody at ::1", "由 ::1 的某人 取消"},
		{"cancelled", "cancelled by ann (not verified)", "Cancelled by ann (not verified)", "由 ann（未验证） 取消"},
		{
			"cancelled", "asked to stop by ann: too slow: cancelled",
			"Cancelled by ann: too slow", "由 ann 取消，原因：too slow",
		},
		{
			"running", "asked to stop by ann: too slow",
			"Runs, and is asked to stop by ann: too slow", "运行中，ann 已请求停止，原因：too slow",
		},
	} {
		stops := task.Task{State: task.State(c.state), Error: c.reason, CancelRequested: start}
		if got := string(inEnglish(start).verdict(stops)); got != c.english {
			t.Errorf("%q: %s, want %s", c.reason, got, c.english)
		}
		chinese := &visit{printer: newPrinter(language.SimplifiedChinese), now: start}
		if got := string(chinese.verdict(stops)); got != c.chinese {
			t.Errorf("%q: %s, want %s", c.reason, got, c.chinese)
		}
	}
}

// Lists say of a task that never began why it was cancelled, as its page does.
func TestLists_SayWhyATaskIsCancelled(t *testing.T) {
	inWorld(t, func(w *world) {
		testkit.Must(t, w.store.Advance(w.ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
		w.submit("late", func(d *task.Definition) { d.StartBy = time.Minute })
		w.pass(2 * time.Minute)
		w.follow()
		w.submit("waits", nil)
		w.put("hourly", nil)
		run, err := w.control.TriggerSchedule(w.ctx, me, "hourly")
		testkit.Must(t, err)
		for _, id := range []string{"waits", run.TaskID("hourly")} {
			_, err := w.control.CancelTask(w.ctx, me, id, "not <needed>")
			testkit.Must(t, err)
		}
		w.pass(time.Second)
		w.pack()
		const by = `dir="auto">Cancelled by ann (not verified): not &lt;needed&gt;</td>`
		w.expect("/tasks?state=cancelled", by, "Cancelled, as no worker had begun it within 60 s after it was due</td>")
		w.expect("/bulk/new/retry?state=cancelled", by)
		w.expect("/schedules/default/hourly",
			"asked for by ann (not verified); Cancelled by ann (not verified): not &lt;needed&gt;</td>")
	})
}

// A task that has ended without an attempt gets none, and one that a worker had not begun was not tried.
func TestTask_SaysThatItHadNoAttempt(t *testing.T) {
	inWorld(t, func(w *world) {
		ref := w.submit("due", nil)
		w.claim(1)
		w.expect("/tasks/default/due", "None yet.")
		_, err := w.control.CancelTask(w.ctx, me, ref.ID, "")
		testkit.Must(t, err)
		if got := w.task(ref); got.State != task.Cancelled || got.Attempt != 1 {
			t.Fatalf("the task is %s in attempt %d", got.State, got.Attempt)
		}
		w.expect("/tasks/default/due", "It had none.")
		w.pack()
		w.expect("/tasks", `data-l="Try" class="n">0</td>`)
	})
}

// A log of short lines is shown line by line, the newest ones, and says that there are more.
func TestCutLog_KeepsTheNewestLines(t *testing.T) {
	t.Parallel()
	var lines []task.LogLine
	for i := range shownLines {
		lines = append(lines, task.LogLine{Text: fmt.Sprintf("%03d%s", i, strings.Repeat("x", 200))})
	}
	shown, cut := cutLog(lines)
	if n := len(shown); !cut || n < 50 || n == len(lines) || shown[n-1] != lines[len(lines)-1] {
		t.Errorf("%d lines, more: %t", n, cut)
	}
	if shown, cut := cutLog(lines[:10]); cut || len(shown) != 10 || shown[0] != lines[0] {
		t.Errorf("of 10: %d lines, more: %t", len(shown), cut)
	}
	lines[0].Text = strings.Repeat("x", task.LogLineLimit)
	if shown, cut := cutLog(lines[:1]); !cut || len(shown) != 1 || len(shown[0].Text) > shownLine {
		t.Errorf("a long line: %d lines, more: %t", len(shown), cut)
	}
}

// The list shows why tasks failed, in short, and reads neither payloads nor results.
func TestTasks_ReadsErrorsOnly(t *testing.T) {
	inWorld(t, func(w *world) {
		reason := strings.Repeat("<", task.ErrorLimit)
		for id, size := range map[string]int{"a": 1000, "b": task.PayloadLimit} {
			ref := w.submit(id, func(d *task.Definition) { d.Payload = nested(size) })
			w.run(ref, time.Second, task.Failed, "a result", reason)
		}
		text := w.get("/tasks").text
		if strings.Count(text, `dir="auto">&lt;`) != 2 || strings.Count(text, "&lt;") > 2*shownReason {
			t.Errorf("the list has %d bytes:\n%s", len(text), text)
		}
		v := inEnglish(start)
		v.site, v.who = &Site{Options: Options{Control: w.control}}, me
		found, _, err := readTasks(w.ctx, v)
		testkit.Must(t, err)
		for _, listed := range found.(taskList).Tasks {
			if listed.Error != reason || listed.Payload != nil || listed.Result != "" {
				t.Errorf("%s: payload %.40q, result %.40q, error %q", listed.ID, listed.Payload, listed.Result, listed.Error)
			}
		}
	})
}

// What cannot be read is left out, and the page says so, each thing once.
func TestPages_SayWhatTheyLeaveOut(t *testing.T) {
	inWorld(t, func(w *world) {
		w.submit("a", nil)
		testkit.Must(t, w.db.SAdd(w.ctx, "asynq:queues", "default").Err())
		testkit.Must(t, w.db.Set(w.ctx, "asynq:{default}:pending", "no list", 0).Err())
		for _, path := range []string{"/", "/queues", "/queues/default"} {
			page := w.get(path)
			uncounted := strings.Count(page.text, "the deliveries of queue default are not counted")
			named := strings.Count(page.text, "the key asynq:{default}:pending has the wrong type")
			if page.status != http.StatusOK || uncounted != 1 || named > 1 {
				t.Errorf("%s: status %d, says %d and %d times what it lacks", path, page.status, uncounted, named)
			}
		}
	})
}

// Only the pages of queues tell of queues of asynq whose names are none.
func TestPages_TellOfNoQueueNamesElsewhere(t *testing.T) {
	inWorld(t, func(w *world) {
		testkit.Must(t, w.db.SAdd(w.ctx, "asynq:queues", "no name").Err())
		const text = "no name&#34; is left out, as that is no name"
		w.expect("/queues", text)
		w.expectNot("/", text)
	})
}

// A status is shared for a second, and the time goes on meanwhile.
func TestPage_HasThePresentTime(t *testing.T) {
	inWorld(t, func(w *world) {
		w.get("/nodes")
		w.pass(900 * time.Millisecond)
		w.begin(w.submit("runs", nil))
		page := w.get("/tasks/default/runs")
		now := `data-now="` + clock.Now().UTC().Format(time.RFC3339Nano) + `"`
		if !strings.Contains(page.text, now) || strings.Contains(page.text, "Runs for -") {
			t.Errorf("the page is not of %s, or a time is negative", now)
		}
	})
}

// Readers get what is wrong in their language, and as it was typed.
func TestInvalid_IsInTheLanguageOfTheReader(t *testing.T) {
	t.Parallel()
	v := &visit{printer: newPrinter(languages[1]), query: url.Values{"state": {`<a "b"`}}}
	_, err := v.taskFilter()
	if want := `state: "<a \"b\"" 不是任务的状态`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// While there is no whole index, the list can be whole, and its counts too low.
func TestTasks_ShowWhatCountsLack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.failed("a")
		w.failed("b")
		const lack = "The list may lack tasks, as no leader has begun to build the index of lists."
		for address, wants := range map[string][]string{
			"/tasks?namespace=default":              {lack, "2+ tasks match: 2+ failed.", "Retry 2+…", `<span class="num">0+<`},
			"/tasks?namespace=default&state=failed": {lack, "2+ tasks match: 2+ failed.", "Forget 2+…"},
		} {
			text := w.get(address).text
			for _, want := range append(wants, "/tasks/default/a", "/tasks/default/b") {
				if !strings.Contains(text, want) {
					t.Errorf("%s does not say %q:\n%s", address, want, text)
				}
			}
		}
		w.pack()
		text := w.get("/tasks?namespace=default").text
		if !strings.Contains(text, "2 tasks match: 2 failed.") || strings.Contains(text, "The list may lack") {
			t.Errorf("with an index:\n%s", text)
		}
	})
}

// The sentence tells of what is listed below it.
func TestTasks_TellsOfTheStateThatIsListed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.run(w.submit("a", nil), time.Second, task.Succeeded, "", "")
		w.expect("/tasks", "task matches: 1+ succeeded.")
		w.expect("/tasks?state=failed", `id="sentence" data-live>No task matches.<`)
		w.expect("/tasks?state=succeeded", "task matches: 1+ succeeded.")
		w.expectNot("/tasks?state=bogus", "No task matches.")
	})
}

// The pause of its queue is the first that is said of a task.
func TestTask_SaysThatItsQueueIsPaused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.submit("a", nil)
		w.claim(0)
		testkit.Must(t, w.control.PauseQueue(w.ctx, me, "default", ""))
		w.expect("/tasks/default/a", "Waits, as its queue is paused")
	})
}

// Whoever has cancelled a task first is named: another form says when that was, and that its note is not kept.
func TestCancel_OfACancelledTaskSaysSo(t *testing.T) {
	inWorld(t, func(w *world) {
		ann := me
		ann.Name = "ann"
		w.submit("waits", func(d *task.Definition) { d.Delay = time.Hour })
		running := w.submit("runs", nil)
		w.begin(running)
		const kept, dropped = "already at <time", "Your note was not kept."
		for id, note := range map[string]string{"waits": "mine", "runs": ""} {
			path := "/tasks/default/" + id
			form := w.fill(path, "note", note)
			_, err := w.control.CancelTask(w.ctx, ann, id, "hers")
			testkit.Must(t, err)
			at := w.control.Now(w.ctx).Format("15:04:05")
			w.pass(time.Minute)
			shown := w.get(w.send(http.MethodPost, path+"/cancel", form).header.Get("Location")).text
			if !strings.Contains(shown, kept) || !strings.Contains(shown, at+"</time>, as shown below.") ||
				strings.Contains(shown, dropped) != (note != "") || !strings.Contains(shown, "ann (not verified): hers") {
				t.Errorf("%s, with the note %q: %s", id, note, shown)
			}
		}
		w.submit("mine", func(d *task.Definition) { d.Delay = time.Hour })
		form := w.fill("/tasks/default/mine", "note", "mine")
		for range 2 { // the second time at another node
			w.expectDone("/tasks/default/mine/cancel", form, "/tasks/default/mine?said=cancelled")
			w.serve()
		}
	})
}

func TestTask_MovesWhatRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		testkit.Must(t, w.store.Advance(w.ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
		ref := w.submit("runs", func(d *task.Definition) { d.Type = "train" })
		w.begin(ref)
		page := "/tasks/default/runs"
		w.expectRefused(page+"/move", w.fill(page, "to", "gone"), "no living node has the id or the name")
		w.expectDone(page+"/move", w.fill(page, "to", ""), page+"?said=asked-to-move")
		if got := w.task(ref); got.MoveRequested.IsZero() || got.MoveTo != "" {
			t.Errorf("it is %+v", got)
		}
		w.expect(page, "<dt>Asked to move</dt>", "<dt>Asked by</dt>", "It was asked by ")
	})
}
