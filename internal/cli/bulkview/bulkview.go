// Package bulkview is for commands that change all tasks that match a filter. It shows what a bulk action would do,
// asks, starts it, and shows its progress.
package bulkview

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/clock"
)

// Options are the flags of such a command.
type Options struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
	In      io.Reader
	Times   flags.Times

	Filter              flags.Filter
	Selection           flags.Selection
	AllNamespaces       bool
	DryRun, Yes, Detach bool
}

// New returns the options of a command of that factory.
func New(f *command.Factory) *Options {
	return &Options{Client: f.Client, Printer: f.Printer, In: f.In, Times: flags.TimesOf(f)}
}

// Operations are those that such a command asks for.
var Operations = []string{"previewBulk", "startBulk", "getBulk"}

// Bind adds the flags.
func (o *Options) Bind(cmd *cobra.Command) {
	o.Filter.Bind(cmd)
	o.Selection.Bind(cmd)
	set := cmd.Flags()
	set.BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false,
		"with a filter: tasks of all namespaces, as -n '*'")
	set.BoolVar(&o.DryRun, "dry-run", false, "with a filter: show how many and which match, and do nothing")
	set.BoolVarP(&o.Yes, "yes", "y", false, "with a filter: do not ask")
	set.BoolVar(&o.Detach, "detach", false, "with a filter: do not wait until it is done")
}

// CheckArgs refuses ids together with a filter, and neither of both. Beside ids, it refuses the flags that are for a
// filter only: those of Bind, and others of the command.
func (o *Options) CheckArgs(cmd *cobra.Command, ids []string, others ...string) error {
	if o.given() && len(ids) > 0 {
		return command.Usagef("name tasks, or choose them by flags, and not both")
	}
	if o.given() {
		return nil
	}
	if err := command.IDs(cmd, ids); err != nil {
		return err
	}
	return command.NotWithIDs(cmd, append(others, "dry-run", "yes", "detach", "all-namespaces", "time")...)
}

// ByFilter reports whether tasks are chosen by flags.
func (o *Options) ByFilter() bool { return o.given() }

func (o *Options) given() bool {
	f, s := o.Filter, o.Selection
	return len(f.StateNames) > 0 || f.Queue != "" || f.Type != "" || f.Owner != "" || f.Node != "" || f.Schedule != "" ||
		len(s.Labels) > 0 || s.Error != "" || s.SinceText != nil || s.UntilText != nil
}

// Run previews what the request would do, asks, starts it, and waits for its end.
func (o *Options) Run(ctx context.Context, request wire.BulkRequest) error {
	c, err := o.Client()
	if err != nil {
		return err
	}
	namespace := c.Namespace
	if o.AllNamespaces {
		namespace = new("*")
	}
	if request.Filter, err = o.selection(); err != nil {
		return err
	}
	looks := &client.PreviewBulkParams{Namespace: namespace}
	preview, err := rest.Read[wire.BulkPreview](c.PreviewBulkWithResponse(ctx, looks, request))
	if err != nil {
		return err
	}
	o.Printer.Warn(preview.Value.Warnings)
	if o.DryRun {
		return o.Printer.Show(preview.Raw, func() error { return o.show(preview.Value, request.Action) })
	}
	if preview.Value.Total == 0 {
		o.Printer.Notef("No task matches.")
		// A document is always that of a bulk action, so one is started for it.
		if o.Printer.IsTable() {
			return nil
		}
	}
	if !o.Yes && preview.Value.Total > 0 {
		what := fmt.Sprintf("%s %s", request.Action, total(preview.Value))
		show := func() error { return o.show(preview.Value, request.Action) }
		if err := command.Agree(o.Printer, o.In, what, show); err != nil {
			return err
		}
	}
	request.AsOf = &preview.Value.AsOf
	starts := &client.StartBulkParams{Namespace: namespace}
	started, err := rest.Read[wire.Bulk](c.StartBulkWithResponse(ctx, starts, request))
	if err != nil {
		return err
	}
	if o.Detach {
		return Show(o.Printer, started)
	}
	return o.follow(ctx, c, started.Value.ID)
}

// selection is the filter that the flags name.
func (o *Options) selection() (*wire.TaskSelection, error) {
	since, until, err := o.Selection.Span(o.Times)
	if err != nil {
		return nil, err
	}
	labels, err := flags.Labels("--label", o.Selection.Labels)
	if err != nil {
		return nil, err
	}
	f, s := o.Filter, o.Selection
	selection := &wire.TaskSelection{
		Queue: flags.NilIfZero(f.Queue), Type: flags.NilIfZero(f.Type), Owner: flags.NilIfZero(f.Owner),
		Node: flags.NilIfZero(f.Node), Schedule: flags.NilIfZero(f.Schedule), Labels: labels,
		Error: flags.NilIfZero(s.Error), Time: flags.NilIfZero(wire.TaskTime(s.Time)),
	}
	selection.State = f.States()
	if since != nil {
		selection.Since = &wire.Time{Time: *since}
	}
	if until != nil {
		selection.Until = &wire.Time{Time: *until}
	}
	return selection, nil
}

// total says how many tasks match.
func total(p wire.BulkPreview) string {
	text := printer.Counted(p.Total, "task")
	if wire.Value(p.About) {
		return "about " + text
	}
	return text
}

// show prints a preview.
func (o *Options) show(p wire.BulkPreview, action wire.BulkAction) error {
	o.Printer.Notef("This would %s %s, as of %s.", action, total(p), p.AsOf.Format(time.RFC3339))
	if len(p.Examples) == 0 {
		return nil
	}
	return printer.PrintTable(o.Printer, exampleColumns, p.Examples)
}

var exampleColumns = []printer.Column[wire.Task]{
	{Name: "id", Value: func(t wire.Task) any { return t.ID }},
	{Name: "namespace", Value: func(t wire.Task) any { return t.Namespace }},
	{Name: "state", Value: func(t wire.Task) any { return printer.Status(t.State) }},
	{Name: "type", Value: func(t wire.Task) any { return t.Type }},
	{Name: "queue", Value: func(t wire.Task) any { return t.Queue }},
	{Name: "due", Value: func(t wire.Task) any { return t.RunAt }},
	{Name: "finished", Value: func(t wire.Task) any { return t.FinishedAt }},
	{Name: "error", Value: func(t wire.Task) any { return printer.Remark(printer.Deref(t.Error)) }},
}

// followPause is between two looks at a bulk action.
const followPause = 300 * time.Millisecond

// silencesBorne is after how many looks without an answer the user is told.
const silencesBorne = 3

// follow shows the progress of a bulk action until it has ended, also while the server does not answer for a while. If
// ctx ends, or the server refuses, it says how to go on.
func (o *Options) follow(ctx context.Context, c *rest.Client, id string) error {
	line := printer.StatusLine{Printer: o.Printer}
	for silences := 0; ; {
		b, err := rest.Read[wire.Bulk](c.GetBulkWithResponse(ctx, id))
		switch {
		case err == nil && HasEnded(b.Value.State):
			line.Clear()
			return o.end(b)
		case ctx.Err() != nil || rest.IsFinal(err):
			line.Clear()
			o.Printer.Notef("It goes on. See how far it is: dtsctl bulk get %s. Stop it: dtsctl bulk stop %s.", id, id)
			return cmp.Or(ctx.Err(), err)
		case err != nil:
			if silences++; silences == silencesBorne {
				line.Clear()
				o.Printer.Notef("bulk action %s: the API does not answer, trying again (%v)", id, err)
			}
		default:
			silences = 0
			line.Draw(Progress(b.Value))
		}
		_ = clock.Sleep(ctx, followPause) // the next look says whether ctx has ended
	}
}

// end prints how a bulk action has ended.
func (o *Options) end(b rest.Answer[wire.Bulk]) error {
	if err := Show(o.Printer, b); err != nil {
		return err
	}
	if b.Value.State != wire.BulkStateDone || b.Value.Failed > 0 {
		return command.ErrReported
	}
	return nil
}

// HasEnded reports whether a bulk action does nothing any more.
func HasEnded(state wire.BulkState) bool {
	return state == wire.BulkStateDone || state == wire.BulkStateStopped || state == wire.BulkStateFailed
}

// Progress says how far a bulk action is.
func Progress(b wire.Bulk) string {
	came := b.Changed + b.Skipped + b.Failed
	return fmt.Sprintf("%d of %d, %d %%", came, max(b.Total, came), 100*came/max(b.Total, came, 1))
}

// Columns are those of a list of bulk actions.
var Columns = []printer.Column[wire.Bulk]{
	{Name: "id", Value: func(b wire.Bulk) any { return b.ID }},
	{Name: "action", Value: func(b wire.Bulk) any { return string(b.Action) }},
	{Name: "state", Value: func(b wire.Bulk) any { return string(b.State) }},
	{Name: "total", Value: func(b wire.Bulk) any { return b.Total }},
	{Name: "changed", Value: func(b wire.Bulk) any { return b.Changed }},
	{Name: "skipped", Value: func(b wire.Bulk) any { return b.Skipped }},
	{Name: "failed", Value: func(b wire.Bulk) any { return b.Failed }},
	{Name: "started", Value: func(b wire.Bulk) any { return b.StartedAt }},
	{Name: "ended", Value: func(b wire.Bulk) any { return b.EndedAt }},
	{Name: "by", Value: func(b wire.Bulk) any { return b.By }},
	{Name: "error", Value: func(b wire.Bulk) any { return printer.Remark(printer.Deref(b.Error)) }},
}

// Show prints a bulk action.
func Show(p *printer.Printer, b rest.Answer[wire.Bulk]) error {
	return p.Show(b.Raw, func() error { return printer.PrintTable(p, Columns, []wire.Bulk{b.Value}) })
}
