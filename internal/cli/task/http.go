package task

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
)

type httpOptions struct {
	createOptions
	Call flags.HTTPCall
	URL  string
}

func newHTTPCommand(f *command.Factory) *cobra.Command {
	opts := &httpOptions{createOptions: newCreateOptions(f)}
	cmd := &cobra.Command{
		Use:         "http URL",
		Annotations: command.Asks("submitTask", "getTask", "readLogs", "followEvents"),
		Short:       "Submit a task that calls a URL",
		Long: `http submits a task of type http: a worker calls the URL, with POST unless --method says otherwise, and the
task succeeds if the answer's status is 2xx or one of --success-codes.

--data is sent as it is; if it is a JSON object or list, it is sent as application/json.`,
		Example: `  dtsctl task http https://example.com/hook --delay 10m
  dtsctl task http -X GET https://example.com/health --success-codes 200,204 --wait
  dtsctl task http https://example.com/orders -H 'Authorization: Bearer abc' -d '{"order": 42}'
  dtsctl task http https://example.com/upload -H 'Content-Type: text/csv' -d @report.csv
  dtsctl task http https://orders.internal/close --tls-ca @ca.pem
  dtsctl task http https://example.com/render --select 'zone in (eu,us),gpu' --prefer 10:zone=eu --route least_running`,
		Args: command.ExactArgs("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.URL = args[0]
			return httpRun(cmd.Context(), opts)
		},
	}
	opts.bind(cmd)
	opts.Call.Bind(cmd.Flags())
	return cmd
}

func httpRun(ctx context.Context, opts *httpOptions) error {
	payload, err := opts.Call.Payload(opts.Stdin, opts.URL)
	if err != nil {
		return err
	}
	return createRun(ctx, &opts.createOptions, "http", payload)
}
