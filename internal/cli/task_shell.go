package cli

import (
	"context"

	"github.com/spf13/cobra"
)

type shellOptions struct {
	spec
	session *session
	command []string
	env     []string
	dir     string
	stdin   string
}

// shellPayload is what the shell executor takes.
type shellPayload struct {
	Command []string          `json:"command"`
	Env     map[string]string `json:"env,omitempty"`
	Dir     string            `json:"dir,omitempty"`
	Stdin   string            `json:"stdin,omitempty"`
}

func newShellCommand(s *session) *cobra.Command {
	o := shellOptions{session: s}
	cmd := &cobra.Command{
		Use:   "shell [flags] -- COMMAND [ARGUMENT...]",
		Short: "Submit a task that runs a command on a worker",
		Long: `shell submits a task of type shell: a worker runs the command, and the task succeeds if it exits with 0. The command
is run as it is, without a shell: for pipes and variables, run sh -c. What it prints is the task's log. Nodes run
commands only if they were started with --enable-shell.`,
		Example: `  dtsctl task shell -- /usr/local/bin/backup --full
  dtsctl task shell --id cleanup --at "2026-01-02 03:00" --dir /var/tmp -- sh -c 'rm -f *.tmp'
  dtsctl task shell --env LEVEL=debug --stdin @input.csv --wait -- import`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("COMMAND is missing")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.command = args
			return o.run(cmd.Context())
		},
	}
	o.bind(cmd)
	flags := cmd.Flags()
	flags.SetInterspersed(false) // what follows the command's name is the command's
	flags.StringArrayVar(&o.env, "env", nil, "an environment variable, as NAME=VALUE; may be repeated")
	flags.StringVar(&o.dir, "dir", "", "the directory to run it in")
	flags.StringVar(&o.stdin, "stdin", "", "its standard input: a text, @FILE, or @- for dtsctl's own")
	return cmd
}

func (o *shellOptions) run(ctx context.Context) error {
	env, err := pairs("--env", "=", o.env)
	if err != nil {
		return err
	}
	stdin, err := o.session.textFrom("--stdin", o.stdin)
	if err != nil {
		return err
	}
	p := shellPayload{Command: o.command, Dir: o.dir, Stdin: stdin}
	if env != nil {
		p.Env = *env
	}
	payload, err := rawOf(p)
	if err != nil {
		return err
	}
	return o.submit(ctx, o.session, "shell", payload)
}
