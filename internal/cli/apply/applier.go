package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/manifest"
)

// applier applies the entries of a manifest.
type applier struct {
	client   *rest.Client
	printer  *printer.Printer
	dryRun   bool
	checking bool // a dry run that tells only what is refused

	limits    int                      // that there are, once a dry run would create several
	created   int                      // limits that a dry run would create
	described map[manifest.Ref]bool    // the schedules of the manifest
	pending   map[manifest.Ref]pending // of a dry run, and while files are checked

	results []result
	partial []result // of the tasks of an entry of which only some have been handled
	faults  manifest.Faults
	refused int // entries, or what should be pruned
}

// applyChecked is applyAll, but changes nothing if the server refuses an entry.
func (a *applier) applyChecked(ctx context.Context, m manifest.Manifest, labels map[string]string) error {
	if a.dryRun || isOne(m) { // the server puts one entry as a whole, or not at all
		return a.applyAll(ctx, m, labels)
	}
	check := &applier{
		client: a.client, printer: a.printer, dryRun: true, checking: true, pending: make(map[manifest.Ref]pending),
	}
	switch err := check.applyAll(ctx, m, nil); {
	case err != nil:
		return err
	case check.refused > 0:
		a.results, a.faults, a.refused = check.results, check.faults, check.refused
		a.printer.Errorf("nothing was changed, because something was refused")
		return nil
	}
	return a.applyAll(ctx, m, labels)
}

// isOne reports whether a manifest has one entry at most, which is no number of tasks.
func isOne(m manifest.Manifest) bool {
	entries := slices.Concat(m.Limits, m.Workflows, m.Schedules, m.Tasks)
	return len(entries) < 2 && (len(entries) == 0 || entries[0].Count == 0)
}

// applyAll applies all entries and then prunes, if labels are given. It goes on after a refusal and ends at any other
// error.
func (a *applier) applyAll(ctx context.Context, m manifest.Manifest, labels map[string]string) error {
	a.described = make(map[manifest.Ref]bool, len(m.Schedules))
	for i := range m.Schedules {
		a.described[m.Schedules[i].Ref()] = true
	}
	for i := range m.Limits {
		if err := a.apply(ctx, &m.Limits[i], a.setLimit); err != nil {
			return err
		}
	}
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

// warn shows warnings of the server about an entry, unless this is a check before the entry is put.
func (a *applier) warn(warnings []string) {
	if !a.checking {
		a.printer.Warn(warnings)
	}
}

// stillTrue leaves out what is said of schedules that run a workflow, if the manifest has these schedules, too: they
// are put after it, and the server checks them then.
func (a *applier) stillTrue(namespace string, warnings []string) []string {
	return slices.DeleteFunc(warnings, func(text string) bool {
		id, is := strings.CutPrefix(text, "schedule ")
		id, _, _ = strings.Cut(id, ": ")
		return is && a.described[manifest.Ref{Namespace: namespace, ID: id}]
	})
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
