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
	Precedence  Precedence
	Reach       Reach
}

// Precedence is the flags that say which of the waiting tasks of a queue comes first, and which limits count it.
type Precedence struct {
	Priority   *int
	FairKey    *string
	FairWeight *int
	LimitKey   *string
	Cost       *int
}

// Bind adds the flags.
func (p *Precedence) Bind(f *pflag.FlagSet) {
	Int(f, &p.Priority, "priority", fmt.Sprintf("how urgent it is among tasks of its queue and fair key that wait: "+
		"0 to %d, the most urgent; each level counts as if it had been due %s earlier",
		task.PriorityLimit, task.PriorityStep))
	String(f, &p.FairKey, "fair-key",
		"whom it is for, as a customer: tasks of a queue that wait are handed over in turns by this key")
	Int(f, &p.FairWeight, "fair-weight", "how many turns the fair key gets for one of another key, 1 to 100")
	String(f, &p.LimitKey, "limit-key",
		"under which keys limits count it: one to three, with commas between, as tenant-7,api-x")
	Int(f, &p.Cost, "cost", fmt.Sprintf(
		"how many slots it needs of each of its limits, and tokens of each with a rate, 1 to %d", task.CostLimit))
}

// Bind adds the flags.
func (e *Execution) Bind(f *pflag.FlagSet) {
	String(f, &e.Queue, "queue", "the queue it goes through")
	Int(f, &e.MaxAttempts, "max-attempts", fmt.Sprintf(
		"how many attempts it has, %d by default, %d for shell; 1 means at most once",
		task.DefaultMaxAttempts, task.CommandMaxAttempts))
	Duration(f, &e.Timeout, "timeout", "how long one attempt may take")
	Duration(f, &e.Retention, "retention", "how long it is kept after its end")
	Duration(f, &e.StartBy, "start-by", "how long after it is due a worker may begin it; then it is cancelled")
	Duration(f, &e.MaxElapsed, "max-elapsed", "do not retry later than this after the first attempt was due")
	e.Precedence.Bind(f)
	e.Reach.Bind(f)
	f.DurationSliceVar(&e.RetryDelays, "retry-delays", nil,
		"the delays before attempt 2, 3, ..., as 1m,5m,10m; the last one is repeated")
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
