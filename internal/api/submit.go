package api

import (
	"cmp"
	"context"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/task"
)

// Submissions is the use case of submissions, with the types of the API on both sides. Handlers call it between
// decoding and encoding; clients of dts.Open do neither.
type Submissions struct {
	Control *control.Control
	Types   task.Types // tells the timeout of a task that names none; nil: DefaultTimeout
	DryRun  bool       // says what would come of them, and creates nothing
}

// Submitted is the answer to one submission: the task or, in Err, why there is none. Existed says that the task was
// there before, with the same content.
type Submitted struct {
	Task    wire.Task
	Existed bool
	Err     error
}

// Member is one of many submissions; Err says why it is none, and is the answer then.
type Member struct {
	Submission wire.Submission
	Err        error
}

// Submit submits a task in the caller's namespace. Errors: those of control.Submit.
func (s Submissions) Submit(ctx context.Context, who control.Caller, in wire.Submission) (Submitted, error) {
	d, err := definition.Task(in)
	if err != nil {
		return Submitted{}, err
	}
	submit := s.Control.Submit
	if s.DryRun {
		submit = s.Control.Preview
	}
	got, err := submit(ctx, who, d)
	if err != nil {
		return Submitted{}, err
	}
	return s.answer(got), nil
}

// SubmitEach submits tasks, each in the namespace that it names or else the caller's, and returns an answer to each, in
// order. Errors: those of control.SubmitEach.
func (s Submissions) SubmitEach(ctx context.Context, who control.Caller, in []Member) ([]Submitted, error) {
	answers := make([]Submitted, len(in))
	definitions := make([]task.Definition, 0, len(in))
	places := make([]int, 0, len(in)) // definitions[n] is of in[places[n]]
	for i, one := range in {
		d, err := definition.Task(one.Submission)
		if err = cmp.Or(one.Err, err); err != nil {
			answers[i].Err = err
			continue
		}
		definitions, places = append(definitions, d), append(places, i)
	}
	submit := s.Control.SubmitEach
	if s.DryRun {
		submit = s.Control.PreviewEach
	}
	submitted, err := submit(ctx, who, definitions)
	if err != nil {
		return nil, err
	}
	for n, one := range submitted {
		answers[places[n]] = s.answer(one)
	}
	return answers, nil
}

func (s Submissions) answer(submitted control.Submitted) Submitted {
	if submitted.Err != nil {
		return Submitted{Err: submitted.Err}
	}
	out := TaskOf(submitted.Task, s.Types)
	out.Warnings = submitted.Warnings
	if once := submitted.Once; once.Outcome != "" && out.Once != nil {
		out.Once.Outcome = wire.Given(wire.OnceOutcome(once.Outcome))
		out.Once.Next, out.Once.After = wire.AtIfAny(once.Next), wire.Given(once.After)
	}
	return Submitted{Task: out, Existed: submitted.Existed}
}
