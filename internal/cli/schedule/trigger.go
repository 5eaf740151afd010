package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/taskview"
	"github.com/dts-sched/dts/internal/clock"
)

// bindKey adds the flag with the key of a request that may be repeated.
func bindKey(cmd *cobra.Command, key *string) {
	cmd.Flags().StringVar(key, "idempotency-key", "",
		"a name for this request: repeated within an hour, it runs nothing again")
	flags.RefuseEmpty(cmd.Flags(), "idempotency-key")
}

// ledgerPoll is how often the ledger is read while a triggered run waits for its turn.
const ledgerPoll = time.Second

type triggerOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	ID   string
	Many many
	Key  string
	Wait bool
}

func newTriggerCommand(f *command.Factory) *cobra.Command {
	opts := &triggerOptions{Client: f.Client, Printer: f.Printer, Many: many{in: f.In, previews: true}}
	cmd := &cobra.Command{
		Use: "trigger ID... | --label NAME=VALUE", Short: "Run schedules now",
		Annotations: command.Asks("listSchedules", "triggerSchedule", "readLedger", "getTask", "followEvents"),
		Long: `trigger runs a schedule now, paused or not. Its ticks stay as they are. The overlap policy applies: while a
task of the schedule has not ended, the run is refused (skip) or waits for its turn (queue, replace). A run that would
wait is refused while the schedule is paused or 100 ticks wait. Each call is a separate run, unless it has the
--idempotency-key of a call within the last hour: then nothing runs, and the answer is that of the first call.

A pipe gets a line: the id of the task, empty while the run waits for its turn, and what became of the run, triggered or
queued. With --wait, which is for one schedule, the exit code and the output are those of "dtsctl task wait".

With --dry-run, the output is that of the run that would be, and nothing runs. A terminal is also told which tasks would
be cancelled (overlap replace).

` + manyHelp,
		Example: `  dtsctl schedule trigger nightly
  dtsctl schedule trigger nightly --wait && echo done
  dtsctl schedule trigger nightly --dry-run
  dtsctl schedule trigger nightly --idempotency-key release-42
  dtsctl task logs -f "$(dtsctl schedule trigger nightly | cut -f 1)"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.Many.checkArgs(cmd, args); err != nil {
				return err
			}
			if opts.Wait && len(args) != 1 {
				return command.Usagef("--wait is for one ID")
			}
			if opts.Wait && opts.Many.DryRun {
				return command.Usagef("--wait and --dry-run: give one of them, not both")
			}
			return triggerRun(cmd.Context(), opts, args)
		},
	}
	opts.Many.bind(cmd)
	bindKey(cmd, &opts.Key)
	cmd.Flags().BoolVar(&opts.Wait, "wait", false, "wait for the end of the task, as \"dtsctl task wait\" does")
	return cmd
}

func triggerRun(ctx context.Context, opts *triggerOptions, args []string) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	ids, err := opts.Many.choose(ctx, c, opts.Printer, "trigger", args)
	if err != nil {
		return err
	}
	return command.ForEach(opts.Printer, ids, func(id string) error {
		opts.ID = id
		return triggerOne(ctx, c, opts)
	})
}

func triggerOne(ctx context.Context, c *rest.Client, opts *triggerOptions) error {
	params := &client.TriggerScheduleParams{
		Namespace: c.Namespace, IdempotencyKey: wire.Given(opts.Key), DryRun: flags.NilIfZero(opts.Many.DryRun),
	}
	answer, err := rest.Read[wire.LedgerEntry](c.TriggerScheduleWithResponse(ctx, opts.ID, params))
	if err != nil {
		return err
	}
	if opts.Wait {
		return waitForRun(ctx, c, opts, answer.Value)
	}
	p := opts.Printer
	return p.Show(answer.Raw, func() error {
		entry := answer.Value
		if !p.OutIsTerminal {
			return p.PrintTabbed([][]any{{entry.Task, entry.Outcome}})
		}
		return p.Printf("%s%s\n", runSentence(p, opts, entry), replacedBy(entry.Replaces, opts.Many.DryRun))
	})
}

// runSentence says what became of a run by hand or, after a dry run, what would.
func runSentence(p *printer.Printer, opts *triggerOptions, entry wire.LedgerEntry) string {
	outcome := p.StatusWord(printer.Status(entry.Outcome))
	if opts.Many.DryRun {
		outcome = "would be " + outcome
	}
	if entry.Task == nil {
		return fmt.Sprintf("%s %s: %s", printer.Flat(opts.ID), outcome, printer.Flat(printer.Deref(entry.Reason)))
	}
	return fmt.Sprintf("%s %s", printer.Flat(*entry.Task), outcome)
}

// replacedBy says what gives way to a run; "" for nothing.
func replacedBy(r *wire.Replaced, dry bool) string {
	if r == nil {
		return ""
	}
	var parts []string
	if r.Tasks > 0 {
		tasks := printer.Counted(r.Tasks, "task") + " (" + printer.Flat(strings.Join(r.Examples, ", "))
		if more := r.Tasks - len(r.Examples); more > 0 {
			tasks += fmt.Sprintf(", and %d more", more)
		}
		parts = append(parts, tasks+")")
	}
	if r.Ticks > 0 {
		parts = append(parts, printer.Counted(r.Ticks, "tick")+" that waited")
	}
	if dry {
		return "; it would replace " + strings.Join(parts, " and ")
	}
	return "; it replaces " + strings.Join(parts, " and ")
}

// waitForRun waits until a triggered run has its turn, and then until its task has ended.
func waitForRun(ctx context.Context, c *rest.Client, opts *triggerOptions, entry wire.LedgerEntry) error {
	p := opts.Printer
	if entry.Task == nil {
		p.Notef("%s waits for its turn", opts.ID)
	}
	for entry.Task == nil {
		if entry.Outcome != wire.TickOutcomeQueued {
			p.Errorf("it did not run: %s (%s)", printer.Deref(entry.Reason), entry.Outcome)
			return command.ErrReported
		}
		if err := clock.Sleep(ctx, ledgerPoll); err != nil {
			return err
		}
		var err error
		if entry, err = readRunEntry(ctx, c, opts.ID, entry.Tick.Time); err != nil {
			return err
		}
	}
	p.Notef("runs as %s", *entry.Task) // the user needs the id if the wait is interrupted
	return taskview.Wait(ctx, taskview.WaitOptions{Client: c, Printer: p, ID: *entry.Task})
}

// readRunEntry returns the ledger's entry of the run that was triggered at a time.
func readRunEntry(ctx context.Context, c *rest.Client, id string, at time.Time) (wire.LedgerEntry, error) {
	params := &client.ReadLedgerParams{Namespace: c.Namespace, Since: &at, Until: &at}
	answer, err := rest.Read[wire.LedgerPage](c.ReadLedgerWithResponse(ctx, id, params))
	if err != nil {
		return wire.LedgerEntry{}, err
	}
	for _, entry := range answer.Value.Entries {
		if entry.Outcome != wire.TickOutcomeFired { // a tick at the same time has fired
			return entry, nil
		}
	}
	return wire.LedgerEntry{}, errors.New("the ledger has no record of the run any more")
}
