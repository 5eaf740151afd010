package apply

import (
	"context"
	"fmt"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/manifest"
)

// applier applies the entries of a manifest.
type applier struct {
	client  *rest.Client
	printer *printer.Printer
	dryRun  bool

	pending map[manifest.Ref]pending // of a dry run, and while files are checked

	results []result
	partial []result // of the tasks of an entry of which only some have been handled
	faults  manifest.Faults
	refused int // entries, or what should be pruned
}

// applyAll applies all entries and then prunes, if labels are given. It goes on after a refusal and ends at any other
// error.
func (a *applier) applyAll(ctx context.Context, m manifest.Manifest, labels map[string]string) error {
	for i := range m.Workflows {
		if err := a.apply(ctx, &m.Workflows[i], a.putWorkflow); err != nil {
			return err
		}
	}
	for i := range m.Schedules {
		if err := a.apply(ctx, &m.Schedules[i], a.putSchedule); err != nil {
			return err
		}
	}
	if err := a.applyTasks(ctx, m.Tasks); err != nil {
		return err
	}
	switch {
	case labels == nil:
		return nil
	case a.refused > 0:
		a.printer.Errorf("nothing is pruned, because something was refused")
		return nil
	}
	return a.prune(ctx, m, labels)
}

// refuse tells the user why the server refused an entry, or as many of its tasks.
func (a *applier) refuse(e *manifest.Entry, tasks int, refusal *rest.Refusal) {
	a.refused++
	name := e.Kind + " " + e.ID
	if e.Count > 0 {
		name = fmt.Sprintf("%d of the %d tasks %s", tasks, e.Count, e.ID)
	}
	invalid := e.InOrder(refusal.Invalid())
	faults := e.Faults(invalid)
	a.faults = append(a.faults, faults...)
	if len(refusal.Errors) == 0 {
		a.printer.Errorf("%s: %s: %v", faults[0].Place(), name, refusal)
		return
	}
	for i, one := range invalid {
		a.printer.Errorf("%s: %s: %s (%s)", faults[i].Place(), name, one.Detail, refusal.Code)
	}
}
