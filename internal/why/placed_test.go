package why_test

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/why"
)

func TestOfTask_SaysAtWhichNodeItWaits(t *testing.T) {
	t.Parallel()
	worker := func(change func(*why.Worker)) func(*why.Path) {
		return func(p *why.Path) { zones(1, 0, 0)(p); change(&p.Workers[0]) }
	}
	const where = "It waits on the node node-a, in the queue mails@node-a"
	const anew = "Its leader takes it back, and hands it over anew. The leader looks after it at"
	for name, c := range map[string]struct {
		path  func(*why.Path)
		place why.Place
		codes []why.Code
		words []string
	}{
		"free": {zones(1, 0, 0), why.Pending, []why.Code{why.Delivery}, []string{
			where + ", where 3 tasks are ahead of it. That node lives. Its free slots: 1 of 2.", "Wait:",
		}},
		"on its way": {zones(1, 0, 0), why.Nowhere, []why.Code{why.Delivery}, []string{
			"given it to the node node-a, and is about to put it into the queue mails@node-a. That node lives",
		}},
		"taken": {zones(2, 0, 0), why.Taken, []why.Code{why.Delivery}, []string{"The node node-a has taken it"}},
		"full": {zones(2, 0, 0), why.Pending, []why.Code{why.NodeFull}, []string{
			"No slot of its node is free: a 2/2. " + where, "Its free slots: 0 of 2.",
		}},
		"dead, and another node matches": {
			worker(func(w *why.Worker) { w.Alive, w.LastBeat = false, now }), why.Pending, []why.Code{why.Delivery}, []string{
				where, "That node is dead: its newest heartbeat is of 2026-01-02T03:04:05Z. " + anew,
			},
		},
		"dead, and nobody leads": {
			worker(func(w *why.Worker) {
				w.Alive, w.LastBeat = false, now
			}), why.Pending, []why.Code{why.NoLeader}, []string{where, anew},
		},
		"drains": {worker(func(w *why.Worker) { w.Draining = true }), why.Pending, []why.Code{why.Delivery}, []string{
			"That node is shutting down. " + anew,
		}},
		"cordoned": {worker(func(w *why.Worker) {
			w.Cordon = &why.Cordon{Of: "a", By: "ann"}
		}), why.Pending, []why.Code{why.Delivery}, []string{"That node is cordoned by ann. " + anew}},
		"not on the list": {worker(func(w *why.Worker) {
			w.ID = "node-c"
		}), why.Pending, []why.Code{why.Delivery}, []string{"That node is on the list no more. " + anew}},
		"its queue is paused": {func(p *why.Path) {
			zones(1, 0, 0)(p)
			p.Paused, p.PausedAt = true, now
		}, why.Pending, []why.Code{why.QueuePaused}, []string{
			"Somebody has paused the queue mails@node-a in one of asynq's tools", where, "Resume it in asynq's web UI",
		}},
		"the fleet is not known": {
			func(p *why.Path) { p.FleetUnknown = true }, why.Pending, []why.Code{why.Delivery}, []string{where},
		},
		"Redis is silent": {func(p *why.Path) {
			zones(1, 0, 0)(p)
			p.Blocked = &why.Reason{Code: why.RedisSilent, Detail: "It is silent.", Do: "Wait."}
		}, why.Pending, []why.Code{why.RedisSilent}, []string{where}},
	} {
		ahead := 3
		f := why.TaskFacts{Path: path(c.path), Place: c.place, LookAt: now.Add(time.Second), Task: task.Task{
			State: task.Queued, Attempt: 1, QueuedAt: now, Placed: "node-a",
		}}
		f.Ahead, f.Task.Ref, f.Task.Reach = &ahead, ref, ";;first"
		if name == "dead, and nobody leads" {
			f.Leader = ""
		}
		expect(t, name, why.OfTask(f), c.codes, c.words...)
	}
}
