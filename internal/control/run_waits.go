package control

import (
	"context"
	"fmt"
	"slices"

	"github.com/dts-sched/dts/internal/store/workflows"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
)

// What a run waits for, before it begins and at its end.

// noteOverdue notes why a run that runs has not ended though its deadline is over.
func (c *Control) noteOverdue(run *Run) {
	if run.Task.State == task.Running && c.nodes != nil {
		run.Waits = run.Flow.Overdue(run.Run, c.nodes.View().Now())
	}
}

// waitsFor returns the definition that a run would have that has not begun, and notes what it waits for. Errors:
// workflow.CodeNotFound, CodeUnreadable, CodeUnavailable.
func (c *Control) waitsFor(ctx context.Context, run *Run) (workflow.Definition, error) {
	own := run.Task
	name := task.Ref{Namespace: own.Namespace, ID: run.Workflow}
	stored, err := c.store.Workflows.Get(ctx, name)
	if err != nil || own.State != task.Queued {
		return stored.Definition, err
	}
	switch {
	case !stored.PausedAt.IsZero():
		run.Waits = fmt.Sprintf("The workflow %s is paused (dtsctl flow resume --workflow %s).", name.ID, name.ID)
	case stored.MaxRuns > 0:
		places, err := c.store.Workflows.Line(ctx, name, 0, stored.MaxRuns+tellAtOnce)
		at := slices.Index(places, workflows.Place{Run: own.Ref, Attempt: own.Attempt})
		if at < 0 && len(places) == stored.MaxRuns+tellAtOnce { // it is behind these, or will be
			at = len(places)
		}
		if err == nil && at >= stored.MaxRuns {
			const text = "It waits for a place: max_runs of the workflow %s is %d, and %s %s. %s"
			first, others := places[0].Run, standsBehind(at-stored.MaxRuns)
			run.Waits = fmt.Sprintf(text, name.ID, stored.MaxRuns, first.ID, c.doing(ctx, first), others)
		}
	}
	return stored.Definition, nil
}

// doing says in words what a run does that has a place.
func (c *Control) doing(ctx context.Context, ref task.Ref) string {
	texts, err := c.store.Partitions.At(c.store.PartitionOf(ref)).RunTexts(ctx, []task.Ref{ref})
	if err == nil {
		if p, err := workflow.DecodeProgress(texts[0]); err == nil && p.Paused {
			return fmt.Sprintf("is paused (dtsctl flow resume %s)", ref.ID)
		}
	}
	return "runs"
}

// standsBehind says how many others wait before a run.
func standsBehind(others int) string {
	switch {
	case others == 0:
		return "It is the next one."
	case others == 1:
		return "One waits before it."
	case others >= tellAtOnce:
		return "1,000 or more wait before it."
	}
	return fmt.Sprintf("%d wait before it.", others)
}
