package task

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
)

type shellOptions struct {
	createOptions
	Shell   flags.ShellCommand
	Command []string
}

func newShellCommand(f *command.Factory) *cobra.Command {
	opts := &shellOptions{createOptions: newCreateOptions(f)}
	cmd := &cobra.Command{
		Use:         "shell [flags] -- COMMAND [ARGUMENT...]",
		Annotations: command.Asks("submitTask", "getTask", "readLogs", "followEvents"),
		Short:       "Submit a task that runs a command on a worker",
		Long: `shell submits a task of type shell: a worker runs the command, and the task succeeds if it exits with 0. The command
is run directly, without a shell: for pipes and variables, run sh -c. One argument that looks like a line for a
shell, as in -- "ls | wc", is the name of a program, and gives a warning. The output of the command is the task's
log. Nodes run commands only if they were started with --enable-shell.`,
		Example: `  dtsctl task shell -- /usr/local/bin/backup --full
  dtsctl task shell --id cleanup --at "2026-01-02 03:00" --dir /var/tmp -- sh -c 'rm -f *.tmp'
  dtsctl task shell --env LEVEL=debug --stdin @input.csv --wait -- import
  dtsctl task shell --user reports --memory 512MiB --cpu-time 10m -- month-end`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Usagef("COMMAND is missing")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Command = args
			return shellRun(cmd.Context(), opts)
		},
	}
	opts.bind(cmd)
	opts.Shell.Bind(cmd.Flags())
	command.CompleteFileArguments(cmd)
	cmd.Flags().SetInterspersed(false) // flags after the name of the command belong to it
	return cmd
}

func shellRun(ctx context.Context, opts *shellOptions) error {
	payload, err := opts.Shell.Payload(opts.Stdin, opts.Command)
	if err != nil {
		return err
	}
	opts.Printer.Warn(flags.LineWarnings(opts.Command))
	return createRun(ctx, &opts.createOptions, "shell", payload)
}
