// Package apply is the command "dtsctl apply": it reads files and brings about the limits, workflows, schedules and
// tasks that they describe.
package apply

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/server"
	"github.com/dts-sched/dts/internal/manifest"
	"github.com/dts-sched/dts/internal/task"
)

type applyOptions struct {
	Client  func() (*rest.Client, error)
	Server  *server.Config
	Printer *printer.Printer
	Stdin   io.Reader

	Files    []string
	DryRun   bool
	Prune    bool
	Selector map[string]string // the labels of what Prune may delete
}

const long = `apply reads YAML or JSON files and makes the server's limits, workflows, schedules and tasks match them. A file
has one or more documents of this form:

  namespace: reports              # optional
  limits:                         # of the whole installation
    - name: key:*
      slots: 5                    # and the other fields that PUT /v1/limits/{name} takes
  workflows:
    - id: etl
      steps:                      # and the other fields that PUT /v1/workflows/{id} takes
        - {id: load, task: {type: shell, payload: {command: [/usr/local/bin/load]}}}
  schedules:
    - id: nightly
      cron: 30 2 * * *            # and the other fields that PUT /v1/schedules/{id} takes
      task: {type: shell, payload: {command: [/usr/local/bin/report]}}
    - id: nightly-etl
      cron: 30 3 * * *
      workflow: {id: etl}         # and its params: short for a task of type workflow
  tasks:
    - id: import                  # and the other fields that POST /v1/tasks takes
      type: http
      payload: {url: "https://example.com/import"}
      count: 20                   # 20 such tasks, import-0001 to import-0020

Other keys of a document begin with x- and are left alone, as for YAML anchors: "x-retry: &retry {max_attempts: 3}".

All files are read and checked first. If one cannot be read, nothing is changed: all errors are told with file, line
and column, also those that the server finds in limits, workflows and schedules that have the right form. Otherwise
the server checks each entry, as with --dry-run. If it refuses one, nothing is changed, and the exit code is 1. Then
each entry is applied by itself, limits first, then workflows, schedules and tasks. What the server refuses only now
does not keep the others from being applied; the exit code is 1 then, too. Applying the same files again changes
nothing. A task that has ended counts as long as the server remembers its id (retention, and --remember of dtsd);
after that it would be run again.

With --dry-run, nothing is changed: the server checks everything, and limits, workflows and schedules are compared with
those in force, field by field.

With --prune, the schedules and workflows with the labels of --selector that are in none of the files are deleted, in the
namespaces that the files name. Tasks of such schedules that are not running are cancelled, running ones go on, and so do
runs of such workflows that have begun. Nothing is pruned if anything was refused, or if the files are empty: to keep no
schedule at all, write "schedules: []". Limits have no labels, and are never pruned. They keep their pauses.

A pipe gets a line for each: kind, namespace, id, result (created, changed, unchanged, pruned, refused), and the revision
of a workflow or schedule. Differences follow in lines that begin with two spaces. With -o json it is one document:
{dry_run, results: [{kind, namespace, id, outcome, revision, changes: [{field, before, after}], error}], faults}. Faults are
what is wrong with the files, and where, also where nothing was changed: {file, line, column, field, text}. "schedule export"
and "flow export" write such files.`

// NewCommand returns "dtsctl apply".
func NewCommand(f *command.Factory) *cobra.Command {
	opts := &applyOptions{Client: f.Client, Server: f.Server, Printer: f.Printer, Stdin: f.In}
	var selector []string
	cmd := &cobra.Command{
		Use: "apply -f FILE...", Short: "Create or change limits, workflows, schedules and tasks as files describe them",
		Annotations: command.Asks("setLimit", "getLimit", "listLimits", "submitTasks", "putSchedule", "listSchedules",
			"getSchedule", "deleteSchedule",
			"putWorkflow", "listWorkflows", "getWorkflow", "deleteWorkflow"),
		Long: long,
		Example: `  dtsctl apply -f schedules.yaml
  dtsctl schedule export -l team=storage | dtsctl -n copy apply -f -
  dtsctl apply -f schedules/ --dry-run
  dtsctl apply -f schedules/ --prune -l team=storage
  generate-schedules | dtsctl apply -f -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Files = append(opts.Files, args...) // -f *.yaml, as the shell expands it
			if err := opts.setSelector(selector); err != nil {
				return err
			}
			return applyRun(cmd.Context(), opts)
		},
	}
	set := cmd.Flags()
	set.StringArrayVarP(&opts.Files, "file", "f", nil, "a file, a directory (its .yaml, .yml and .json files), or - for standard input; may be repeated")
	command.CompleteFiles(cmd, "file")
	command.CompleteFileArguments(cmd)
	set.BoolVar(&opts.DryRun, "dry-run", false, "change nothing, show what would change")
	set.BoolVar(&opts.Prune, "prune", false, "delete the schedules and workflows that have the labels of --selector and are in none of the files")
	set.StringSliceVarP(&selector, "selector", "l", nil, "of --prune: the labels, as NAME=VALUE[,NAME=VALUE...]")
	return cmd
}

func (opts *applyOptions) setSelector(labels []string) (err error) {
	switch {
	case len(opts.Files) == 0:
		return command.Usagef("-f is missing: which files?")
	case opts.Prune && len(labels) == 0:
		return command.Usagef("--prune: which labels? Give --selector (-l) NAME=VALUE")
	case !opts.Prune && len(labels) > 0:
		return command.Usagef("--selector goes with --prune only")
	}
	opts.Selector, err = flags.Pairs("--selector", "=", labels)
	return err
}

// sendNothing returns the error for files that cannot be applied. A document gets the faults, too.
func (a *applier) sendNothing(err error) error {
	text := "nothing was sent: %v"
	if errors.As(err, &a.faults) {
		text = "nothing was changed:\n%v"
		if err := a.showDocument(); err != nil {
			return err
		}
	}
	return command.Usagef(text, err)
}

func applyRun(ctx context.Context, opts *applyOptions) error {
	a := &applier{printer: opts.Printer, dryRun: opts.DryRun, pending: make(map[manifest.Ref]pending)}
	sources, unread := readSources(opts.Stdin, opts.Files)
	m, err := manifest.Read(sources, unread, manifest.Namespaces{
		Required: opts.Server.Namespace, Fallback: cmp.Or(opts.Server.NamespaceName(), task.DefaultNamespace),
	})
	c, unusable := opts.Client()
	if unusable != nil {
		return unusable
	}
	if faults := manifest.Faults(nil); errors.As(err, &faults) {
		err = append(faults, a.check(ctx, c, m)...).InOrder()
	}
	if err != nil {
		return a.sendNothing(err)
	}
	a.client = c
	opts.Printer.Persist = true
	err = a.applyChecked(ctx, m, opts.Selector)
	if shown := a.showDocument(); err == nil {
		err = shown
	}
	if err == nil && a.refused > 0 {
		err = command.ErrReported
	}
	return err
}
