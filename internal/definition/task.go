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
		StartBy:   r.span("start_by", wire.Value(s.StartBy)),
		Owner:     wire.Value(s.Owner),
		Labels:    wire.Value(s.Labels),
		Priority:  wire.Value(s.Priority), FairKey: wire.Value(s.FairKey), FairWeight: wire.Value(s.FairWeight),
		LimitKey: wire.Value(s.LimitKey), Cost: wire.Value(s.Cost),
	}
	if s.FairWeight != nil && d.FairWeight == 0 { // which stands for the default elsewhere
		r.note(task.Invalid("fair_weight", "0 must be 1 to %d", task.FairWeightLimit))
	}
	if s.Cost != nil && d.Cost == 0 {
		r.note(task.Invalid("cost", "0 must be 1 to %d", task.CostLimit))
	}
	r.reach(&d, s)
	d.OnEnd = r.followUp(s.OnEnd)
	if o := s.Once; o != nil {
		d.Once = &task.Once{
			Mode: task.OnceMode(o.Mode), Key: o.Key, Wait: r.span("once.wait", wire.Value(o.Wait)),
			Max: r.span("once.max", wire.Value(o.Max)), Every: r.span("once.every", wire.Value(o.Every)),
			Excess: task.Excess(wire.Value(o.Excess)),
		}
	}
	return d, r.err
}

// followUp reads what follows a task; the fields of its errors are named as parts of the task.
func (r *reader) followUp(in *wire.FollowUp) *task.FollowUp {
	if in == nil {
		return nil
	}
	t := in.Task
	d, err := Task(wire.Submission{
		Type: t.Type, Queue: t.Queue, Payload: t.Payload, Delay: t.Delay, Timeout: t.Timeout, Retry: t.Retry,
		Retention: t.Retention, StartBy: t.StartBy,
		Owner: t.Owner, Labels: t.Labels, OnEnd: t.OnEnd,
		Priority: t.Priority, FairKey: t.FairKey, FairWeight: t.FairWeight, LimitKey: t.LimitKey, Cost: t.Cost,
		Slots: t.Slots, Select: t.Select, Prefer: t.Prefer, Route: t.Route,
	})
	r.note(task.Within("on_end.task", err))
	return &task.FollowUp{When: task.When(in.When), Task: d}
}

// FollowUp is what follows a task as somebody could have sent it; nil for nothing.
func FollowUp(f *task.FollowUp) *wire.FollowUp {
	if f == nil {
		return nil
	}
	d := f.Task
	selector, prefer, route, slots := Reach(d)
	return &wire.FollowUp{When: wire.FollowUpWhen(f.When), Task: wire.FollowUpTask{
		Type: d.Type, Queue: wire.Given(d.Queue), Payload: d.Payload, Delay: Span(d.Delay),
		Timeout: Span(d.Timeout), Retry: Retry(d.Retry),
		Retention: Span(d.Retention), Owner: wire.Given(d.Owner), Labels: wire.LabelsOf(d.Labels),
		StartBy: Span(d.StartBy), OnEnd: FollowUp(d.OnEnd),
		Priority: wire.Given(d.Priority), FairKey: wire.Given(d.FairKey), FairWeight: wire.Given(d.FairWeight),
		LimitKey: wire.Given(d.LimitKey), Cost: wire.Given(d.Cost), Slots: slots, Select: selector, Prefer: prefer,
		Route: route,
	}}
}

// Once is what a task has to do with others of its key, without what became of a submission; nil for one without a key.
func Once(o *task.Once) *wire.TaskOnce {
	if o == nil {
		return nil
	}
	return &wire.TaskOnce{
		Mode: wire.OnceMode(o.Mode), Key: o.Key, Wait: Span(o.Wait), Max: Span(o.Max), Every: Span(o.Every),
		Excess: wire.Given(wire.Excess(o.Excess)),
	}
}

// Parent is how a task ended that another one follows; nil for none.
func Parent(p *task.Parent) *wire.Parent {
	if p == nil {
		return nil
	}
	return &wire.Parent{
		Namespace: p.Namespace, ID: p.ID, Attempt: p.Attempt, State: wire.State(p.State),
		Result: wire.Given(p.Result), Error: wire.Given(p.Error),
	}
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
		out.Delays = append(out.Delays, task.FormatDuration(d))
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
