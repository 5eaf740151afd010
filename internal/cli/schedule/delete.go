package schedule

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type deleteOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
	Many    many

	IDs   []string
	Tasks string // "" means the server's default
}

func newDeleteCommand(f *command.Factory) *cobra.Command {
	opts := &deleteOptions{Client: f.Client, Printer: f.Printer, Many: many{in: f.In, previews: true}}
	cmd := &cobra.Command{
		Use: "delete ID... | --label NAME=VALUE", Short: "Delete schedules",
		Annotations: command.Asks("listSchedules", "deleteSchedule"),
		Long: `delete deletes schedules with their ledgers and histories. --tasks says which of their tasks are cancelled: "waiting" cancels
those that are not running, "all" also asks the running ones to stop, and with "none" all of them go on.

All of the schedules are tried; the exit code is 1 if any was refused. A pipe gets a line for each: its id, and how many of
its tasks were cancelled, were asked to stop, and go on.

With --dry-run, the output is the same, and nothing is deleted. A terminal also gets ten of the tasks.

` + manyHelp,
		Example: `  dtsctl schedule delete nightly
  dtsctl schedule delete nightly hourly --tasks all
  dtsctl schedule delete nightly --dry-run
  dtsctl schedule delete --label app=old --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.Many.checkArgs(cmd, args); err != nil {
				return err
			}
			opts.IDs = args
			return deleteRun(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(&opts.Tasks, "tasks", "", "which of its tasks are cancelled: waiting, all or none (default waiting)")
	command.Complete(cmd, "tasks", "waiting", "all", "none")
	opts.Many.bind(cmd)
	return cmd
}

func deleteRun(ctx context.Context, opts *deleteOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	ids, err := opts.Many.choose(ctx, c, opts.Printer, "delete", opts.IDs)
	if err != nil {
		return err
	}
	params := &client.DeleteScheduleParams{
		Namespace: c.Namespace, Tasks: flags.NilIfZero(wire.DeleteTasks(opts.Tasks)), DryRun: flags.NilIfZero(opts.Many.DryRun),
	}
	p := opts.Printer
	return command.ForEach(p, ids, func(id string) error {
		answer, err := rest.Read[wire.ScheduleDeletion](c.DeleteScheduleWithResponse(ctx, id, params))
		if err != nil {
			return err
		}
		return p.Show(answer.Raw, func() error {
			d := answer.Value
			if !p.OutIsTerminal {
				return p.PrintTabbed([][]any{{id, d.Cancelled, d.Stopping, d.Left}})
			}
			if opts.Many.DryRun {
				return printDeletion(p, id, d)
			}
			return p.Printf("%s deleted; %s\n", printer.Flat(id), tasksOfDeleted(d))
		})
	})
}

// printDeletion shows a terminal what a deletion would do.
func printDeletion(p *printer.Printer, id string, d wire.ScheduleDeletion) error {
	if err := p.Printf("%s would be deleted; %s\n", printer.Flat(id), tasksOfDeleted(d)); err != nil || len(d.Examples) == 0 {
		return err
	}
	return printer.PrintTable(p, deletedColumns, d.Examples)
}

var deletedColumns = []printer.Column[wire.DeletedTask]{
	{Name: "task", Value: func(t wire.DeletedTask) any { return t.ID }},
	{Name: "state", Value: func(t wire.DeletedTask) any { return printer.Status(t.State) }},
	{Name: "then", Value: func(t wire.DeletedTask) any {
		fate := map[wire.TaskFate]string{
			wire.TaskFateCancelled: "cancelled", wire.TaskFateStopping: "asked to stop", wire.TaskFateLeft: "goes on",
		}
		return cmp.Or(fate[t.Fate], string(t.Fate))
	}},
}

// tasksOfDeleted says what became of the tasks of a deleted schedule.
func tasksOfDeleted(d wire.ScheduleDeletion) string {
	var parts []string
	for _, part := range []struct {
		count int
		fate  string
	}{{d.Cancelled, "cancelled"}, {d.Stopping, "asked to stop"}, {d.Left, "left to go on"}} {
		if part.count > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", printer.Counted(part.count, "task"), part.fate))
		}
	}
	if n := wire.Value(d.WaitingTicks); n > 0 {
		parts = append(parts, printer.Counted(n, "tick")+" that waited dropped")
	}
	if len(parts) == 0 {
		return "all of its tasks had ended"
	}
	return strings.Join(parts, ", ")
}
