package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/taskview"
	"github.com/dts-sched/dts/internal/workflow/words"
)

type runOptions struct {
	options
	Stdin io.Reader
	Times flags.Times

	Workflow  string // that was put; "": File has one
	File      string
	Params    []string
	ID        *string
	Due       flags.Due
	Owner     *string
	Labels    []string
	Retention *time.Duration
	DryRun    bool
	Wait      bool
}

func newRunCommand(f *command.Factory) *cobra.Command {
	opts := &runOptions{options: newOptions(f), Stdin: f.In, Times: flags.TimesOf(f)}
	cmd := &cobra.Command{
		Use: "run [WORKFLOW]", Short: "Start a run of a workflow",
		Annotations: command.Asks("submitRun", "getWorkflow", "getTask", "followEvents"),
		Long: `run starts a run of a workflow: of one that was put, or of one that a YAML or JSON file defines.
docs/workflows.md explains such files. A terminal gets a sentence about the run; a pipe gets its id, and
nothing after --dry-run.

The whole workflow is checked before anything runs; with --dry-run, nothing runs. An error names the line and the column
of the file. A workflow that was put has the revision that is in force when the run begins.

The value of a parameter is text if the workflow says that it is a string. Else it is JSON, as 5, true or ["a"].`,
		Example: `  dtsctl flow run -f etl.yaml
  dtsctl flow run etl -p day=2026-11-25
  dtsctl flow run -f etl.yaml -p day=2026-11-25 -p size=5 --id etl-20261125 --wait
  dtsctl flow run -f etl.yaml --delay 1h --label team=data
  generate-workflow | dtsctl flow run -f - --dry-run`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case opts.File != "":
				return command.ExactArgs()(cmd, args)
			case len(args) == 0:
				return command.Usagef("WORKFLOW or -f is missing: which workflow?")
			}
			return command.ExactArgs("WORKFLOW")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.DryRun && opts.Wait {
				return command.Usagef("--dry-run and --wait: there is nothing to wait for")
			}
			if len(args) > 0 {
				opts.Workflow = args[0]
			}
			return runRun(cmd.Context(), opts)
		},
	}
	set := cmd.Flags()
	set.StringVarP(&opts.File, "file", "f", "", "the file with the definition; - is standard input")
	command.CompleteFiles(cmd, "file")
	set.StringArrayVarP(&opts.Params, "param", "p", nil, "the value of a parameter, as NAME=VALUE; may be repeated")
	flags.String(set, &opts.ID, "id",
		"its id; with one, the same run can be started again safely (default: the server makes one)")
	opts.Due.Bind(set)
	flags.String(set, &opts.Owner, "owner", "who is responsible for it")
	set.StringArrayVar(&opts.Labels, "label", nil, "a label, as NAME=VALUE; may be repeated")
	flags.Duration(set, &opts.Retention, "retention", "how long it and its steps are kept after its end")
	set.BoolVar(&opts.DryRun, "dry-run", false, "check everything, and run nothing")
	set.BoolVar(&opts.Wait, "wait", false, "wait for its end, as \"dtsctl task wait\" does")
	return cmd
}

func runRun(ctx context.Context, opts *runOptions) error {
	var definition file
	if opts.File != "" {
		var err error
		if definition, err = readFile(opts.Stdin, opts.File); err != nil {
			return err
		}
	}
	c, err := opts.Client()
	if err != nil {
		return err
	}
	if opts.Workflow != "" && len(opts.Params) > 0 {
		if definition.definition, err = stored(ctx, c, opts.Workflow); err != nil {
			return err
		}
	}
	submission, err := opts.submission(definition)
	if err != nil {
		return err
	}
	body, err := rest.Body(submission)
	if err != nil {
		return err
	}
	params := &client.SubmitRunParams{Namespace: c.Namespace}
	if opts.DryRun {
		params.DryRun = &opts.DryRun
	}
	answer, err := rest.Read[wire.Task](c.SubmitRunWithBodyWithResponse(ctx, params, rest.JSONType, body))
	if err != nil {
		return definition.refused(opts.Printer, err)
	}
	opts.Printer.Warn(rest.Troubles(answer.Value))
	if opts.Wait {
		return taskview.Wait(ctx, taskview.WaitOptions{
			Client: c, Printer: opts.Printer, ID: answer.Value.ID, Unnamed: wire.Value(opts.ID) == "",
		})
	}
	return opts.show(answer)
}

// stored reads the definition of a workflow that was put, for the types of its parameters.
func stored(ctx context.Context, c *rest.Client, id string) (d words.Workflow, _ error) {
	answer, err := rest.Read[wire.Workflow](
		c.GetWorkflowWithResponse(ctx, id, &client.GetWorkflowParams{Namespace: c.Namespace}))
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(answer.Value.Definition, &d); err != nil {
		return d, fmt.Errorf("reading the workflow %s: %w", id, err)
	}
	return d, nil
}

// submission returns the run as the API takes it.
func (opts *runOptions) submission(definition file) (wire.RunSubmission, error) {
	runAt, delay, err := opts.Due.Resolve(opts.Times)
	if err != nil {
		return wire.RunSubmission{}, err
	}
	labels, err := flags.Labels("--label", opts.Labels)
	if err != nil {
		return wire.RunSubmission{}, err
	}
	params, err := valuesOf(definition.definition.Params, opts.Params)
	return wire.RunSubmission{
		ID: opts.ID, Workflow: flags.NilIfZero(opts.Workflow), Definition: definition.Body, Params: params, RunAt: runAt,
		Delay: delay, Owner: opts.Owner, Labels: labels, Retention: flags.DurationText(opts.Retention),
	}, err
}

// show prints a run that was started: only its id in a pipe.
func (opts *runOptions) show(answer rest.Answer[wire.Task]) error {
	p, t := opts.Printer, answer.Value
	return p.Show(answer.Raw, func() error {
		switch {
		case opts.DryRun && !p.OutIsTerminal:
			return nil
		case !p.OutIsTerminal:
			return p.Printf("%s\n", t.ID)
		case opts.DryRun:
			return p.Printf("The workflow and its parameters are valid. Nothing was started.\n")
		case answer.Status == http.StatusOK:
			return p.Printf("%s, as it was submitted before\n", taskview.Sentence(p, t))
		}
		return p.Printf("%s\n", taskview.Sentence(p, t))
	})
}
