package cli

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// textLimit is how much is read where a flag names a file; the server takes less.
const textLimit = 1 << 20

type submitOptions struct {
	spec
	session *session
	typ     string
	payload string
	file    string
}

func newSubmitCommand(s *session) *cobra.Command {
	o := submitOptions{session: s}
	cmd := &cobra.Command{
		Use:   "submit --type TYPE",
		Short: "Submit a task of any type, or many from a file",
		Long: `submit submits a task. What is not said is left to the server: it is due at once, goes through the queue
"default", and is tried 4 times. A terminal is told what became of it; a pipe gets the id.

With --file, tasks are read from a file that holds one JSON object a line, as POST /v1/tasks takes them. Each
is accepted or refused by itself; the exit code is 1 if any was refused. A pipe gets one line a task: its number,
id, the status POST /v1/tasks would have answered, and why it was refused.`,
		Example: `  dtsctl task submit --type http --payload '{"url": "https://example.com/hook"}'
  dtsctl task submit --type shell --payload @job.json --delay 10m --queue reports
  dtsctl task submit --type shell --id nightly --payload '{"command": ["true"]}' --wait
  generate-tasks | dtsctl task submit --file -`,
		Args: named(),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.typ, "type", "", "which executor runs it, such as http or shell")
	flags.StringVar(&o.payload, "payload", "", "what the executor gets: JSON, @FILE, or @- for standard input")
	flags.StringVarP(&o.file, "file", "f", "", "submit the tasks in this file, one JSON object a line; - is standard input")
	return cmd
}

func (o *submitOptions) run(ctx context.Context) error {
	if o.flags.Changed("file") {
		return o.runFile(ctx)
	}
	if o.typ == "" {
		return usagef("--type is missing")
	}
	payload, err := o.session.payloadFrom(o.flags, o.payload)
	if err != nil {
		return err
	}
	return o.submit(ctx, o.session, o.typ, payload)
}

// payloadFrom is the JSON that --payload names, nil without the flag.
func (s *session) payloadFrom(flags *pflag.FlagSet, value string) (json.RawMessage, error) {
	if !flags.Changed("payload") {
		return nil, nil
	}
	text, err := s.textFrom("--payload", value)
	if err != nil {
		return nil, err
	}
	var payload json.RawMessage
	if err := json.Unmarshal([]byte(text), &payload); err != nil {
		return nil, usagef("--payload: is not JSON: %v", err)
	}
	return payload, nil
}

// textFrom is the value of a flag that takes a text, @FILE or @-.
func (s *session) textFrom(flag, value string) (string, error) {
	path, named := strings.CutPrefix(value, "@")
	if !named {
		return value, nil
	}
	in, err := s.openInput(path)
	if err != nil {
		return "", usagef("%s: %v", flag, err)
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(io.LimitReader(in, textLimit+1))
	switch {
	case err != nil:
		return "", usagef("%s: %v", flag, err)
	case len(text) > textLimit:
		return "", usagef("%s: %s holds more than %d bytes", flag, path, textLimit)
	}
	return string(text), nil
}

// openInput opens a file, or standard input as "-".
func (s *session) openInput(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(s.In), nil
	}
	return os.Open(path)
}
