package schedule

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/manifest"
)

type editOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
	Stdin   io.Reader
	Getenv  func(string) string

	ID  string
	Yes bool
}

func newEditCommand(f *command.Factory) *cobra.Command {
	opts := &editOptions{Client: f.Client, Printer: f.Printer, Stdin: f.In, Getenv: f.Server.Getenv}
	cmd := &cobra.Command{
		Use: "edit ID", Short: "Change a schedule in an editor", Args: command.ExactArgs("ID"),
		Annotations: command.Asks("getSchedule", "putSchedule", "previewSchedule"),
		Long: `edit opens a schedule in an editor, as "dtsctl schedule export" writes it. When the editor ends, the server
checks the file. An invalid file is opened again, with the errors at its top. Then edit shows what changes, and asks;
--yes answers.

The editor is the command of VISUAL or EDITOR, in words separated by blanks; on a terminal without either, vi. A file
that is left as it is, or emptied, changes nothing. If "paused: true" is removed, the schedule is resumed.

The change is made only if the schedule is still as it was when it was read. If somebody else has changed it, or the
change fails otherwise, the file is kept and its name is told: "dtsctl apply -f FILE" applies it.`,
		Example: `  dtsctl schedule edit nightly
  EDITOR='code --wait' dtsctl schedule edit nightly
  EDITOR='sed -i s/02:30/03:30/' dtsctl schedule edit nightly --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.ID = args[0]
			return editRun(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&opts.Yes, "yes", "y", false, "do not ask")
	return cmd
}

func editRun(ctx context.Context, opts *editOptions) error {
	editor, err := editorOf(opts.Printer, opts.Stdin, opts.Getenv, opts.Yes)
	if err != nil {
		return err
	}
	c, err := opts.Client()
	if err != nil {
		return err
	}
	before, err := getSchedule(ctx, c, opts.ID)
	if err != nil {
		return err
	}
	e := edit{client: c, printer: opts.Printer, stdin: opts.Stdin, yes: opts.Yes, before: before}
	if e.original, err = fileOf(before); err != nil {
		return err
	}
	if e.path, err = newFile(); err != nil {
		return err
	}
	err = e.run(ctx, editor)
	if err != nil && e.written {
		opts.Printer.Errorf("what was written is in %s", e.path)
		return err
	}
	_ = os.Remove(e.path) // it holds nothing of worth
	return err
}

// fileOf returns a schedule as a file that apply takes.
func fileOf(answer rest.Answer[wire.Schedule]) (string, error) {
	s, err := manifest.ScheduleOf(answer.Raw)
	if err != nil {
		return "", rest.Misunderstood(err)
	}
	s.Namespace = nil
	d := manifest.Document{Namespace: answer.Value.Namespace, Schedules: []manifest.Schedule{s}}
	return d.Text()
}
