package control

import (
	"context"
	"slices"

	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

// creation is Create or Preview of the store.
type creation func(context.Context, []task.Definition) []tasks.Created

// recognise looks at the tasks that are there where a submission has their id and is written in another way. If both
// mean the same, it submits the stored wording again, which returns the task that is there. Only submissions
// that conflict cost these round trips. The first content of a task that was changed or deleted is known as a digest
// only: the conflict stays.
func (c *Control) recognise(ctx context.Context, defs []task.Definition, results []tasks.Created, create creation) {
	var refs []task.Ref
	for n, r := range results {
		if task.CodeOf(r.Err) == task.CodeTaskConflict && !slices.Contains(refs, defs[n].Ref) {
			refs = append(refs, defs[n].Ref)
		}
	}
	if len(refs) == 0 {
		return
	}
	found, err := c.store.Tasks.GetEach(ctx, refs)
	if err != nil { // nobody knows whether they conflict
		for n, r := range results {
			if task.CodeOf(r.Err) == task.CodeTaskConflict {
				results[n].Err = err
			}
		}
		return
	}
	there := make(map[task.Ref]task.Task, len(found))
	for _, t := range found {
		there[t.Ref] = t
	}
	var again []task.Definition
	var places []int
	for n, r := range results {
		first, ok := there[defs[n].Ref]
		if ok && task.CodeOf(r.Err) == task.CodeTaskConflict && c.types.Alike(first, defs[n]) {
			again, places = append(again, first.Definition), append(places, n)
		}
	}
	if len(again) == 0 {
		return
	}
	for n, r := range create(ctx, again) {
		results[places[n]] = r
	}
}
