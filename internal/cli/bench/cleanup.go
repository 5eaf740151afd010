package bench

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// cleanUpTime is how long cancelling may take. A second interrupt ends it at once.
const cleanUpTime = 2 * time.Minute

// cleanUp cancels the tasks that have not ended, also after the end of ctx, and tells the user what is left.
func (m *measurement) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	p, open := m.opts.Printer, m.tally.open(int(m.sent.Load()))
	if len(open) > 0 {
		m.line.Draw("cancelling what has not begun")
	}
	err := m.each(ctx, open, m.cancel)
	m.line.Clear()
	if err != nil {
		p.Errorf("cannot cancel all that has not begun: %v; the ids of the tasks begin with %s", err, m.opts.Name)
		return
	}
	if m.sent.Load() > 0 {
		p.Notef("Cancelled %s that had not begun. Those that have ended expire after a minute.",
			printer.Counted(m.tally.cancelled(), "task"))
	}
}

// cancel cancels a task. One that has ended in the meantime is read.
func (m *measurement) cancel(ctx context.Context, n int) error {
	params := &client.CancelTaskParams{Namespace: m.client.Namespace}
	answer, err := rest.Read[wire.Task](m.client.CancelTaskWithResponse(ctx, m.tally.id(n), params))
	refusal := rest.RefusalIn(err)
	switch {
	case err == nil:
		m.tally.record(answer.Value)
		return nil
	case refusal != nil && refusal.Code == wire.TaskFinished:
		return m.look(ctx, n)
	case refusal != nil && refusal.Code == wire.TaskNotFound:
		m.tally.forget(n)
		return nil
	}
	return err
}
