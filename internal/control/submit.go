package control

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

// Submitted is the answer to one submission: the task or, in Err, why there is none. Existed says that the task was
// there before, with the same content. Warnings are sentences that say why the task may not run, though it is
// accepted: no living node serves its queue, runs its type or is one on which it may run, or a limit has less than it
// costs.
type Submitted struct {
	tasks.Created
	Warnings []string
}

// deletedWarning is the answer to a task that was there before, and is not kept any more.
const deletedWarning = "a task with this id and content has ended, and is not kept any more: " +
	"it does not run again as long as its id is remembered"

// Submit creates a task in the caller's namespace. Without an id it gets a ULID. Submitting a task again with the same
// content returns the task as it is now. Errors: CodeInvalid, CodeTaskConflict; CodeQueueFull, CodeTooManyNames;
// CodeUnavailable while Redis is nearly full; CodeOverloaded.
func (c *Control) Submit(ctx context.Context, who Caller, d task.Definition) (Submitted, error) {
	return c.submitOne(ctx, who, "submitTask", d, false)
}

// Preview returns what Submit would, and creates nothing.
func (c *Control) Preview(ctx context.Context, who Caller, d task.Definition) (Submitted, error) {
	return c.submitOne(ctx, who, "submitTask", d, true)
}

func (c *Control) submitOne(
	ctx context.Context, who Caller, operation string, d task.Definition, dry bool,
) (Submitted, error) {
	d.Namespace = who.Namespace
	answers, err := c.submitEach(ctx, who, operation, []task.Definition{d}, dry)
	if err != nil {
		return Submitted{}, err
	}
	return answers[0], answers[0].Err
}

// SubmitEach creates many tasks and returns an answer to each, in order, as Submit does for one; a task that is
// refused does not affect the others. A definition that names no namespace belongs to the caller's. Errors:
// CodeUnavailable while Redis is nearly full and none can be created; CodeOverloaded.
func (c *Control) SubmitEach(ctx context.Context, who Caller, defs []task.Definition) ([]Submitted, error) {
	return c.submitEach(ctx, who, "submitTasks", defs, false)
}

// PreviewEach returns what SubmitEach would, and creates nothing.
func (c *Control) PreviewEach(ctx context.Context, who Caller, defs []task.Definition) ([]Submitted, error) {
	return c.submitEach(ctx, who, "submitTasks", defs, true)
}

// submitEach lets submissions in, checks definitions, and creates tasks of those that are valid. With dry it says what
// would come of it. It adds warnings. Errors: as SubmitEach.
func (c *Control) submitEach(
	ctx context.Context, who Caller, operation string, defs []task.Definition, dry bool,
) ([]Submitted, error) {
	named, refs := c.named(who, defs)
	if c.tracer != nil && !dry {
		spans := c.beginSpans(ctx, who, named)
		answers, err := c.submitNamed(ctx, who, operation, defs, named, refs, dry)
		endSpans(spans, answers, err)
		return answers, err
	}
	return c.submitNamed(ctx, who, operation, defs, named, refs, dry)
}

// submitNamed is submitEach without spans. named are the definitions that defs ask for, with the names refs.
func (c *Control) submitNamed(
	ctx context.Context, who Caller, operation string, defs, named []task.Definition, refs []task.Ref, dry bool,
) ([]Submitted, error) {
	p, err := c.begin(ctx, who, operation, refs...)
	if err != nil {
		return nil, err
	}
	defer p.leave()
	answers := make([]Submitted, len(defs))
	warnings := c.warner(ctx)
	valid, places, full := c.admit(ctx, defs, named, answers, p, warnings)
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
		p.room.taken(n, !dry && created.Err == nil && !created.Existed)
		if !dry {
			c.countKeyed(valid[n].Once, created)
		}
		if created.Deleted {
			answers[places[n]].Warnings = []string{deletedWarning}
		}
		if created.Err != nil || created.Task.State.Final() {
			continue
		}
		answers[places[n]].Warnings = slices.Concat(
			warnings(created.Task.Type, created.Task.Queue), c.demandWarnings(ctx, created.Task.Definition))
	}
	if !dry {
		c.noteNamespaces(ctx, namespacesOf(answers)...)
	}
	return answers, nil
}

// countKeyed counts what became of a submission, if it has a key.
func (c *Control) countKeyed(o *task.Once, created tasks.Created) {
	if o != nil && created.Err == nil && c.keyed != nil {
		c.keyed(o.Mode, created.Once.Outcome)
	}
}

// namespacesOf returns the namespaces of the tasks that were accepted.
func namespacesOf(answers []Submitted) []string {
	names := make([]string, 0, len(answers))
	for _, a := range answers {
		if a.Err == nil {
			names = append(names, a.Task.Namespace)
		}
	}
	return names
}

// named returns submissions with the names of their tasks: those that they left out are filled in.
func (c *Control) named(who Caller, defs []task.Definition) ([]task.Definition, []task.Ref) {
	named, refs := slices.Clone(defs), make([]task.Ref, len(defs))
	for i := range named {
		d := &named[i]
		d.Namespace = cmp.Or(d.Namespace, who.Namespace)
		if d.ID == "" {
			d.ID = c.store.Tasks.NewID(d.Namespace)
		}
		if d.Once != nil {
			d.Ref = d.Keyed(d.Once.Key)
		}
		refs[i] = d.Ref
	}
	return named, refs
}

// admit returns the definitions that are valid and for which there is room, and their places in defs; the answers to
// the others are errors. full is the error while Redis is nearly full, if that is one of these.
func (c *Control) admit(
	ctx context.Context, defs, named []task.Definition, answers []Submitted, p pass,
	warnings func(taskType, queue string) []string,
) (valid []task.Definition, places []int, full error) {
	for i := range named {
		named[i], answers[i].Err = c.complete(ctx, named[i])
	}
	unnamed := c.checkNames(ctx, defs, named, answers, warnings)
	valid, places = make([]task.Definition, 0, len(defs)), make([]int, 0, len(defs))
	for i, d := range named {
		err := answers[i].Err
		if err == nil {
			err = p.refused[i]
			full = cmp.Or(full, err)
		}
		if err == nil {
			err = unnamed[i]
		}
		if err == nil {
			err = p.room.enter(ctx, d)
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
	ctx context.Context, submitted, complete []task.Definition, answers []Submitted,
	warnings func(taskType, queue string) []string,
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

// complete fills in what the definition of a named task left out, and checks it. Errors: CodeInvalid; that of ctx, so
// that the checks of a large batch end with its request.
func (c *Control) complete(ctx context.Context, d task.Definition) (task.Definition, error) {
	if err := ctx.Err(); err != nil {
		return d, err
	}
	d = labelled(d.Normalize())
	return d, c.checkTask(ctx, d)
}

// checkTask checks a complete definition. Errors: CodeInvalid, and that of ctx.
func (c *Control) checkTask(ctx context.Context, d task.Definition) error {
	var now time.Time // of no interest to a task that names no time
	if !d.RunAt.IsZero() {
		now = c.now(ctx, d.Ref)
	}
	invalid := d.Validate(now)
	if invalid != nil && task.ValidatePayload(d.Payload) != nil { // then its executor could not read it
		return invalid
	}
	return task.Join(invalid, c.checkContent(ctx, d, len(d.ID)))
}
