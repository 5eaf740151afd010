package control

import (
	"context"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/graph"
)

// RunList is a part of a list of runs of workflows.
type RunList struct {
	TaskPage
	Counts   map[task.State]TaskCount       // as of ListAndCountTasks; nil from ListRuns
	Progress map[task.Ref]workflow.Progress // of the runs of the page that have begun, and can be read
}

// ListRuns is ListTasks for runs of workflows. It also says how far those of the page are.
func (c *Control) ListRuns(ctx context.Context, who Caller, f TaskFilter, limit int, cursor string) (RunList, error) {
	if _, err := c.begin(ctx, who, "listRuns"); err != nil {
		return RunList{}, err
	}
	f.Namespace, f.Type = who.Namespace, task.WorkflowType
	page, err := c.store.Listing.List(ctx, f, limit, cursor)
	if err != nil {
		return RunList{}, err
	}
	progress, err := c.progressOf(ctx, page.Tasks)
	return RunList{TaskPage: page, Progress: progress}, err
}

// ListAndCountRuns is ListAndCountTasks for runs of workflows. It also says how far those of the page are.
func (c *Control) ListAndCountRuns(
	ctx context.Context, who Caller, f TaskFilter, limit int, cursor string,
) (RunList, error) {
	if _, err := c.begin(ctx, who, "listRuns"); err != nil {
		return RunList{}, err
	}
	f.Namespace, f.Type = who.Namespace, task.WorkflowType
	page, counts, err := c.store.Listing.ListAndCount(ctx, f, limit, cursor)
	if err != nil {
		return RunList{}, err
	}
	progress, err := c.progressOf(ctx, page.Tasks)
	return RunList{page, counts, progress}, err
}

// progressOf returns how far runs are that have begun. Error: CodeUnavailable.
func (c *Control) progressOf(ctx context.Context, runs []task.Task) (map[task.Ref]workflow.Progress, error) {
	var partitions []int
	in := map[int][]task.Ref{}
	for _, t := range runs {
		p := c.store.PartitionOf(t.Ref)
		if in[p] == nil {
			partitions = append(partitions, p)
		}
		in[p] = append(in[p], t.Ref)
	}
	texts := make([][]string, len(partitions))
	err := calls.Each(len(partitions), partitions, func(i, p int) (err error) {
		texts[i], err = c.store.Partitions.At(p).RunTexts(ctx, in[p])
		if err != nil && redisx.LeaveOut(ctx, "how far some runs are cannot be read (%v)", err) {
			return nil
		}
		return err
	})
	progress := map[task.Ref]workflow.Progress{}
	for i, p := range partitions {
		for j, text := range texts[i] {
			if known, err := workflow.DecodeProgress(text); err == nil {
				progress[in[p][j]] = known
			}
		}
	}
	return progress, err
}

// Sections returns the steps of a run as they are drawn, by the parts of its definition.
func (r Run) Sections() []graph.Section {
	return graph.Sections(r.Steps, func(s RunStep) (string, graph.Step) {
		return s.Section, graph.Step{ID: s.ID, Needs: s.Needs, State: string(s.State)}
	})
}
