package definition

import (
	"fmt"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
)

// Task is the task that a submission asks for; "" stands for the caller's namespace. Package control checks limits
// and what excludes what. Error: CodeInvalid for a duration.
func Task(s wire.Submission) (task.Definition, error) {
	var r reader
	d := task.Definition{
		Ref:       task.Ref{Namespace: wire.Value(s.Namespace), ID: wire.Value(s.ID)},
		Type:      s.Type,
		Queue:     wire.Value(s.Queue),
		Payload:   s.Payload,
		RunAt:     Moment(wire.Value(s.RunAt)),
		Delay:     r.duration("delay", wire.Value(s.Delay)),
		Timeout:   r.span("timeout", wire.Value(s.Timeout)),
		Retry:     r.retry(wire.Value(s.Retry)),
		Retention: r.span("retention", wire.Value(s.Retention)),
		Owner:     wire.Value(s.Owner),
		Labels:    wire.Value(s.Labels),
	}
	return d, r.err
}

func (r *reader) retry(in wire.Retry) task.Retry {
	backoff := wire.Value(in.Backoff)
	out := task.Retry{
		MaxAttempts: wire.Value(in.MaxAttempts),
		MaxElapsed:  r.span("retry.max_elapsed", wire.Value(in.MaxElapsed)),
		Backoff: task.Backoff{
			Initial: r.span("retry.backoff.initial", wire.Value(backoff.Initial)),
			Factor:  wire.Value(backoff.Factor),
			Max:     r.span("retry.backoff.max", wire.Value(backoff.Max)),
			Jitter:  backoff.Jitter,
		},
	}
	for i, s := range in.Delays {
		out.Delays = append(out.Delays, r.duration(fmt.Sprintf("retry.delays[%d]", i), s))
	}
	return out
}

// Retry is a policy as somebody could have sent it; what is left out stays so.
func Retry(r task.Retry) *wire.Retry {
	out := wire.Retry{
		MaxAttempts: wire.Given(r.MaxAttempts), MaxElapsed: Span(r.MaxElapsed), Backoff: backoffOf(r.Backoff),
	}
	for _, d := range r.Delays {
		out.Delays = append(out.Delays, Duration(d))
	}
	if out.MaxAttempts == nil && out.MaxElapsed == nil && out.Backoff == nil && out.Delays == nil {
		return nil
	}
	return &out
}

func backoffOf(b task.Backoff) *wire.Backoff {
	return wire.Given(wire.Backoff{
		Initial: Span(b.Initial), Factor: wire.Given(b.Factor), Max: Span(b.Max), Jitter: b.Jitter,
	})
}
