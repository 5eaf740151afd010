package bench

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
)

const (
	batchTasks  = 1000                  // the most tasks that the server takes in one request
	submitEvery = 10 * time.Millisecond // between two requests at least, if there is a rate
	retention   = time.Minute           // of the tasks after their end
	owner       = "dtsctl bench"        // of the tasks
	label       = "bench"               // of the tasks; its value is the name of the measurement
)

// submit submits the tasks at the rate that is wanted. If the server falls behind, the batches grow. One task that is
// refused ends the measurement: its error is a *rest.Refusal.
func (m *measurement) submit(ctx context.Context) error {
	for first := 0; first < m.opts.Tasks; {
		count := min(m.opts.dueBy(clock.Since(m.start))-first, batchTasks)
		if count > 0 {
			if err := m.submitBatch(ctx, first, count); err != nil {
				return err
			}
			first += count
		}
		if m.opts.Rate == 0 {
			continue
		}
		if err := clock.Sleep(ctx, submitEvery); err != nil {
			return err
		}
	}
	close(m.submitted)
	return nil
}

// dueBy returns how many tasks should have been submitted some time after the start.
func (o *options) dueBy(elapsed time.Duration) int {
	if o.Rate == 0 {
		return o.Tasks
	}
	return min(o.Tasks, 1+int(elapsed.Seconds()*float64(o.Rate)))
}

func (m *measurement) submitBatch(ctx context.Context, first, count int) error {
	batch := make([]json.RawMessage, count)
	for i := range batch {
		raw, err := wire.Encode(m.submission(first + i))
		if err != nil {
			return err
		}
		batch[i] = raw
	}
	m.sent.Store(int64(first + count))
	answer, err := m.client.SubmitBatch(ctx, m.client.Namespace, batch)
	if rest.IsFinal(err) {
		m.sent.Store(int64(first)) // it refused all of them
	}
	if err != nil {
		return err
	}
	m.took.Store(int64(clock.Since(m.start)))
	return m.tally.accept(first, answer.Value.Results)
}

func (m *measurement) submission(n int) wire.Submission {
	return wire.Submission{
		ID: new(m.tally.id(n)), Type: "noop", Payload: json.RawMessage(`{}`), Queue: &m.opts.Queue, Delay: new(m.opts.Delay.String()),
		Retry: &wire.Retry{MaxAttempts: new(1)}, Retention: new(retention.String()),
		Owner: new(owner), Labels: &wire.Labels{label: m.opts.Name},
	}
}
