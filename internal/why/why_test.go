package why_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/why"
)

// path is one that nothing holds up: node-1 leads, and node-2 has a free slot.
func path(change func(*why.Path)) why.Path {
	p := why.Path{
		Now: now, Queue: "mails", Type: "http", Leader: "node-1", Partition: 3,
		Workers: []why.Worker{{ID: "node-2", Alive: true, Queues: []string{"mails"}, Types: []string{"http"}, Capacity: 1,
			LastBeat: now}},
	}
	if change != nil {
		change(&p)
	}
	return p
}

// cordonOf cordons the worker of a path.
func cordonOf(of, by, note string) func(*why.Path) {
	return func(p *why.Path) { p.Workers[0].Cordon = &why.Cordon{Of: of, By: by, Note: note} }
}

var ref = task.Ref{Namespace: "default", ID: "nightly"}

// expect compares codes, and demands that the words are in the first reason.
func expect(t *testing.T, name string, got []why.Reason, codes []why.Code, words ...string) {
	t.Helper()
	if !slices.Equal(codesOf(got), codes) {
		t.Errorf("%s: %v, want %v", name, codesOf(got), codes)
		return
	}
	for _, r := range got {
		if r.Detail == "" || r.Do == "" || !strings.HasSuffix(r.Detail, ".") || !strings.HasSuffix(r.Do, ".") {
			t.Errorf("%s: %s says %q, and what to do is %q", name, r.Code, r.Detail, r.Do)
		}
	}
	for _, word := range words {
		if !strings.Contains(got[0].Detail+" "+got[0].Do, word) {
			t.Errorf("%s: %q and %q do not tell %q", name, got[0].Detail, got[0].Do, word)
		}
	}
}

func TestOfTask_SaysWhatHoldsItUp(t *testing.T) {
	t.Parallel()
	five := 5
	due := task.Task{Definition: task.Definition{Ref: ref}, State: task.Scheduled, DueAt: now.Add(-time.Minute)}
	later := due
	later.DueAt, later.CreatedAt = now.Add(time.Minute), now.Add(-time.Hour)
	keyed := later
	keyed.Once = &task.Once{Mode: task.OnceDebounce, Key: "mine", Wait: time.Hour}
	behind, unnamed := keyed, keyed
	behind.After = "mine@k1"
	unnamed.DueAt = keyed.CreatedAt.Add(task.HorizonLimit)
	again := later
	again.Attempt, again.MaxAttempts, again.Error, again.FinishedAt = 2, 5, "connection refused", now.Add(-time.Second)
	snoozed, interrupted, moved := again, again, again
	snoozed.MaxAttempts, snoozed.Error = 6, "snoozed for 5m0s"
	ended := func(t task.Task, outcome task.Outcome) why.TaskFacts {
		return why.TaskFacts{Path: path(nil), Task: t, Last: task.Attempt{Outcome: outcome}}
	}
	fair := due
	fair.FairKey, fair.Priority = "shop-7", 3
	queued := due
	queued.State, queued.Attempt = task.Queued, 1
	for _, c := range []struct {
		name  string
		facts why.TaskFacts
		codes []why.Code
		words []string
	}{
		{"future", why.TaskFacts{Path: path(nil), Task: later}, []why.Code{why.NotDue}, []string{"2026-01-02T03:05:05Z",
			"task change nightly --delay 0s"}},
		{"run of a workflow, which needs no worker", why.TaskFacts{
			Path: path(func(p *why.Path) { p.Queue, p.Type = task.WorkflowQueue, task.WorkflowType }), Task: later,
		}, []why.Code{why.NotDue}, []string{"2026-01-02T03:05:05Z"}},
		{"retry", why.TaskFacts{Path: path(nil), Task: again}, []why.Code{why.Retry}, []string{"Attempt 3 of 5",
			"connection refused"}},
		{"debounced", why.TaskFacts{Path: path(nil), Task: keyed}, []why.Code{why.NotDue},
			[]string{`the mode debounce of the key "mine"`}},
		{"behind another one", why.TaskFacts{Path: path(nil), Task: behind}, []why.Code{why.SameKey},
			[]string{"mine@k1, which was submitted with the same key", "dtsctl task cancel mine@k1"}},
		{"behind one that has just ended", why.TaskFacts{Path: path(nil), Task: unnamed}, []why.Code{why.SameKey},
			[]string{`another task with its key, "mine"`}},
		{"snoozed", ended(snoozed, task.OutcomeSnoozed), []why.Code{why.NotDue}, []string{
			"It asked to run again later: attempt 3 is due at 2026-01-02T03:05:05Z.",
			"Attempt 2 does not count: snoozed for 5m0s.",
		}},
		{"interrupted", ended(interrupted, task.OutcomeInterrupted), []why.Code{why.NotDue},
			[]string{"The worker of attempt 2 shut down, so that one does not count."}},
		{"moved", ended(moved, task.OutcomeMoved), []why.Code{why.NotDue}, []string{
			"Attempt 2 was given up so that another worker goes on, and does not count.",
		}},
		{"in turn with other keys", why.TaskFacts{Path: path(func(p *why.Path) { p.Keys = 2 }), Task: fair},
			[]why.Code{why.Delivery}, []string{
				`fair key, "shop-7", take turns with those of 2 other fair keys.`,
				"Its priority is 3: it comes as if it had been due 90 s earlier.",
			}},
		{"in turn without a key", why.TaskFacts{Path: path(func(p *why.Path) { p.Keys = 1 }), Task: due},
			[]why.Code{why.Delivery}, []string{"such tasks take turns with those of another fair key."}},
		{"future, slots taken", why.TaskFacts{Path: path(func(p *why.Path) { p.Workers[0].Running = 1 }), Task: later},
			[]why.Code{why.NotDue}, nil},
		{"future, queue paused", why.TaskFacts{Path: path(func(p *why.Path) { p.Paused = true }), Task: later},
			[]why.Code{why.NotDue, why.QueuePaused}, nil},
		{"no worker any more", why.TaskFacts{Path: path(func(p *why.Path) { p.Workers[0].Alive = false }), Task: due},
			[]why.Code{why.QueueUnserved},
			[]string{"node-2", "2026-01-02T03:04:05Z", "dtsd serve --roles worker --queues mails=1"}},
		{"worker drains", why.TaskFacts{Path: path(func(p *why.Path) { p.Workers[0].Draining = true }), Task: due},
			[]why.Code{why.QueueUnserved}, []string{"node-2 serves it, and is shutting down"}},
		{"worker is cordoned", why.TaskFacts{Path: path(cordonOf("vm", "ann", "a new kernel")), Task: due},
			[]why.Code{why.QueueUnserved}, []string{
				"The node node-2 serves it, and is cordoned by ann: a new kernel.", "dtsctl node uncordon vm)",
			}},
		{"worker is cordoned, nobody knows why", why.TaskFacts{Path: path(cordonOf("node-2", "", "")), Task: due},
			[]why.Code{why.QueueUnserved}, []string{"serves it, and is cordoned.", "dtsctl node uncordon node-2)"}},
		{"worker of the type is cordoned", why.TaskFacts{Path: path(func(p *why.Path) {
			cordonOf("vm", "", "a new kernel")(p)
			other := p.Workers[0]
			other.Types, other.Cordon = []string{"shell"}, nil
			p.Workers = append(p.Workers, other)
		}), Task: due}, []why.Code{why.TypeUnserved}, []string{
			"A node that runs them is cordoned: a new kernel.", "dtsctl node uncordon vm)",
		}},
		{"type", why.TaskFacts{Path: path(func(p *why.Path) { p.Type, p.Setting = "shell", "enable-shell" }), Task: due},
			[]why.Code{why.TypeUnserved}, []string{`"shell"`, "--enable-shell"}},
		{"asynq's server", why.TaskFacts{Path: path(func(p *why.Path) { p.Workers, p.Foreign = nil, 3 }), Task: due},
			[]why.Code{why.Delivery}, nil},
		{"fleet not known", why.TaskFacts{Path: path(func(p *why.Path) { p.Workers, p.FleetUnknown = nil, true }),
			Task: due}, []why.Code{why.Delivery}, nil},
		{"paused", why.TaskFacts{Path: path(func(p *why.Path) { p.Paused, p.PausedBy = true, "ann" }), Task: queued,
			Place: why.Pending}, []why.Code{why.QueuePaused}, []string{"by ann", "dtsctl queue resume mails"}},
		{"paused with a note", why.TaskFacts{Path: path(func(p *why.Path) {
			p.Paused, p.PausedBy, p.PauseNote = true, "ann", "the disk is full"
		}), Task: queued, Place: why.Pending}, []why.Code{why.QueuePaused}, []string{"paused, by ann: the disk is full."}},
		{"taken from a queue paused since", why.TaskFacts{Path: path(func(p *why.Path) { p.Paused = true }), Task: queued,
			Place: why.Taken}, []why.Code{why.Delivery}, nil},
		{"slots", why.TaskFacts{Path: path(func(p *why.Path) {
			p.Holders, p.Ahead = []why.Running{{Ref: task.Ref{Namespace: "shop", ID: "long"}, Node: "node-2",
				StartedAt: now.Add(-time.Hour)}}, &five
		}), Task: due}, []why.Code{why.SlotsTaken}, []string{
			`The only slot for the type "http" in the queue "mails" is taken, on the node node-2`,
			"shop:long since 2026-01-02T02:04:05Z", "dtsctl -n shop task cancel long"}},
		{"a task of several slots that has just begun", why.TaskFacts{Path: path(func(p *why.Path) {
			p.Workers[0].Capacity, p.Workers[0].Running = 3, 0
			p.Holders = []why.Running{{Ref: task.Ref{Namespace: "shop", ID: "long"}, Node: "node-2", Slots: 3,
				StartedAt: now.Add(-time.Hour)}}
		}), Task: due}, []why.Code{why.SlotsTaken}, []string{"All 3 slots"}},
		{"a task elsewhere", why.TaskFacts{Path: path(func(p *why.Path) {
			p.Holders = []why.Running{{Ref: ref,
				Node: "node-9", StartedAt: now}}
		}), Task: due}, []why.Code{why.Delivery}, nil},
		{"no leader", why.TaskFacts{Path: path(func(p *why.Path) { p.Leader = "" }), Task: due}, []why.Code{why.NoLeader},
			[]string{"partition 3"}},
		{"no leader needed", why.TaskFacts{Path: path(func(p *why.Path) { p.Leader = "" }), Task: queued,
			Place: why.Pending}, []why.Code{why.Delivery}, nil},
		{"unreadable", why.TaskFacts{Path: path(nil), Task: task.Task{State: task.Scheduled,
			Damage: "its definition cannot be read"}}, []why.Code{why.Unreadable}, []string{"dtsctl doctor"}},
		{"ended", why.TaskFacts{Path: path(nil), Task: task.Task{State: task.Failed}}, nil, nil},
	} {
		expect(t, c.name, why.OfTask(c.facts), c.codes, c.words...)
	}
}

func TestTaskNow_SaysUntilWhenItMustBegin(t *testing.T) {
	t.Parallel()
	bound := task.Task{Definition: task.Definition{Ref: ref, StartBy: time.Minute}, State: task.Scheduled, DueAt: now,
		CreatedAt: now, MaxAttempts: 3, FinishedAt: now}
	const text = "It waits for attempt 1 of 3."
	for name, c := range map[string]struct {
		change func(t *task.Task)
		want   string
	}{
		"no bound": {func(t *task.Task) { t.StartBy = 0 }, text},
		"bound":    {func(*task.Task) {}, text + " If no worker begins it by 2026-01-02T03:05:05Z, it is cancelled then."},
		"behind another one": {func(t *task.Task) {
			t.Once, t.DueAt = &task.Once{Mode: task.OnceLatest}, now.Add(task.HorizonLimit)
		}, text + " If no worker begins it within 1m0s after it is due, it is cancelled then."},
		"begun before": {func(t *task.Task) { t.Attempt = 1 }, "It waits for attempt 2 of 3."},
		"expired": {func(t *task.Task) {
			t.Error, _ = t.Late(now.Add(time.Hour))
			t.State = task.Cancelled
		}, "It was cancelled at 2026-01-02T03:04:05Z, as no worker had begun it within 1m0s after it was due."},
		"cancelled": {func(t *task.Task) { t.State = task.Cancelled }, "It was cancelled at 2026-01-02T03:04:05Z."},
	} {
		changed := bound
		c.change(&changed)
		if got := why.TaskNow(changed); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestOfTask_CountsHowManyGoFirst(t *testing.T) {
	t.Parallel()
	five := 5
	p := path(func(p *why.Path) { p.Workers[0].Running, p.Ahead = 1, &five })
	r := why.OfTask(why.TaskFacts{Path: p, Task: task.Task{State: task.Scheduled, DueAt: now}})
	if len(r) != 1 || r[0].Ahead == nil || *r[0].Ahead != 5 {
		t.Errorf("%+v, want 5 ahead", r)
	}
}

func TestOfTask_SaysWhatKeepsARunFromEnding(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	for _, c := range []struct {
		name   string
		left   time.Duration // of the lease
		asked  string        // to do what
		leader string
		codes  []why.Code
	}{
		{"runs", 2500 * time.Millisecond, "", "node-1", nil},
		{"one extension is missing", 900 * time.Millisecond, "", "", []why.Code{why.WorkerSilent}},
		{"nobody ends it", -time.Second, "", "", []why.Code{why.WorkerSilent, why.NoLeader}},
		{"is to stop", 2500 * time.Millisecond, "stop", "", []why.Code{why.Stopping}},
		{"is to stop, and silent", -time.Second, "stop", "node-1", []why.Code{why.WorkerSilent, why.Stopping}},
		{"is to move", 2500 * time.Millisecond, "move", "", []why.Code{why.Moving}},
		{"is to move, and to stop", 2500 * time.Millisecond, "move, stop", "", []why.Code{why.Stopping}},
	} {
		f := why.TaskFacts{
			Path: path(func(p *why.Path) { p.Leader, p.Workers[0].Running = c.leader, 1 }), Lease: lease,
			LeaseUntil: now.Add(c.left),
			Task:       task.Task{State: task.Running, Node: "node-2", StartedAt: now.Add(-time.Minute)},
		}
		if strings.Contains(c.asked, "stop") {
			f.Task.CancelRequested = now
		}
		if strings.Contains(c.asked, "move") {
			f.Task.MoveRequested = now
		}
		expect(t, c.name, why.OfTask(f), c.codes)
	}
	drained := path(func(p *why.Path) { p.Workers[0].Cordon = &why.Cordon{By: "ops", Drain: true, Since: now} })
	runs := task.Task{State: task.Running, Node: "node-2", StartedAt: now.Add(-time.Minute)}
	moves := runs
	moves.MoveRequested, moves.MoveBy, moves.MoveTo = now, "ops", "node-3"
	waits := task.Task{State: task.Scheduled, DueAt: now, MovedFrom: "node-2", MoveRequested: now, MoveBy: "ops"}
	toNode := waits
	toNode.MoveTo = "node-3"
	large := toNode
	large.Reach = ";;;2"
	for words, f := range map[string]why.TaskFacts{
		"Its node node-2 is drained by ops, and its handler":           {Path: drained, Task: runs},
		"It was asked by ops to move to node-3, and its handler on":    {Path: path(nil), Task: moves},
		"The node node-2 has given it up. It goes to any other node":   {Path: path(nil), Task: waits},
		"It goes to the node node-3 if that has a free slot within 10": {Path: path(nil), Task: toNode},
		"It goes to the node node-3 if that has 2 free slots within":   {Path: path(zones(0, 0, 0)), Task: large},
		" That was asked for by ops at ":                               {Path: path(nil), Task: toNode},
	} {
		got := why.OfTask(f)
		if len(got) != 1 || got[0].Code != why.Moving || got[0].Since != now || !strings.Contains(got[0].Detail, words) {
			t.Errorf("%+v, want %q", got, words)
		}
	}
	runs.Ref, runs.Type = ref, "shell"
	shell := why.OfTask(why.TaskFacts{Path: drained, Task: runs, Stays: true})
	expect(t, "it cannot move", shell, []why.Code{why.Moving},
		`Tasks of the type "shell" cannot move, so it runs there until its end.`, "dtsctl task cancel nightly.")
	runs.Type = task.WorkflowType
	if got := why.OfTask(why.TaskFacts{Path: drained, Task: runs, Stays: true}); len(got) > 0 {
		t.Errorf("its leader carries a run on, and %+v", got)
	}
	flow := task.Task{State: task.Running, StartedAt: now.Add(-time.Minute), Attempt: 2, CancelRequested: now}
	flow.Ref, flow.Type = ref, task.WorkflowType
	command := "flow why " + ref.ID
	got := why.OfTask(why.TaskFacts{Path: path(nil), Task: flow})
	if len(got) != 1 || !strings.Contains(got[0].Do, command) || !strings.Contains(why.TaskNow(flow), command) {
		t.Errorf("a run of a workflow: %s %+v", why.TaskNow(flow), got)
	}
}

func TestOfSchedule_SaysWhatTheNextTickWaitsFor(t *testing.T) {
	t.Parallel()
	tick := now.Add(-time.Minute)
	plain := schedule.Schedule{Definition: schedule.Definition{Ref: ref, Overlap: schedule.OverlapQueue},
		Cursor: now.Add(-time.Hour), Runs: 7}
	with := func(change func(*schedule.Schedule)) schedule.Schedule {
		s := plain
		change(&s)
		return s
	}
	byHand := with(func(s *schedule.Schedule) { s.PausedAt, s.PausedBy, s.PauseNote = now, "ann", "until the move" })
	byItself := with(func(s *schedule.Schedule) {
		s.PausedAt, s.PauseNote, s.Failures = now, "paused by itself: 3 tasks in a row failed", 3
	})
	ended := with(func(s *schedule.Schedule) { s.EndedAt, s.MaxRuns = now, 7 })
	for _, c := range []struct {
		name  string
		facts why.ScheduleFacts
		codes []why.Code
		words []string
	}{
		{"next", why.ScheduleFacts{Path: path(nil), Schedule: plain, Next: now.Add(time.Hour)}, []why.Code{why.NotDue},
			[]string{"2026-01-02T04:04:05Z"}},
		{"next, while a task runs", why.ScheduleFacts{Path: path(nil), Schedule: overlapping(schedule.OverlapSkip, 1),
			Next: now.Add(time.Hour), Live: "nightly@1"}, []why.Code{why.NotDue},
			[]string{"refuses a run by hand until the task nightly@1 has ended", "task cancel nightly@1. Then run it now: "}},
		{"next, while tasks run", why.ScheduleFacts{Path: path(nil), Schedule: overlapping(schedule.OverlapAllow, 2),
			Next: now.Add(time.Hour), Live: "nightly@1"}, []why.Code{why.NotDue}, []string{"Wait, or run it now: "}},
		{"next, while too many run", why.ScheduleFacts{Path: path(nil), Next: now.Add(time.Hour), Live: "nightly@1",
			Schedule: overlapping(schedule.OverlapAllow, schedule.LiveLimit)}, []why.Code{why.NotDue},
			[]string{"before one of its 10000 tasks has ended", "task list --schedule nightly"}},
		{"next, and a run replaces", why.ScheduleFacts{Path: path(nil), Schedule: overlapping(schedule.OverlapReplace, 1),
			Next: now.Add(time.Hour), Live: "nightly@1"}, []why.Code{why.NotDue}, []string{"which cancels its tasks"}},
		{"next, and a run waits", why.ScheduleFacts{Path: path(nil), Schedule: overlapping(schedule.OverlapQueue, 1),
			Next: now.Add(time.Hour), Live: "nightly@1"}, []why.Code{why.NotDue}, []string{"when its tasks have ended: "}},
		{"next, of a queue without a worker", why.ScheduleFacts{Path: path(func(p *why.Path) { p.Workers = nil }),
			Schedule: plain, Next: now.Add(time.Hour)}, []why.Code{why.NotDue, why.QueueUnserved}, nil},
		{"by hand", why.ScheduleFacts{Path: path(nil), Schedule: byHand, Next: now.Add(time.Hour)},
			[]why.Code{why.SchedulePaused}, []string{"by ann", "until the move", "schedule resume nightly"}},
		{"by itself", why.ScheduleFacts{Path: path(nil), Schedule: byItself}, []why.Code{why.PausedByFailures},
			[]string{"3 tasks in a row", "--state failed"}},
		{"paused, and a tick waits", why.ScheduleFacts{Path: path(nil), Schedule: byHand, WaitsTick: tick},
			[]why.Code{why.SchedulePaused, why.Overlap}, nil},
		{"overlap", why.ScheduleFacts{Path: path(nil), Schedule: plain, WaitsTick: tick, Live: "nightly@1"},
			[]why.Code{why.Overlap}, []string{"nightly@1 has ended", "task why nightly@1"}},
		{"ended", why.ScheduleFacts{Path: path(func(p *why.Path) { p.Workers = nil }), Schedule: ended},
			[]why.Code{why.Ended}, []string{"max_runs is 7"}},
		{"ended, and a tick waits", why.ScheduleFacts{Path: path(nil), Schedule: ended, WaitsTick: tick},
			[]why.Code{why.Overlap, why.Ended}, nil},
		{"never ran", why.ScheduleFacts{Path: path(nil), Schedule: with(func(s *schedule.Schedule) {
			s.EndedAt, s.EndAt,
				s.Runs = now, now, 0
		})}, []why.Code{why.Ended}, []string{"end_at", "No tick of it ever ran"}},
		{"due", why.ScheduleFacts{Path: path(nil), Schedule: plain, Next: tick}, []why.Code{why.Delivery}, nil},
		{"due, no leader", why.ScheduleFacts{Path: path(func(p *why.Path) { p.Leader = "" }), Schedule: plain,
			Next: tick}, []why.Code{why.NoLeader}, nil},
		{"Redis almost full", why.ScheduleFacts{Path: path(nil), Schedule: plain, Next: tick, Crowded: true},
			[]why.Code{why.RedisFull}, []string{"maxmemory"}},
		{"capacity, and paused", why.ScheduleFacts{Path: path(func(p *why.Path) { p.Capacity, p.Paused = 9, true }),
			Schedule: plain, Next: tick, Full: true},
			[]why.Code{why.QueueFull, why.QueuePaused}, []string{"capacity of waiting tasks (9)", "from 2026-01-02T03:03:05Z"}},
	} {
		expect(t, c.name, why.OfSchedule(c.facts), c.codes, c.words...)
	}
}

// overlapping is a schedule with an overlap policy and so many live tasks.
func overlapping(policy schedule.Overlap, live int) schedule.Schedule {
	s := schedule.Schedule{Live: live}
	s.Ref, s.Overlap = task.Ref{Namespace: "default", ID: "nightly"}, policy
	return s
}

func TestBesideSchedule_TellsOfATaskThatTriesAgain(t *testing.T) {
	t.Parallel()
	again := schedule.Retry{
		Task: "nightly@1", Attempts: 9, EndedAt: now, Error: "connection refused.", DueAt: now.Add(time.Hour),
	}
	runs, old, lost := again, again, again
	runs.DueAt = time.Time{}
	old.Outdated, old.Revision = true, 3
	lost.Outdated = true
	for _, c := range []struct {
		name  string
		again schedule.Retry
		codes []why.Code
		words []string
	}{
		{"none", schedule.Retry{}, nil, nil},
		{"waits", again, []why.Code{why.Retry}, []string{
			"The task nightly@1 tries again at 2026-01-02T04:04:05Z. Attempt 9 did not succeed: connection refused. ",
			"task why nightly@1",
		}},
		{"runs", runs, []why.Code{why.Retry}, []string{"next attempt of the task nightly@1 has begun, or waits"}},
		{"outdated", old, []why.Code{why.Retry}, []string{
			"A task of revision 3 still tries again with the old definition.",
			"task cancel nightly@1. Then trigger the schedule: ",
		}},
		{"outdated, of nobody knows which", lost, []why.Code{why.Retry}, []string{"A task of an earlier revision still"}},
	} {
		facts := why.ScheduleFacts{Schedule: overlapping(schedule.OverlapAllow, 1), Retry: c.again}
		expect(t, c.name, why.BesideSchedule(facts), c.codes, c.words...)
	}
}

func TestOfQueue_SaysWhatItsTasksWaitFor(t *testing.T) {
	t.Parallel()
	any := func(change func(*why.Path)) why.Path {
		return path(func(p *why.Path) {
			p.Type = ""
			if change != nil {
				change(p)
			}
		})
	}
	lanes := []why.Lane{{"shell", "enable-shell", 4, now}, {"http", "", 2, now}, {"mail", "", 1, now.Add(-time.Hour)},
		{"grpc", "", 0, now}}
	for _, c := range []struct {
		name  string
		facts why.QueueFacts
		codes []why.Code
		words []string
	}{
		{"empty", why.QueueFacts{Path: any(nil)}, nil, nil},
		{"moves", why.QueueFacts{Path: any(nil), Waiting: 1}, []why.Code{why.Delivery}, []string{"1 task is"}},
		{"empty and paused", why.QueueFacts{Path: any(func(p *why.Path) { p.Paused = true })},
			[]why.Code{why.QueuePaused}, nil},
		{"empty, slots taken", why.QueueFacts{Path: any(func(p *why.Path) { p.Workers[0].Running = 1 })}, nil, nil},
		{"slots taken", why.QueueFacts{Path: any(func(p *why.Path) { p.Workers[0].Running = 1 }), Pending: 2},
			[]why.Code{why.SlotsTaken}, nil},
		{"no worker", why.QueueFacts{Path: any(func(p *why.Path) { p.Workers = nil }), Lanes: lanes},
			[]why.Code{why.QueueUnserved}, nil},
		{"types", why.QueueFacts{Path: any(nil), Waiting: 7, Lanes: lanes}, []why.Code{why.TypeUnserved,
			why.TypeUnserved}, []string{`"mail"`, "1 of 7 tasks waits for one."}},
		{"capacity", why.QueueFacts{Path: any(func(p *why.Path) { p.Capacity, p.Paused = 3, true }), Waiting: 1, Pending: 2},
			[]why.Code{why.QueuePaused, why.QueueFull}, nil},
		{"below its capacity", why.QueueFacts{Path: any(func(p *why.Path) { p.Capacity = 4 }), Pending: 3},
			[]why.Code{why.Delivery}, nil},
		{"no leaders", why.QueueFacts{Path: any(nil), Waiting: 2, Unled: []int{2, 5}}, []why.Code{why.NoLeader},
			[]string{"2, 5"}},
		{"Redis silent", why.QueueFacts{Path: any(func(p *why.Path) {
			p.Blocked = &why.Reason{Code: why.RedisSilent,
				Detail: "Away.", Do: "Wait."}
		}), Unled: []int{2}},
			[]why.Code{why.RedisSilent, why.NoLeader}, nil},
	} {
		expect(t, c.name, why.OfQueue(c.facts), c.codes, c.words...)
	}
}

// Of 8 tasks, 5 are of a type that node-2 does not run, and 2 of one that only node-3 runs.
func TestOfQueue_CountsTheTasksOfEachReason(t *testing.T) {
	t.Parallel()
	plain := why.QueueFacts{Path: path(func(p *why.Path) {
		busy := why.Worker{ID: "node-3", Alive: true, Queues: []string{"mails"}, Types: []string{"sms"}, Capacity: 1}
		p.Type, p.Workers = "", append(p.Workers, busy)
	}), Waiting: 7, Pending: 1, Lanes: []why.Lane{{"shell", "", 5, now}, {"sms", "", 2, now.Add(-time.Hour)}}}
	for name, c := range map[string]struct {
		change func(*why.QueueFacts)
		now    string
		want   string
	}{
		"type": {func(*why.QueueFacts) {}, "8 tasks are waiting in it. Nothing holds 3 of them up.", "type_unserved 5"},
		"slots of one type": {func(f *why.QueueFacts) { f.Workers[1].Running = 1 },
			"8 tasks are waiting in it. Nothing holds 1 of them up.", "type_unserved 5, slots_taken 2"},
		"all slots": {func(f *why.QueueFacts) { f.Workers[0].Running, f.Workers[1].Running = 1, 1 },
			"8 tasks are waiting in it.", "type_unserved 5, slots_taken 3"},
		"paused": {func(f *why.QueueFacts) { f.Paused = true },
			"8 tasks are waiting in it.", "type_unserved 5, queue_paused 8"},
		"unled": {func(f *why.QueueFacts) { f.Unled, f.UnledWaiting = []int{3}, 4 },
			"8 tasks are waiting in it.", "no_leader 4, type_unserved 5"},
		"unserved": {func(f *why.QueueFacts) { f.Workers = nil }, "8 tasks are waiting in it.", "queue_unserved 8"},
		"full": {func(f *why.QueueFacts) { f.Lanes, f.Capacity, f.Paused = nil, 8, true },
			"8 tasks are waiting in it.", "queue_paused 8, queue_full -"},
		"free":  {func(f *why.QueueFacts) { f.Lanes = nil }, "8 tasks are waiting in it.", "delivery 8"},
		"empty": {func(f *why.QueueFacts) { f.Lanes, f.Waiting, f.Pending = nil, 0, 0 }, "Nothing waits in it.", ""},
		"empty, paused": {func(f *why.QueueFacts) { f.Lanes, f.Waiting, f.Pending, f.Paused = nil, 0, 0, true },
			"Nothing waits in it.", "queue_paused -"},
		"unknown": {func(f *why.QueueFacts) { f.PendingUnknown, f.Workers[0].Running, f.Workers[1].Running = true, 1, 1 },
			"", "type_unserved -, slots_taken -"},
	} {
		f := plain
		f.Workers = slices.Clone(plain.Workers)
		c.change(&f)
		var got []string
		for _, r := range why.OfQueue(f) {
			tasks := "-"
			if r.Tasks != nil {
				tasks = fmt.Sprint(*r.Tasks)
			}
			got = append(got, fmt.Sprintf("%s %s", r.Code, tasks))
		}
		if strings.Join(got, ", ") != c.want || why.QueueNow(f) != c.now {
			t.Errorf("%s: %q, %q; want %q, %q", name, got, why.QueueNow(f), c.want, c.now)
		}
	}
}

func TestOfQueue_SaysHowManyTasksWait(t *testing.T) {
	t.Parallel()
	f := why.QueueFacts{Path: path(func(p *why.Path) { p.Type, p.Workers[0].Running = "", 1 }), Waiting: 8,
		Lanes: []why.Lane{{"shell", "", 5, now}}}
	expect(t, "both", why.OfQueue(f), []why.Code{why.TypeUnserved, why.SlotsTaken}, "5 of 8 tasks wait for one.")
	expect(t, "slots", why.OfQueue(f)[1:], []why.Code{why.SlotsTaken}, "3 of 8 tasks wait for a slot.")
}

// Of 14 tasks, one needs more slots than a node has, 4 go to the node a, and 5 have a limit, 3 of them another cost.
func TestOfQueue_CountsKindsOfTasks(t *testing.T) {
	t.Parallel()
	full := func(held int) []why.Limit {
		return []why.Limit{{Name: "key:x", Of: "key:x", Rule: limit.Rule{Slots: 2}, Held: held}}
	}
	kinds := func(held int) []why.Kind {
		return []why.Kind{
			{Reach: ";;;3", Waiting: 1, First: ref}, {Reach: "zone=a;;", Waiting: 4, First: ref},
			{Limits: full(held), Cost: 1, Waiting: 2, First: ref}, {Limits: full(held), Cost: 3, Waiting: 3, First: ref},
		}
	}
	for _, c := range []struct {
		name      string
		workers   func(*why.Path)
		held      int
		want, now string
	}{
		{"all wait", zones(2, 2, 2), 2, "no_node 1, limited 2, limited 3, node_full 4, slots_taken 9",
			"14 tasks are waiting in it."},
		{"some are free", zones(2, 0, 0), 2, "no_node 1, limited 2, limited 3, node_full 4",
			"14 tasks are waiting in it. Nothing holds 4 of them up."},
		{"the limit has a slot", zones(0, 0, 0), 1, "no_node 1, limited 3",
			"14 tasks are waiting in it. Nothing holds 10 of them up."},
	} {
		f := why.QueueFacts{Path: path(c.workers), Waiting: 14, Kinds: kinds(c.held)}
		f.Type = ""
		var got []string
		reasons := why.OfQueue(f)
		for _, r := range reasons {
			got = append(got, fmt.Sprintf("%s %d", r.Code, *r.Tasks))
		}
		if strings.Join(got, ", ") != c.want || why.QueueNow(f) != c.now {
			t.Errorf("%s: %q, %q; want %q, %q", c.name, got, why.QueueNow(f), c.want, c.now)
		}
		const text = "1 of 14 tasks waits for this. The next one is nightly. It needs 3 slots of a node."
		if !strings.HasPrefix(reasons[0].Detail, text) {
			t.Errorf("%s: it says %q", c.name, reasons[0].Detail)
		}
	}
	f := why.QueueFacts{Path: path(zones(0, 0, 0)), Waiting: 3, Unread: 3}
	expect(t, "not looked at", why.OfQueue(f), nil)
	for i := range 8 {
		f.Kinds = append(f.Kinds, why.Kind{Reach: fmt.Sprintf("gpu=%d;;", i), Waiting: 2, First: ref})
	}
	f.Type, f.Waiting, f.Unread = "", 16, 0
	got := why.OfQueue(f)
	if len(got) != 6 || *got[5].Tasks != 6 || !strings.HasPrefix(got[5].Detail, "6 of 16 tasks wait for this. They") {
		t.Errorf("%+v, want 5 and one that sums up 3", got)
	}
}

// zones are the workers a, b and c in zones of their own, with those numbers of running tasks, and two slots each.
func zones(a, b, c int) func(*why.Path) {
	return func(p *why.Path) {
		p.Workers = nil
		for i, running := range []int{a, b, c} {
			name := []string{"a", "b", "c"}[i]
			p.Workers = append(p.Workers, why.Worker{
				ID: "node-" + name, Name: name, Alive: true, Queues: []string{"mails"}, Types: []string{"http"}, Capacity: 2,
				Most: 2, Running: running,
				Labels: func(label string) []string { return map[string][]string{"zone": {name}}[label] },
			})
		}
	}
}

func TestOfTask_SaysWhichNodesItLacks(t *testing.T) {
	t.Parallel()
	idle, full, partly := zones(0, 0, 0), zones(2, 2, 2), zones(2, 1, 0)
	and := func(first, then func(*why.Path)) func(*why.Path) { return func(p *why.Path) { first(p); then(p) } }
	for name, c := range map[string]struct {
		reach string
		path  func(*why.Path)
		codes []why.Code
		words []string
	}{
		"matches": {"zone=a;;", idle, []why.Code{why.Delivery}, nil},
		"no node": {"gpu,zone=a;;", idle, []why.Code{why.NoNode}, []string{
			`type "http" from the queue "mails", no node matches gpu, zone=a (of 3: 0 satisfy gpu, 1 satisfy zone=a).`,
			"--queues mails=1 --labels", "dtsctl task change nightly --select ''",
		}},
		"cordoned": {"zone=b;;", and(idle, func(p *why.Path) {
			p.Workers[1].Cordon = &why.Cordon{Of: "b", By: "ann"}
		}), []why.Code{why.NoNode}, []string{"The node node-b matches, and is cordoned by ann.", "node uncordon b"}},
		"dead": {"zone=b;;", and(idle, func(p *why.Path) {
			p.Workers[1].Alive, p.Workers[1].LastBeat = false, now.Add(-time.Minute)
			older := p.Workers[1]
			older.Name, older.LastBeat = "older", now.Add(-time.Hour)
			p.Workers = append(p.Workers, older)
		}), []why.Code{why.NoNode}, []string{
			"(of 2: 0 satisfy zone=b). The node b matched, and is dead: its newest heartbeat is of 2026-01-02T03:03:05Z.",
		}},
		"by name": {"name=r-1,zone=a;;", idle, []why.Code{why.NoNode}, []string{
			"Start that node (dtsd serve --roles worker --queues mails=1 --node-name r-1), or change",
		}},
		"by names": {"name~in~(r-1,r-2);;", idle, []why.Code{why.NoNode}, []string{
			"Start such a node (dtsd serve --roles worker --queues mails=1), or", "A node has the label name by itself.",
		}},
		"by id": {"id=r-1-x;;", idle, []why.Code{why.NoNode}, []string{
			"A node has a new id after each start. Select it by its name: dtsctl task change nightly --select name=NAME.",
		}},
		"unserved": {"zone=a;;", and(idle, func(p *why.Path) { p.Workers = nil }), []why.Code{why.QueueUnserved}, nil},
		"asynq's server does not count": {"zone=a;;", and(idle, func(p *why.Path) {
			p.Workers, p.Foreign = nil, 3
		}), []why.Code{why.NoNode}, []string{`No living node takes tasks of type "http" from the queue "mails".`}},
		"fleet not known": {"gpu;;", and(idle, func(p *why.Path) { p.FleetUnknown = true }), []why.Code{why.Delivery}, nil},
		"no node, and paused": {
			"gpu;;", and(idle, func(p *why.Path) { p.Paused = true }), []why.Code{why.NoNode, why.QueuePaused}, nil,
		},
		"all that match are full": {"zone~in~(a,b);;", zones(2, 3, 0), []why.Code{why.NodeFull}, []string{
			"No node on which it may run has a free slot: a 2/2, b 3/2.", "dtsctl task change nightly --select",
		}},
		"one that matches has room": {"zone~in~(a,b);;", zones(2, 1, 0), []why.Code{why.Delivery}, nil},
		"a route, all full":         {";;round", full, []why.Code{why.NodeFull}, []string{"a 2/2, b 2/2, c 2/2."}},
		"failover, the first is full": {";;failover:d,a,b", partly, []why.Code{why.NodeFull}, []string{
			"the first node of its order that lives, which has no free slot: a 2/2.",
		}},
		"failover, the first is free":   {";;failover:c,a", partly, []why.Code{why.Delivery}, nil},
		"busy over, the second is free": {";;busy_over:a,b", partly, []why.Code{why.Delivery}, nil},
		"busy over, all full": {
			";;busy_over:b,a", zones(2, 2, 0), []why.Code{why.NodeFull}, []string{"b 2/2, a 2/2."},
		},
		"order of dead nodes": {";;failover:d,e", idle, []why.Code{why.NoNode}, []string{
			"None of the nodes of its route takes it now: d, e.", "dtsctl task change nightly --route any",
		}},
		"sticky": {";;hash:7:require", partly, []why.Code{why.NodeFull}, []string{
			"It waits for the node of its key, if that is one of those with no free slot: a 2/2.",
		}},
		"sticky, too few slots are free": {";;hash:7:require;2", zones(1, 0, 0), []why.Code{why.NodeFull}, []string{
			"the node of its key, if that is one of those with fewer than 2 free slots: a 1/2. After 10s, it keeps",
		}},
		"failover, too few slots are free": {";;failover:a,b;2", zones(1, 0, 0), []why.Code{why.NodeFull}, []string{
			"of its order that lives, which has fewer than 2 free slots: a 1/2. After 10s, it keeps for the task what",
		}},
		"failover, enough slots are free": {";;failover:b,a;2", zones(1, 0, 0), []why.Code{why.Delivery}, nil},
		"more slots than any has": {"zone~in~(a,b);;;3", idle, []why.Code{why.NoNode}, []string{
			`needs 3 slots of a node. Of the nodes that match, a has the most: a task of the queue "mails" can hold 2 there.`,
			"--concurrency 3", "dtsctl task change nightly --slots 2",
		}},
		"too few slots are free": {";;;2", zones(1, 1, 2), []why.Code{why.NodeFull}, []string{
			"It needs 2 slots of a node, and no node on which it may run has as many free: a 1/2, b 1/2, c 2/2. After 10s",
			"No node does so while half of those that match keep slots already, nor within 1m after it has given a task up.",
		}},
		"enough slots are free": {";;;2", zones(1, 0, 2), []why.Code{why.Delivery}, nil},
		"the node's queue is paused": {"zone=a;;", idle, []why.Code{why.QueuePaused}, []string{
			"Somebody has paused the queue mails@node-a in one of asynq's tools", "Resume it in asynq's web UI",
		}},
		"paused, and another one is free": {"zone~in~(a,b);;", idle, []why.Code{why.Delivery}, nil},
		"paused, and another one is full": {
			"zone~in~(a,b);;", zones(0, 2, 0), []why.Code{why.QueuePaused, why.NodeFull}, nil,
		},
		"paused, and another one has enough slots": {"zone~in~(a,b);;;2", idle, []why.Code{why.Delivery}, nil},
		"paused, and another one has too few slots": {
			"zone~in~(a,b);;;2", zones(0, 1, 0), []why.Code{why.QueuePaused, why.NodeFull}, nil,
		},
		"a little sticky": {";;hash:7:prefer", partly, []why.Code{why.Delivery}, nil},
		"hash":            {";;hash:7:", partly, []why.Code{why.Delivery}, nil},
		"damaged": {";;nearest", full, []why.Code{why.Unreadable}, []string{
			"where it may run", "dtsctl task change nightly --select '' --prefer '' --route any",
		}},
	} {
		f := why.TaskFacts{Path: path(c.path), Task: task.Task{State: task.Scheduled, DueAt: now.Add(-time.Minute)}}
		f.Task.Ref, f.Task.Reach = ref, c.reach
		if strings.Contains(name, "paused") {
			f.PausedNodes = []string{"node-a"}
		}
		expect(t, name, why.OfTask(f), c.codes, c.words...)
	}
	many := zones(2, 2, 2)
	f := why.TaskFacts{Task: task.Task{State: task.Scheduled, DueAt: now}, Path: path(func(p *why.Path) {
		many(p)
		p.Workers = append(append(p.Workers, p.Workers...), p.Workers[2])
	})}
	f.Task.Ref, f.Task.Reach = ref, ";;first"
	expect(t, "many nodes", why.OfTask(f), []why.Code{why.NodeFull}, "a 2/2, b 2/2, c 2/2, a 2/2, b 2/2, and 2 more.")
	f.Task.State, f.Task.Attempt, f.Task.Reach, f.Task.DueAt = task.Scheduled, 0, "gpu;;", now.Add(time.Hour)
	expect(t, "future, no node", why.OfTask(f), []why.Code{why.NotDue, why.NoNode})
}

// A task of several slots is at a node that has taken it, or is about to, and keeps slots for it.
func TestOfTask_SaysWhichNodeKeepsSlots(t *testing.T) {
	t.Parallel()
	for _, place := range []why.Place{why.Pending, why.Taken} {
		for reach, want := range map[string]why.Code{";;;2": why.NodeFull, "zone=a;;": why.Delivery} {
			f := why.TaskFacts{Path: path(zones(1, 0, 0)), Place: place}
			f.Task = task.Task{State: task.Queued, Placed: "node-a", QueuedAt: now.Add(-time.Minute)}
			f.Task.Ref, f.Task.Reach = ref, reach
			if got := why.OfTask(f); want == why.NodeFull {
				expect(t, string(place), got, []why.Code{want}, "It needs 2 slots",
					"keeps the slots for it that become free: a 1/2.")
			} else {
				expect(t, string(place), got, []why.Code{want})
			}
		}
	}
}
