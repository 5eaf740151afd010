package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type shellOptions struct {
	spec
	surroundings
	session *session
	command []string
}

// surroundings is what a command finds when it runs.
type surroundings struct {
	env   []string
	dir   string
	stdin string
}

// shellFlags are the names of its flags.
var shellFlags = []string{"env", "dir", "stdin"}

func (r *surroundings) bind(flags *pflag.FlagSet) {
	flags.StringArrayVar(&r.env, "env", nil, "an environment variable, as NAME=VALUE; may be repeated")
	flags.StringVar(&r.dir, "dir", "", "the directory to run it in")
	flags.StringVar(&r.stdin, "stdin", "", "its standard input: a text, @FILE, or @- for dtsctl's own")
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
	o.spec.bind(cmd)
	o.surroundings.bind(cmd.Flags())
	cmd.Flags().SetInterspersed(false) // what follows the command's name is the command's
	return cmd
}

func (o *shellOptions) run(ctx context.Context) error {
	payload, err := o.payloadFor(o.session, o.command)
	if err != nil {
		return err
	}
	return o.submit(ctx, o.session, "shell", payload)
}

// payloadFor is the payload of a task that runs the command.
func (r *surroundings) payloadFor(s *session, command []string) (json.RawMessage, error) {
	env, err := pairs("--env", "=", r.env)
	if err != nil {
		return nil, err
	}
	stdin, err := s.textFrom("--stdin", r.stdin)
	if err != nil {
		return nil, err
	}
	p := shellPayload{Command: command, Dir: r.dir, Stdin: stdin}
	if env != nil {
		p.Env = *env
	}
	return rawOf(p)
}
