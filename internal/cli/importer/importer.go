// Package importer is the commands of "dtsctl import", which turn what other programs are told into schedules.
package importer

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/server"
)

// NewCommand returns "dtsctl import".
func NewCommand(f *command.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use: "import", Short: "Import the jobs of another scheduler as schedules",
		Long:    `import reads the jobs of another scheduler and puts them as schedules. Importing the same again changes nothing.`,
		Example: `  dtsctl import crontab --timezone Europe/Berlin --dry-run my-crontab`,
	}
	cmd.AddCommand(newCrontabCommand(f))
	return command.Group(cmd)
}

type crontabOptions struct {
	Client  func() (*rest.Client, error)
	Server  *server.Config
	Printer *printer.Printer
	Stdin   io.Reader

	File   string
	System bool
	DryRun bool
	Prune  bool
	settings
}

// settings are what all schedules of an import have in common.
type settings struct {
	Source      string // the crontab, for the descriptions and labels
	Prefix      string // of their ids
	Timezone    string // where CRON_TZ says nothing
	Queue       string // "" for the default one
	Overlap     string
	Timeout     time.Duration
	MaxAttempts int
}

func newCrontabCommand(f *command.Factory) *cobra.Command {
	opts := &crontabOptions{Client: f.Client, Server: f.Server, Printer: f.Printer, Stdin: f.In}
	cmd := &cobra.Command{
		Use: "crontab FILE", Short: "Turn the lines of a crontab into schedules of shell tasks",
		Annotations: command.Asks("putSchedule", "listSchedules", "deleteSchedule"),
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return command.Usagef("FILE is missing; - is standard input, as in: crontab -l | dtsctl import crontab -")
			case len(args) > 1:
				return command.Usagef("%q is one argument too many", args[1])
			}
			return nil
		},
		Long: `crontab puts a schedule for each line of a crontab that has a command run. Cron's shell runs the command,
with the variables that the lines above set, and what follows a % as its standard input. Workers run it
if they have --enable-shell.

A schedule means what its line means to cron: it is tried once, may overlap with the run before, and has
a day of the month and a day of the week that go together as in cron. RANDOM_DELAY is its jitter.
--timezone is the zone of the machine on which cron runs, where the crontab has no CRON_TZ. There is no
default for it: this machine and the one of the server may be in other zones, and the same import would
mean something else there.

Each schedule is named after its command, with --prefix in front and a digest of the command, the user, the
standard input and the variables behind it. The time is no part of the name: importing the same file again
changes nothing, and a new time changes the schedule. Lines that run the same at several times get -2, -3
and so on behind their names. The description says the line, and labels say the name of the file and the
prefix.

Schedules with the same labels that are of no line any more are named on stderr. With --prune, they are
deleted; their tasks that are not running are cancelled, running ones go on. Nothing is pruned if no line
was imported, or if one was refused for another reason than @reboot. Crontabs that have the same file name,
or come from standard input, are told apart by --prefix alone.

With --system, the lines have a column for the user, as those of /etc/crontab and /etc/cron.d; the
workers need --shell-users.

Each line is taken by itself: one that cannot be imported, such as @reboot, is named on stderr with the
reason, and the exit code is 1 then. A pipe gets for each line: number, id, result (created, changed,
unchanged, refused), reason; and for each pruned schedule the same without a number.

With --dry-run, nothing is sent: the output is the YAML, or with -o json the JSON, that "dtsctl apply -f
-" takes.`,
		Example: `  crontab -l | dtsctl import crontab - --timezone Europe/Berlin --dry-run
  dtsctl import crontab /etc/crontab --system --timezone UTC --prefix web1-
  crontab -l | dtsctl import crontab - --timezone UTC --dry-run > schedules.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.File = args[0]
			if opts.Prune && opts.DryRun {
				return command.Usagef("--prune does not go with --dry-run, which asks no server: an import without --prune names what it would delete")
			}
			return crontabRun(cmd.Context(), opts)
		},
	}
	opts.addFlags(cmd)
	command.CompleteFileArguments(cmd)
	return cmd
}

func (opts *crontabOptions) addFlags(cmd *cobra.Command) {
	set := cmd.Flags()
	set.BoolVar(&opts.System, "system", false, "the lines have a column for the user")
	set.BoolVar(&opts.DryRun, "dry-run", false, "send nothing, print the YAML that dtsctl apply takes")
	set.BoolVar(&opts.Prune, "prune", false, "delete the schedules of earlier imports of this file that are of no line any more")
	set.StringVar(&opts.Prefix, "prefix", "", "what the ids begin with")
	set.StringVar(&opts.Timezone, "timezone", "", "zone of cron's machine, such as Europe/Berlin or UTC; required unless CRON_TZ says it for every line")
	set.StringVar(&opts.Queue, "queue", "", "queue of the tasks; workers of the machine that has the commands serve it")
	set.StringVar(&opts.Overlap, "overlap", "allow", "while the run before has not ended: allow, skip, queue or replace")
	set.DurationVar(&opts.Timeout, "timeout", 24*time.Hour, "how long a command may take; cron has no limit")
	set.IntVar(&opts.MaxAttempts, "max-attempts", 1, "how often a command is tried; cron tries once")
	command.Complete(cmd, "overlap", "allow", "skip", "queue", "replace")
}

func crontabRun(ctx context.Context, opts *crontabOptions) error {
	text, err := opts.read()
	if err != nil {
		return err
	}
	lines, err := convert(text, opts.System, opts.settings)
	if err != nil {
		return err
	}
	if opts.DryRun {
		return opts.printManifest(lines)
	}
	c, err := opts.Client()
	if err != nil {
		return err
	}
	opts.Printer.Persist = true
	i := importing{client: c, printer: opts.Printer, lines: lines, labels: opts.labels(), prune: opts.Prune}
	return i.conclude(i.run(ctx))
}

// read reads the file.
func (opts *crontabOptions) read() (string, error) {
	opts.Source = "a crontab"
	value := "@" + opts.File
	if opts.File != "-" {
		opts.Source = filepath.Base(opts.File)
	}
	return flags.Text(opts.Stdin, "FILE", value)
}
