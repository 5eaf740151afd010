package schedule

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/diff"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/manifest"
)

type putOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
	Stdin   io.Reader
	Times   flags.Times

	ID         string
	Definition definitionFlags
	Template   templateFlags
	IfMatch    *int
	IfAbsent   bool
}

func newPutCommand(f *command.Factory) *cobra.Command {
	opts := &putOptions{Client: f.Client, Printer: f.Printer, Stdin: f.In, Times: flags.TimesOf(f)}
	cmd := &cobra.Command{
		Use:         "put ID (--cron EXPRESSION | --every DURATION)... [flags] (-- COMMAND [ARGUMENT...] | --http URL | --grpc TARGET | --type TYPE)",
		Annotations: command.Asks("putSchedule", "getSchedule", "previewSchedule"),
		Short:       "Create or replace a schedule",
		Long: `put puts a definition of a schedule in force. It replaces all of the definition: what no flag names has its default, not
its earlier value. Only the pause stays as it is without --paused. Repeating a command changes nothing.

The task is a command behind "--", as in "task shell" (with --env, --dir, --stdin); a URL that is called, as in "task http"
(with --method, --header, --data, --success-codes); a gRPC server that is called, as in "task grpc" (with --method,
--metadata, --data, --tls); or a task of any type (with --payload). --owner and --label belong to the schedule,
--task-owner and --task-label to its tasks.

Without --max-attempts, --max-elapsed and --retry-delays, a failed task is not retried if another attempt could run into
the next tick. With any of them, it is.

A cron expression has 5 fields (minute, hour, day of the month, month, day of the week), 6 (seconds first) or 7 (a year
last), or is @hourly, @daily and the like. Sunday is 0 and 7. Days can be L, L-3, 15W, LW, 5L or 5#2. H stands for a
value derived from the schedule's name; it spreads schedules that need no exact time.

A terminal is told what changed and the next ticks. A pipe gets a line: the id; created, changed or unchanged; the
revision; the next tick.`,
		Example: `  dtsctl schedule put nightly --cron '30 2 * * *' --timezone Europe/Berlin -- /usr/local/bin/backup --full
  dtsctl schedule put health --every 10s --overlap skip --http https://example.com/health -X GET --timeout 5s
  dtsctl schedule put close --cron '0 18 * * *' --grpc orders.internal:50051 --method shop.Orders/Close -d '{"all": true}' --tls
  dtsctl schedule put report --cron '0 0 18 LW * *' --exclude 2026-12-31 --type http --payload @report.json
  dtsctl schedule put hourly --cron 'H * * * *' --misfire all --misfire-window 6h --if-match 3 -- sync`,
		Args: putArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.ID, opts.Template.Command = args[0], args[1:]
			if err := opts.check(cmd.Flags()); err != nil {
				return err
			}
			return putRun(cmd.Context(), opts)
		},
	}
	command.CompleteCommand(cmd)
	opts.Definition.bind(cmd)
	opts.Template.bind(cmd.Flags())
	command.CompleteFiles(cmd, "descriptor-set")
	flags.Int(cmd.Flags(), &opts.IfMatch, "if-match", "only if this is the revision in force")
	cmd.Flags().BoolVar(&opts.IfAbsent, "if-absent", false, "only if there is no schedule with that id")
	return cmd
}

// putArgs takes one id, and a command behind the dashes.
func putArgs(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	if dash < 0 {
		dash = len(args)
	}
	if dash > 1 {
		return command.Usagef("%q is one argument too many; a command stands behind --", args[1])
	}
	return command.ExactArgs("ID")(cmd, args[:dash])
}

func (opts *putOptions) check(set *pflag.FlagSet) error {
	if opts.IfAbsent && opts.IfMatch != nil {
		return command.Usagef("--if-match and --if-absent: give one of them, not both")
	}
	if err := flags.CheckIfMatch(opts.IfMatch); err != nil {
		return err
	}
	if err := flags.CheckDurations(set); err != nil {
		return err
	}
	return opts.Template.check(set)
}

func putRun(ctx context.Context, opts *putOptions) error {
	template, err := opts.Template.template(opts.Stdin)
	if err != nil {
		return err
	}
	definition, err := opts.Definition.definition(opts.Times, template)
	if err != nil {
		return err
	}
	opts.Printer.Warn(flags.LineWarnings(opts.Template.Command))
	c, err := opts.Client()
	if err != nil {
		return err
	}
	before, err := replacedSchedule(ctx, c, opts)
	if err != nil {
		return err
	}
	body, err := rest.Body(definition)
	if err != nil {
		return err
	}
	params := &client.PutScheduleParams{Namespace: c.Namespace, IfMatch: flags.RevisionTag(opts.IfMatch)}
	if opts.IfAbsent {
		params.IfNoneMatch = new("*")
	}
	response, err := c.PutScheduleWithBodyWithResponse(ctx, opts.ID, params, rest.JSONType, body)
	after, err := rest.Read[wire.Schedule](response, err)
	if err != nil {
		return err
	}
	opts.Printer.Warn(after.Value.Warnings)
	return showPut(ctx, c, opts.Printer, response.HTTPResponse.Header.Get("Dts-Change"), before, after)
}

// replacedSchedule returns the schedule that is about to be replaced, nil if there is none, or nobody is shown what changes in it.
func replacedSchedule(ctx context.Context, c *rest.Client, opts *putOptions) (*rest.Answer[wire.Schedule], error) {
	if !opts.Printer.IsTable() || !opts.Printer.OutIsTerminal {
		return nil, nil
	}
	before, err := getSchedule(ctx, c, opts.ID)
	switch {
	case err == nil:
		return &before, nil
	case rest.IsRefusal(err):
		return nil, nil
	}
	return nil, err
}

// What a definition that was put did to a schedule, as the server says: others may put it at the same time.
const (
	putChanged   = "changed"
	putUnchanged = "unchanged"
)

// showPut prints the result of a definition that was put. before is nil if it is unknown.
func showPut(
	ctx context.Context, c *rest.Client, p *printer.Printer, result string, before *rest.Answer[wire.Schedule], after rest.Answer[wire.Schedule],
) error {
	return p.Show(after.Raw, func() error {
		if before != nil && (result != putChanged || before.Value.Revision < after.Value.Revision-1) {
			before = nil // somebody else has changed it meanwhile
		}
		if !p.OutIsTerminal {
			return p.PrintTabbed([][]any{{after.Value.ID, result, after.Value.Revision, after.Value.NextAt}})
		}
		if err := p.Printf("%s\n", putSentence(p, result, before, after.Value)); err != nil {
			return err
		}
		if before != nil {
			changes, err := manifest.Changes(before.Raw, after.Raw)
			if err != nil {
				return err
			}
			if err := diff.Print(p, changes); err != nil {
				return err
			}
		}
		return printNextFew(ctx, c, p, after.Value)
	})
}

func putSentence(p *printer.Printer, result string, before *rest.Answer[wire.Schedule], after wire.Schedule) string {
	text := printer.Flat(after.ID) + " " + result
	switch result {
	case putChanged:
		text += fmt.Sprintf(", now revision %d", after.Revision)
	case putUnchanged:
		text += fmt.Sprintf(", revision %d", after.Revision)
	}
	switch {
	case after.Paused:
		text += ", " + p.StatusWord("paused")
	case before != nil && before.Value.Paused:
		text += ", no longer paused"
	}
	return text
}

// fewTicks is how many of the next ticks are shown when a definition was put.
const fewTicks = 3

// printNextFew prints the next ticks of a schedule. That they cannot be shown is no failure: the definition is in force.
func printNextFew(ctx context.Context, c *rest.Client, p *printer.Printer, s wire.Schedule) error {
	params := &client.PreviewScheduleParams{Namespace: &s.Namespace, Count: new(fewTicks)}
	next, err := rest.Read[wire.SchedulePreview](c.PreviewScheduleWithResponse(ctx, s.ID, params))
	if err != nil {
		p.Errorf("cannot show the next ticks: %v", err)
		return nil
	}
	if len(next.Value.Ticks) == 0 {
		return p.Printf(noFurtherTicks)
	}
	return p.PrintAligned(printer.Cells(shortTickColumns, next.Value.Ticks))
}
