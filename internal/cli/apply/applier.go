package apply

import (
	"context"
	"fmt"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// applier applies the entries of a manifest.
type applier struct {
	client  *rest.Client
	printer *printer.Printer
	dryRun  bool

	results []result
	partial []result // of the tasks of an entry of which only some have been handled
	refused int      // entries
}

// applyAll applies all entries and then prunes, if labels are given. It goes on after a refusal and ends at any other
// error.
func (a *applier) applyAll(ctx context.Context, m manifest, labels map[string]string) error {
	for i := range m.schedules {
		if err := a.applySchedule(ctx, &m.schedules[i]); err != nil {
			return err
		}
	}
	if err := a.applyTasks(ctx, m.tasks); err != nil {
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
func (a *applier) refuse(e *entry, tasks int, refusal *rest.Refusal) {
	a.refused++
	name := e.kind + " " + e.id
	if e.count > 0 {
		name = fmt.Sprintf("%d of the %d tasks %s", tasks, e.count, e.id)
	}
	a.printer.Errorf("%s:%d: %s: %v", e.file, e.line(printer.Deref(refusal.Field)), name, refusal)
}
