package bench

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
)

const (
	lookEvery = 250 * time.Millisecond // between two looks at the list of finished tasks
	patience  = 3                      // looks without news before single tasks are asked for
	pageTasks = 500                    // the most tasks that the server puts into one page
	leastPage = 50                     // some more than are awaited: the list has tasks of others, too
	settleMax = 500                    // tasks that are asked for one by one after a look without news
)

// watch returns once the ends of all tasks are known. Finished tasks are kept for a minute, so it reads them as they finish.
func (m *measurement) watch(ctx context.Context) error {
	for quiet := 0; ; {
		m.draw()
		if m.allSubmitted() && m.tally.settled() == m.opts.Tasks {
			return nil
		}
		if err := clock.Sleep(ctx, lookEvery); err != nil {
			return err
		}
		if clock.Since(m.start) < m.opts.Delay {
			continue // nothing is due
		}
		news, err := m.readFinished(ctx)
		switch {
		case err != nil:
			return err
		case news || !m.allDue():
			quiet = 0
			continue
		}
		if quiet++; quiet < patience {
			continue
		}
		if err := m.settle(ctx); err != nil {
			return err
		}
	}
}

// allDue reports whether the last task is due.
func (m *measurement) allDue() bool {
	return m.allSubmitted() && clock.Since(m.start) > time.Duration(m.took.Load())+m.opts.Delay
}

var finalStates = wire.States{wire.StateSucceeded, wire.StateFailed, wire.StateCancelled}

// readFinished reads the tasks that finished last, and goes on as long as there is news among them. It does not filter by
// owner: behind the last task of ours, the server would look through all that finished before.
func (m *measurement) readFinished(ctx context.Context) (news bool, _ error) {
	awaited := int(m.sent.Load()) - m.tally.settled()
	limit := min(max(awaited, leastPage), pageTasks)
	params := client.ListTasksParams{Namespace: m.client.Namespace, State: finalStates, Limit: &limit}
	for {
		answer, err := rest.Read[wire.TaskList](m.client.ListTasksWithResponse(ctx, &params))
		if err != nil {
			return news, err
		}
		before := m.tally.settled()
		for _, t := range answer.Value.Tasks {
			m.tally.record(t)
		}
		if m.tally.settled() == before || answer.Value.NextCursor == nil {
			return news || m.tally.settled() > before, nil
		}
		news = true
		params.Cursor = answer.Value.NextCursor
	}
}

// settle asks for tasks whose ends are overdue one by one, the oldest ones. Others may have pushed them too far down the list,
// or the server has forgotten them already. It asks for one only, if that one has not ended.
func (m *measurement) settle(ctx context.Context) error {
	open := m.tally.open(m.opts.Tasks)
	if len(open) == 0 {
		return nil
	}
	if err := m.look(ctx, open[0]); err != nil || m.tally.isOpen(open[0]) {
		return err
	}
	return m.each(ctx, open[1:min(len(open), settleMax)], m.look)
}

// look asks for a task and records its end.
func (m *measurement) look(ctx context.Context, n int) error {
	params := &client.GetTaskParams{Namespace: m.client.Namespace}
	answer, err := rest.Read[wire.Task](m.client.GetTaskWithResponse(ctx, m.tally.id(n), params))
	if refusal := rest.RefusalIn(err); refusal != nil && refusal.Code == wire.TaskNotFound {
		m.tally.forget(n)
		return nil
	}
	if err != nil {
		return err
	}
	m.tally.record(answer.Value)
	return nil
}
