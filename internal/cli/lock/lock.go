// Package lock is the commands of "dtsctl lock".
package lock

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

const (
	defaultTTL   = 15 * time.Second
	defaultGrace = 5 * time.Second
)

type options struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
	In      io.Reader

	Name    string
	Command []string
	TTL     time.Duration
	Wait    *time.Duration // nil: until interrupted
	Try     bool
	Note    string
	Grace   time.Duration
}

// NewCommand returns "dtsctl lock".
func NewCommand(f *command.Factory) *cobra.Command {
	opts := &options{Client: f.Client, Printer: f.Printer, In: f.In}
	cmd := &cobra.Command{
		Use: "lock NAME [flags] -- COMMAND [ARGUMENT...]", Short: "Run a command while holding a lock",
		Annotations: command.Asks("acquireLock", "renewLock", "releaseLock"),
		Long: `lock waits until it has the lock of that name, runs the command, and gives the lock back when the command has
ended. The command is run directly, without a shell: for pipes and variables, run sh -c. It has DTS_LOCK_NAME and
DTS_LOCK_FENCE in its environment. The fence is a number that is higher than that of every earlier holder: hand it to
what the lock protects, and have that refuse a lower one than it has seen.

The lock is renewed while the command runs. If dtsctl dies, or cannot reach the server for too long, others can have
the lock when --ttl is over. A little before that, dtsctl says that it lost the lock and sends SIGTERM to the command,
and SIGKILL after --grace: to the process group of the command or, on a terminal, where the command shares the group
of dtsctl, to the command alone. The signals that dtsctl gets are passed on to the command.

The exit code is that of the command, or 128 and the number of the signal that ended it. 1: somebody else has the lock,
and the time to wait is over. 125: the lock was lost. 126 and 127: the command cannot be run, or does not exist.`,
		Example: `  dtsctl lock deploy -- ./deploy.sh production
  dtsctl lock nightly-import --try -- import --all
  dtsctl lock migrate --ttl 1m --wait 10m --note "schema 42" -- sh -c 'migrate --fence "$DTS_LOCK_FENCE"'
  dtsctl lock list`,
		RunE: func(cmd *cobra.Command, _ []string) error { return lockRun(cmd.Context(), opts) },
	}
	set := cmd.Flags()
	set.DurationVar(&opts.TTL, "ttl", defaultTTL, "how long after the death of dtsctl others can have the lock, 1s to 24h")
	flags.Duration(set, &opts.Wait, "wait", "how long to wait while somebody else holds the lock (default: until interrupted)")
	set.BoolVar(&opts.Try, "try", false, "do not wait, as --wait 0")
	set.StringVar(&opts.Note, "note", "", "what the lock is held for; \"lock list\" shows it")
	set.DurationVar(&opts.Grace, "grace", defaultGrace, "how long the command may go on after SIGTERM, if the lock is lost")
	command.CompleteCommand(cmd)
	cmd.AddCommand(newListCommand(f))
	cmd.Args = func(cmd *cobra.Command, args []string) error { return opts.read(cmd, args) }
	return cmd
}

// read takes the name of the lock and the command from the arguments, and checks the flags.
func (o *options) read(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	if dash < 0 {
		dash = len(args)
	}
	if err := command.ExactArgs("NAME")(cmd, args[:dash]); err != nil {
		return err
	}
	if dash == len(args) {
		return command.Usagef("COMMAND is missing: give it after --")
	}
	if o.Try && o.Wait != nil {
		return command.Usagef("--try: give --try or --wait, not both")
	}
	if o.Try {
		o.Wait = new(time.Duration(0))
	}
	o.Name, o.Command = args[0], args[dash:]
	return flags.CheckDurations(cmd.Flags())
}

// lockRun runs the command under the lock. From the beginning, signals are kept for the command.
func lockRun(ctx context.Context, o *options) error {
	c, err := o.Client()
	if err != nil {
		return err
	}
	signals, stop := catchSignals()
	defer stop()
	lease, err := c.Lock(ctx, rest.LockRequest{Name: o.Name, TTL: o.TTL, Note: o.Note, Wait: o.Wait, Waiting: o.tellWaiting})
	if err != nil {
		return err
	}
	defer o.release(context.WithoutCancel(ctx), lease)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return o.run(lease, signals)
}

// tellWaiting tells people on a terminal why nothing happens.
func (o *options) tellWaiting(refusal *rest.Refusal) {
	if o.Printer.ErrIsTerminal {
		o.Printer.Notef("Waiting: %s", refusal.Detail)
	}
}

// release gives the lock back. If that fails, it is free when its time is over.
func (o *options) release(ctx context.Context, lease *rest.Lease) {
	ctx, cancel := context.WithTimeout(ctx, min(o.TTL, defaultGrace))
	defer cancel()
	if err := lease.Release(ctx); err != nil {
		o.Printer.Errorf("the lock %s could not be given back (%v); it is free within %s", o.Name, err, o.TTL)
	}
}

// onTerminal reports whether somebody may type signals, which the command must get from the terminal.
func (o *options) onTerminal() bool {
	in, ok := o.In.(*os.File)
	return o.Printer.OutIsTerminal || o.Printer.ErrIsTerminal || ok && isatty.IsTerminal(in.Fd())
}
