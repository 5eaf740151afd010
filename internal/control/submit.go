package control

import (
	"cmp"
	"context"
	"time"

	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

// Submitted is the answer to one submission: the task or, in Err, why there is none. Existed says that the task was
// there before, with the same content. Warnings are sentences that say why the task may not run, though it is accepted: no living node
// serves its queue, or runs its type.
type Submitted struct {
	tasks.Created
	Warnings []string
}

// deletedWarning is the answer to a task that was there before, and is not kept any more.
const deletedWarning = "a task with this id and content has ended, and is not kept any more: it does not run again as long as its id is remembered"

// Submit creates a task in the caller's namespace. Without an id it gets a ULID. Submitting a task again with the same
// content returns the task as it is now. Errors: CodeInvalid, CodeTaskConflict; CodeQueueFull, CodeTooManyNames;
// CodeUnavailable while Redis is nearly full; CodeOverloaded.
func (c *Control) Submit(ctx context.Context, who Caller, d task.Definition) (Submitted, error) {
	d.Namespace = who.Namespace
	answers, err := c.SubmitEach(ctx, who, []task.Definition{d})
	if err != nil {
		return Submitted{}, err
	}
	return answers[0], answers[0].Err
}

// SubmitEach creates many tasks and returns an answer to each, in order, as Submit does for one; a task that is refused
// does not affect the others. A definition that names no namespace belongs to the caller's. Errors: CodeUnavailable while
// Redis is nearly full and none can be created; CodeOverloaded.
func (c *Control) SubmitEach(ctx context.Context, who Caller, defs []task.Definition) ([]Submitted, error) {
	answers, err := c.submit(ctx, who, defs, false)
	accepted := make([]string, 0, len(answers)) // namespaces
	for _, a := range answers {
		if a.Err == nil {
			accepted = append(accepted, a.Task.Namespace)
		}
	}
	c.noteNamespaces(ctx, accepted...)
	return answers, err
}

// PreviewEach returns what SubmitEach would, and creates nothing.
func (c *Control) PreviewEach(ctx context.Context, who Caller, defs []task.Definition) ([]Submitted, error) {
	return c.submit(ctx, who, defs, true)
}

// submit lets submissions in, checks definitions, creates tasks of those that are valid, or with dry says what would come of it, and adds
// warnings. Errors: as SubmitEach.
func (c *Control) submit(ctx context.Context, who Caller, defs []task.Definition, dry bool) ([]Submitted, error) {
	leave, err := c.letIn(ctx, len(defs))
	if err != nil {
		return nil, err
	}
	defer leave()
	room := c.newQueueRoom()
	defer room.leave()
	answers := make([]Submitted, len(defs))
	warnings := c.warner(ctx)
	valid, places, full := c.admit(ctx, who, defs, answers, room, warnings)
	if full != nil && len(valid) == 0 {
		return nil, full
	}
	create := c.store.Tasks.Create
	if dry {
		create = c.store.Tasks.Preview
	}
	results := create(ctx, valid)
	c.recognise(ctx, valid, results, create)
	for n, created := range results {
		answers[places[n]].Created = created
		room.taken(n, !dry && created.Err == nil && !created.Existed)
		if created.Deleted {
			answers[places[n]].Warnings = []string{deletedWarning}
		}
		if created.Err != nil || created.Task.State.Final() {
			continue
		}
		answers[places[n]].Warnings = warnings(created.Task.Type, created.Task.Queue)
	}
	return answers, nil
}

// admit returns the definitions that are valid and for which there is room, and their places in defs; the answers to the others are errors.
// full is the error while Redis is nearly full, if that is one of these.
func (c *Control) admit(
	ctx context.Context, who Caller, defs []task.Definition, answers []Submitted, room *queueRoom,
	warnings func(taskType, queue string) []string,
) (valid []task.Definition, places []int, full error) {
	complete, refs := make([]task.Definition, len(defs)), make([]task.Ref, len(defs))
	for i, d := range defs {
		complete[i], answers[i].Err = c.complete(ctx, who, d)
		refs[i] = complete[i].Ref
	}
	refused := c.checkMemoryEach(ctx, who, refs)
	unnamed := c.checkNames(ctx, defs, complete, answers, warnings)
	valid, places = make([]task.Definition, 0, len(defs)), make([]int, 0, len(defs))
	for i, d := range complete {
		err := answers[i].Err
		if err == nil {
			err = refused[i]
			full = cmp.Or(full, err)
		}
		if err == nil {
			err = unnamed[i]
		}
		if err == nil {
			err = room.enter(ctx, d)
		}
		if err != nil {
			answers[i].Err = err
			continue
		}
		valid, places = append(valid, d), append(places, i)
	}
	return valid, places, full
}

// checkNames returns for which tasks there is no name, as checkName says. A task that is there already needs none.
func (c *Control) checkNames(
	ctx context.Context, submitted, complete []task.Definition, answers []Submitted, warnings func(taskType, queue string) []string,
) map[int]error {
	var unnamed map[int]error
	var repeats []task.Definition // they have an id, so they may be there already
	var places []int
	for i, d := range complete {
		if answers[i].Err != nil {
			continue
		}
		err := c.checkName(ctx, d, warnings(d.Type, cmp.Or(d.Queue, task.DefaultQueue)))
		if err == nil {
			continue
		}
		if unnamed == nil {
			unnamed = make(map[int]error)
		}
		unnamed[i] = err
		if submitted[i].ID != "" {
			repeats, places = append(repeats, d), append(places, i)
		}
	}
	if len(repeats) > 0 {
		for n, known := range c.known(ctx, repeats) {
			if known {
				delete(unnamed, places[n])
			}
		}
	}
	return unnamed
}

// letIn lets a submission of n tasks in. The caller calls leave. Errors: as enterAlone.
func (c *Control) letIn(ctx context.Context, n int) (leave func(), _ error) {
	if n == 1 { // it shares its call with others
		return c.admission.Enter(n)
	}
	return c.enterAlone(ctx, n)
}

// complete fills in what a submission left out, and checks it. Errors: CodeInvalid; that of ctx, so that the checks of
// a large batch end with its request.
func (c *Control) complete(ctx context.Context, who Caller, d task.Definition) (task.Definition, error) {
	if err := ctx.Err(); err != nil {
		return d, err
	}
	if d.Namespace == "" {
		d.Namespace = who.Namespace
	}
	d = d.Normalize()
	if d.ID == "" {
		d.ID = c.store.Tasks.NewID(d.Namespace)
	}
	return d, c.checkTask(ctx, d)
}

// checkTask checks a complete definition. Errors: CodeInvalid, and that of ctx.
func (c *Control) checkTask(ctx context.Context, d task.Definition) error {
	var now time.Time // of no interest to a task that names no time
	if !d.RunAt.IsZero() {
		now = c.now(ctx, d.Ref)
	}
	if err := d.Validate(now); err != nil {
		return err
	}
	return c.types.CheckPayload(ctx, d.Type, d.Payload)
}
