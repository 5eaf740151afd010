package task

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/taskview"
)

type changeOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
	Stdin   io.Reader
	Times   flags.Times

	ID         string
	Due        flags.Due
	Queue      *string
	Payload    *string
	Precedence flags.Precedence
	Reach      flags.Reach
}

func newChangeCommand(f *command.Factory) *cobra.Command {
	opts := &changeOptions{Client: f.Client, Printer: f.Printer, Stdin: f.In, Times: flags.TimesOf(f)}
	cmd := &cobra.Command{
		Use: "change ID", Aliases: []string{"update"}, Short: "Change a task that waits", Args: command.ExactArgs("ID"),
		Annotations: command.Asks("changeTask"),
		Long: `change changes the time, queue, payload, priority, fair key, weight, limit keys, cost, or where it runs, of
a task that waits: for its time, for room in its queue, or for a worker to take it. Everything else stays as it is. Another
fair key has the weight 1, unless --fair-weight names one; --fair-key "" removes the key and its weight, and
--limit-key "" removes the limit keys. --select, --prefer and --route replace what the task has: all preferences, and
the route with all that belongs to it. --select "", --prefer "" and --route any remove it.`,
		Example: `  dtsctl task change nightly --delay 1h
  dtsctl task change nightly --at 2026-01-02T03:00:00Z --queue critical
  dtsctl task change nightly --payload @job.json
  dtsctl task change nightly --priority 9
  dtsctl task change nightly --select zone=us --prefer 10:gpu --route least_running`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.ID = args[0]
			return changeRun(cmd.Context(), opts)
		},
	}
	set := cmd.Flags()
	opts.Due.Bind(set)
	flags.String(set, &opts.Queue, "queue", "the queue it goes through")
	flags.String(set, &opts.Payload, "payload", "what the executor gets: JSON, @FILE, or @- for standard input")
	opts.Precedence.Bind(set)
	opts.Reach.Bind(set)
	return cmd
}

func changeRun(ctx context.Context, opts *changeOptions) error {
	runAt, delay, err := opts.Due.Resolve(opts.Times)
	if err != nil {
		return err
	}
	payload, err := flags.JSON(opts.Stdin, "--payload", opts.Payload)
	if err != nil {
		return err
	}
	sameTurn := opts.Precedence == (flags.Precedence{}) && !opts.Reach.Given()
	if runAt == nil && delay == nil && opts.Queue == nil && payload == nil && sameTurn {
		return command.Usagef("nothing to change: give --at, --delay, --queue, --payload, --priority, --fair-key, " +
			"--fair-weight, --limit-key, --cost, --select, --prefer or --route")
	}
	prefer, err := opts.Reach.Prefer()
	if err != nil {
		return err
	}
	route, err := opts.Reach.Route()
	if err != nil {
		return err
	}
	change := wire.TaskChange{
		RunAt: runAt, Delay: delay, Queue: opts.Queue, Payload: payload,
		Priority: opts.Precedence.Priority, FairKey: opts.Precedence.FairKey, FairWeight: opts.Precedence.FairWeight,
		LimitKey: opts.Precedence.LimitKey, Cost: opts.Precedence.Cost, Slots: opts.Reach.Slots,
		Select: opts.Reach.Select, Route: route,
	}
	if prefer != nil {
		change.Prefer = &prefer
	}
	body, err := rest.Body(change)
	if err != nil {
		return err
	}
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := &client.ChangeTaskParams{Namespace: c.Namespace}
	answer, err := rest.Read[wire.Task](c.ChangeTaskWithBodyWithResponse(ctx, opts.ID, params, rest.JSONType, body))
	if err != nil {
		return err
	}
	return taskview.Show(opts.Printer, answer)
}
