package control

import (
	"context"
	"slices"

	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

const (
	// repeatBytes is how many bytes of tasks that are there recognise reads, and submits again, at once.
	repeatBytes = 4 << 20
	// resultBytes is what a task may have beside its payload.
	resultBytes = task.ResultLimit + task.ErrorLimit
)

// creation is Create or Preview of the store.
type creation func(context.Context, []task.Definition) []tasks.Created

// rewordings are submissions with the ids of tasks that are there and written in another way.
type rewordings struct {
	defs    []task.Definition
	results []tasks.Created
	places  map[task.Ref][]int // by the task, their places in defs and results
}

// recognise looks at the tasks that are there where a submission has their id and is written in another way. If both
// mean the same, it submits the stored wording again, which returns the task that is there. Only submissions that
// conflict cost these round trips. A payload is read once, and only if the rest of the definition means the same.
// The first content of a task that was changed or deleted is known as a digest only: the conflict stays.
func (c *Control) recognise(ctx context.Context, defs []task.Definition, results []tasks.Created, create creation) {
	if !slices.ContainsFunc(results, conflicts) {
		return
	}
	var refs []task.Ref
	r := rewordings{defs: defs, results: results, places: make(map[task.Ref][]int)}
	for n, result := range results {
		if ref := defs[n].Ref; conflicts(result) {
			if r.places[ref] == nil {
				refs = append(refs, ref)
			}
			r.places[ref] = append(r.places[ref], n)
		}
	}
	there, err := c.store.Tasks.Briefs(ctx, refs)
	if err != nil {
		r.fail(refs, err)
		return
	}
	refs = r.narrow(there, func(t task.Task) func(task.Definition) bool {
		return func(d task.Definition) bool { return c.types.AlikeBesides(t, d) }
	})
	sizes := c.store.Tasks.Sizes(ctx, refs)
	for len(refs) > 0 {
		n := portion(sizes)
		if err := c.repeat(ctx, r, refs[:n], create); err != nil {
			r.fail(refs, err)
			return
		}
		refs, sizes = refs[n:], sizes[n:]
	}
}

func conflicts(c tasks.Created) bool { return task.CodeOf(c.Err) == task.CodeTaskConflict }

// portion returns how many tasks with payloads of these sizes, at least one, are repeatBytes at most in sum.
func portion(sizes []int) int {
	total := 0
	for n, size := range sizes {
		if total += size + resultBytes; total > repeatBytes && n > 0 {
			return n
		}
	}
	return len(sizes)
}

// repeat compares the payloads of some tasks, and submits those again that are the same. Error: CodeUnavailable, and no
// submission of these is answered.
func (c *Control) repeat(ctx context.Context, r rewordings, refs []task.Ref, create creation) error {
	there, err := c.store.Tasks.GetEach(ctx, refs)
	if err != nil {
		return err
	}
	same := r.narrow(there, func(t task.Task) func(task.Definition) bool {
		equal := task.SamePayload(t.Payload)
		return func(d task.Definition) bool { return equal(d.Payload) }
	})
	if len(same) == 0 {
		return nil
	}
	again := make([]task.Definition, 0, len(same))
	for _, t := range there {
		if len(r.places[t.Ref]) > 0 {
			again = append(again, t.Definition)
		}
	}
	for k, created := range create(ctx, again) {
		for _, n := range r.places[again[k].Ref] {
			r.results[n] = created
		}
	}
	return nil
}

// narrow leaves those submissions that mean the same as the task that is there, as far as alike looks. It returns the
// tasks that have any.
func (r rewordings) narrow(there []task.Task, alike func(task.Task) func(task.Definition) bool) []task.Ref {
	var left []task.Ref
	for _, t := range there {
		same, places := alike(t), r.places[t.Ref]
		kept := places[:0]
		for _, n := range places {
			if same(r.defs[n]) {
				kept = append(kept, n)
			}
		}
		if r.places[t.Ref] = kept; len(kept) > 0 {
			left = append(left, t.Ref)
		}
	}
	return left
}

// fail answers the submissions of tasks that could not be read: nobody knows whether they conflict.
func (r rewordings) fail(refs []task.Ref, err error) {
	for _, ref := range refs {
		for _, n := range r.places[ref] {
			r.results[n].Err = err
		}
	}
}
