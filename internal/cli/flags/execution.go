package flags

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
)

// Execution is the flags that say how a task is executed, whatever its type.
type Execution struct {
	Queue       *string
	MaxAttempts *int
	Timeout     *time.Duration
	Retention   *time.Duration
	StartBy     *time.Duration
	MaxElapsed  *time.Duration
	RetryDelays []time.Duration
}

// Bind adds the flags.
func (e *Execution) Bind(f *pflag.FlagSet) {
	String(f, &e.Queue, "queue", "the queue it goes through")
	Int(f, &e.MaxAttempts, "max-attempts", fmt.Sprintf("how many attempts it has, %d by default, %d for shell; 1 means at most once",
		task.DefaultMaxAttempts, task.CommandMaxAttempts))
	Duration(f, &e.Timeout, "timeout", "how long one attempt may take")
	Duration(f, &e.Retention, "retention", "how long it is kept after its end")
	Duration(f, &e.StartBy, "start-by", "how long after it is due a worker may begin it; then it is cancelled")
	Duration(f, &e.MaxElapsed, "max-elapsed", "do not retry later than this after the first attempt was due")
	f.DurationSliceVar(&e.RetryDelays, "retry-delays", nil, "the delays before attempt 2, 3, ..., as 1m,5m,10m; the last one is repeated")
}

// Retry returns the retry policy, nil if no flag names it.
func (e *Execution) Retry() *wire.Retry {
	if e.MaxAttempts == nil && e.MaxElapsed == nil && len(e.RetryDelays) == 0 {
		return nil
	}
	r := wire.Retry{MaxAttempts: e.MaxAttempts, MaxElapsed: DurationText(e.MaxElapsed)}
	for _, d := range e.RetryDelays {
		r.Delays = append(r.Delays, d.String())
	}
	return &r
}
