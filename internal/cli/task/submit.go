package task

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/task"
)

type submitOptions struct {
	createOptions
	Type    string
	Payload *string
	File    *string
}

func newSubmitCommand(f *command.Factory) *cobra.Command {
	opts := &submitOptions{createOptions: newCreateOptions(f)}
	cmd := &cobra.Command{
		Use:         "submit --type TYPE",
		Annotations: command.Asks("submitTask", "submitTasks", "getTask", "readLogs", "followEvents"),
		Short:       "Submit a task of any type, or many from a file",
		Long: fmt.Sprintf(`submit submits a task. Without other flags, the task is due at once, goes through the queue "default", and has %d
attempts, %d if it is of type shell. A terminal gets a sentence about the task; a pipe gets the id.

With --file, tasks are read from a file that holds one JSON object per line, as POST /v1/tasks takes them. Each
line is accepted or refused by itself. Refused ones are named on stderr, which ends with a summary; the exit code
is 1 if any was refused. A pipe gets one line per task: its number, its id, the status that POST /v1/tasks would
have answered, and the reason for a refusal. If a request fails, the summary says what was accepted before;
give the tasks ids, so that the file can be submitted again.`, task.DefaultMaxAttempts, task.CommandMaxAttempts),
		Example: `  dtsctl task submit --type http --payload '{"url": "https://example.com/hook"}'
  dtsctl task submit --type shell --payload @job.json --delay 10m --queue reports
  dtsctl task submit --type http --once debounce:reindex,wait=5s,max=1m --payload '{"url": "https://example.com/reindex"}'
  dtsctl task submit --type report --priority 7 --fair-key customer-7 --fair-weight 3 --payload @report.json
  dtsctl task submit --type shell --id nightly --payload '{"command": ["true"]}' --wait
  generate-tasks | dtsctl task submit --file -`,
		Args: command.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opts.File == nil {
				return submitRun(cmd.Context(), opts)
			}
			if name := flagBesideFile(cmd.Flags()); name != "" {
				return command.Usagef("--file and --%s: the tasks in the file say everything themselves", name)
			}
			return submitFileRun(cmd.Context(), opts)
		},
	}
	opts.bind(cmd)
	set := cmd.Flags()
	set.StringVar(&opts.Type, "type", "", "which executor runs it, such as http, grpc or shell")
	flags.String(set, &opts.Payload, "payload", "what the executor gets: JSON, @FILE, or @- for standard input")
	flags.StringP(set, &opts.File, "file", "f", "submit the tasks in this file, one JSON object per line; - is standard input")
	command.CompleteFiles(cmd, "file")
	return cmd
}

// flagBesideFile returns the name of a given flag that does not go with --file, "" if there is none.
func flagBesideFile(set *pflag.FlagSet) (name string) {
	set.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "file", "server", "namespace", "output", "request-timeout":
		default:
			name = f.Name
		}
	})
	return name
}

func submitRun(ctx context.Context, opts *submitOptions) error {
	if opts.Type == "" {
		return command.Usagef("--type is missing")
	}
	payload, err := flags.JSON(opts.Stdin, "--payload", opts.Payload)
	if err != nil {
		return err
	}
	return createRun(ctx, &opts.createOptions, opts.Type, payload)
}
