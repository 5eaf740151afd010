package flow

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/workflow/words"
)

// changeHeader says what came of a PUT.
const changeHeader = "Dts-Change"

type putOptions struct {
	options
	Stdin    io.Reader
	File     string
	IfMatch  *int
	IfAbsent bool
	DryRun   bool
}

func newPutCommand(f *command.Factory) *cobra.Command {
	opts := &putOptions{options: newOptions(f), Stdin: f.In}
	cmd := &cobra.Command{
		Use: "put WORKFLOW -f FILE", Short: "Create or replace a workflow", Args: command.ExactArgs("WORKFLOW"),
		Annotations: command.Asks("putWorkflow"),
		Long: `put keeps the definition in a YAML or JSON file under a name, which runs and schedules can name. Another
definition becomes a new revision. Runs take the revision that is in force when they begin, and keep it.

The whole definition is checked before; with --dry-run, nothing is changed. An error names the line and the column of
the file. A pipe gets a line: id, revision, and created, changed or unchanged.`,
		Example: `  dtsctl flow put etl -f etl.yaml
  dtsctl flow put etl -f etl.yaml --if-match 3
  dtsctl flow put etl -f etl.yaml --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.File == "" {
				return command.Usagef("-f is missing: which file has the definition?")
			}
			if opts.IfAbsent && opts.IfMatch != nil {
				return command.Usagef("--if-match and --if-absent: give one of them, not both")
			}
			if err := flags.CheckIfMatch(opts.IfMatch); err != nil {
				return err
			}
			return putRun(cmd.Context(), opts, args[0])
		},
	}
	set := cmd.Flags()
	set.StringVarP(&opts.File, "file", "f", "", "the file with the definition; - is standard input")
	command.CompleteFiles(cmd, "file")
	flags.Int(set, &opts.IfMatch, "if-match", "only if this is the revision in force")
	set.BoolVar(&opts.IfAbsent, "if-absent", false, "only if there is no such workflow")
	set.BoolVar(&opts.DryRun, "dry-run", false, "check everything, and change nothing")
	return cmd
}

func putRun(ctx context.Context, opts *putOptions, id string) error {
	definition, err := readFile(opts.Stdin, opts.File)
	if err != nil {
		return err
	}
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := &client.PutWorkflowParams{Namespace: c.Namespace, IfMatch: flags.RevisionTag(opts.IfMatch)}
	if opts.IfAbsent {
		params.IfNoneMatch = new("*")
	}
	if opts.DryRun {
		params.DryRun = &opts.DryRun
	}
	reply, err := c.PutWorkflowWithBodyWithResponse(ctx, id, params, rest.JSONType, bytes.NewReader(definition.Body))
	answer, err := rest.Read[wire.Workflow](reply, err)
	if err != nil {
		return definition.refusedAt(opts.Printer, "", err)
	}
	return showPut(opts.Printer, answer, reply.HTTPResponse.Header.Get(changeHeader), opts.DryRun)
}

// showPut prints what came of a definition or, after a dry run, what would come of it. A pipe gets the same for both.
func showPut(p *printer.Printer, answer rest.Answer[wire.Workflow], change string, dry bool) error {
	p.Warn(answer.Value.Warnings)
	return p.Show(answer.Raw, func() error {
		if p.OutIsTerminal {
			if dry && change != "unchanged" {
				change = "would be " + change
			}
			const text = "%s %s, revision %d\n"
			return p.Printf(text, printer.Flat(answer.Value.ID), change, answer.Value.Revision)
		}
		return p.PrintTabbed([][]any{{answer.Value.ID, answer.Value.Revision, change}})
	})
}

func newGetCommand(f *command.Factory) *cobra.Command {
	opts := newOptions(f)
	return &cobra.Command{
		Use: "get WORKFLOW", Short: "Show a workflow", Args: command.ExactArgs("WORKFLOW"),
		Annotations: command.Asks("getWorkflow"),
		Long: `get shows a workflow that was put, with its definition. With -o yaml, .definition is what "flow put" takes.

A pipe gets a line: id, revision, steps, paused, updated, by.`,
		Example: `  dtsctl flow get etl
  dtsctl flow get etl -o json | jq .definition > etl.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return askAndShow(cmd.Context(), opts, func(ctx context.Context, c *rest.Client) (rest.Reply, error) {
				return c.GetWorkflowWithResponse(ctx, args[0], &client.GetWorkflowParams{Namespace: c.Namespace})
			}, showWorkflow)
		},
	}
}

// showWorkflow prints a workflow: a terminal gets its definition, too.
func showWorkflow(p *printer.Printer, answer rest.Answer[wire.Workflow]) error {
	return p.Show(answer.Raw, func() error {
		if err := printer.PrintTable(p, workflowColumns, []wire.Workflow{answer.Value}); err != nil || !p.OutIsTerminal {
			return err
		}
		var text bytes.Buffer
		if err := json.Indent(&text, wire.PlainSigns(answer.Value.Definition), "", "  "); err != nil {
			return err
		}
		return p.Printf("\n%s\n", text.String())
	})
}

var workflowColumns = []printer.Column[wire.Workflow]{
	{Name: "id", Value: func(w wire.Workflow) any { return w.ID }},
	{Name: "revision", Value: func(w wire.Workflow) any { return w.Revision }},
	{Name: "steps", Value: func(w wire.Workflow) any { return stepsIn(w.Definition) }},
	{Name: "paused", Value: func(w wire.Workflow) any { return w.PausedAt }},
	{Name: "updated", Value: func(w wire.Workflow) any { return w.UpdatedAt }},
	{Name: "by", Value: func(w wire.Workflow) any { return w.UpdatedBy }},
	{Name: "namespace", Value: func(w wire.Workflow) any { return w.Namespace }},
}

// stepsIn returns how many steps a definition has.
func stepsIn(definition json.RawMessage) int {
	var known words.Workflow
	if json.Unmarshal(definition, &known) != nil {
		return 0
	}
	return len(known.Steps) + len(known.OnFailure) + len(known.Finally)
}

type listOptions struct {
	options
	Prefix        string
	Window        flags.Window
	AllNamespaces bool
}

func newListCommand(f *command.Factory) *cobra.Command {
	opts := &listOptions{options: newOptions(f)}
	cmd := &cobra.Command{
		Use: "list", Short: "List workflows that were put", Args: command.ExactArgs(),
		Annotations: command.Asks("listWorkflows"),
		Long: `list lists the workflows of a namespace, or of all of them, by name. "dtsctl flow runs" lists their runs.

The columns in a pipe are: id, revision, steps, paused, updated, by, namespace.`,
		Example: `  dtsctl flow list
  dtsctl flow list --prefix etl-
  dtsctl flow list --all-namespaces`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.Window.Check(); err != nil {
				return err
			}
			return listRun(cmd.Context(), opts)
		},
	}
	set := cmd.Flags()
	set.StringVar(&opts.Prefix, "prefix", "", "only if its id begins with this")
	opts.Window.Bind(set)
	set.BoolVarP(&opts.AllNamespaces, "all-namespaces", "A", false, "list the workflows of all namespaces, as -n '*'")
	return cmd
}

func listRun(ctx context.Context, opts *listOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := client.ListWorkflowsParams{Namespace: c.Namespace, Prefix: flags.NilIfZero(opts.Prefix)}
	if opts.AllNamespaces {
		params.Namespace = new("*")
	}
	read := func(limit int, cursor *string) (json.RawMessage, error) {
		params.Limit, params.Cursor = &limit, cursor
		answer, err := rest.Read[wire.WorkflowList](c.ListWorkflowsWithResponse(ctx, &params))
		return answer.Raw, err
	}
	_, err = command.ListPages(opts.Printer, opts.Window.Window, "workflows", read, workflowColumns)
	return err
}

type deleteOptions struct {
	options
	IfMatch *int
	DryRun  bool
}

func newDeleteCommand(f *command.Factory) *cobra.Command {
	opts := &deleteOptions{options: newOptions(f)}
	cmd := &cobra.Command{
		Use: "delete WORKFLOW", Short: "Delete a workflow", Args: command.ExactArgs("WORKFLOW"),
		Annotations: command.Asks("deleteWorkflow"),
		Long: `delete deletes a workflow that was put, with its earlier revisions. Runs that have begun go on. Those that
have not begun fail when their turn comes, and so do those that schedules start: it warns of such schedules. A pipe gets
the id.

With --dry-run, the output is the same, and nothing is deleted.`,
		Example: `  dtsctl flow delete etl
  dtsctl flow delete etl --dry-run
  dtsctl flow delete etl --if-match 3`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.CheckIfMatch(opts.IfMatch); err != nil {
				return err
			}
			return deleteRun(cmd.Context(), opts, args[0])
		},
	}
	flags.Int(cmd.Flags(), &opts.IfMatch, "if-match", "only if this is the revision in force")
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "show what runs it, and delete nothing")
	return cmd
}

func deleteRun(ctx context.Context, opts *deleteOptions, id string) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := &client.DeleteWorkflowParams{
		Namespace: c.Namespace, IfMatch: flags.RevisionTag(opts.IfMatch), DryRun: flags.NilIfZero(opts.DryRun),
	}
	answer, err := rest.Read[wire.WorkflowDeletion](c.DeleteWorkflowWithResponse(ctx, id, params))
	if err != nil {
		return err
	}
	p := opts.Printer
	p.Warn(usersOf(answer.Value))
	return p.Show(answer.Raw, func() error {
		switch {
		case !p.OutIsTerminal:
			return p.PrintTabbed([][]any{{id}})
		case opts.DryRun:
			return p.Printf("%s would be deleted\n", printer.Flat(id))
		}
		return p.Printf("%s deleted\n", printer.Flat(id))
	})
}

// usersOf says which schedules run a workflow that is deleted.
func usersOf(d wire.WorkflowDeletion) (warnings []string) {
	if len(d.Schedules) > 0 {
		const text = "schedules that start it fail from then on: "
		warnings = append(warnings, text+printer.Flat(strings.Join(d.Schedules, ", ")))
	}
	if wire.Value(d.More) {
		warnings = append(warnings, "there may be more schedules that start it: not all were looked at")
	}
	return warnings
}

func newHistoryCommand(f *command.Factory) *cobra.Command {
	opts := newOptions(f)
	return &cobra.Command{
		Use: "history WORKFLOW", Short: "List the revisions of a workflow", Args: command.ExactArgs("WORKFLOW"),
		Annotations: command.Asks("listWorkflowRevisions"),
		Long: `history lists the revisions of a workflow that are kept, the newest first, which is in force. -o json has
their definitions.

The columns in a pipe are: revision, from, steps, by.`,
		Example: `  dtsctl flow history etl
  dtsctl flow history etl -o json | jq '.revisions[] | select(.revision == 3) | .definition'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := opts.Client()
			if err != nil {
				return err
			}
			answer, err := rest.Read[wire.WorkflowRevisions](c.ListWorkflowRevisionsWithResponse(cmd.Context(), args[0],
				&client.ListWorkflowRevisionsParams{Namespace: c.Namespace}))
			if err != nil {
				return err
			}
			return opts.Printer.Show(answer.Raw, func() error {
				return printer.PrintTable(opts.Printer, revisionColumns, answer.Value.Revisions)
			})
		},
	}
}

var revisionColumns = []printer.Column[wire.WorkflowRevision]{
	{Name: "revision", Value: func(r wire.WorkflowRevision) any { return r.Revision }},
	{Name: "from", Value: func(r wire.WorkflowRevision) any { return r.From }},
	{Name: "steps", Value: func(r wire.WorkflowRevision) any { return stepsIn(r.Definition) }},
	{Name: "by", Value: func(r wire.WorkflowRevision) any { return r.By }},
}

func newRollbackCommand(f *command.Factory) *cobra.Command {
	opts := newOptions(f)
	var ifMatch *int
	dry := false
	cmd := &cobra.Command{
		Use: "rollback WORKFLOW REVISION", Short: "Put an earlier revision of a workflow again",
		Args:        command.ExactArgs("WORKFLOW", "REVISION"),
		Annotations: command.Asks("rollbackWorkflow"),
		Long: `rollback puts the definition of an earlier revision again. It becomes a new revision. Runs that have begun
keep theirs. The output is that of "dtsctl flow put". With --dry-run, nothing changes.`,
		Example: `  dtsctl flow rollback etl 3
  dtsctl flow rollback etl 3 --if-match 5 --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			revision, err := strconv.Atoi(args[1])
			if err != nil || revision < 1 {
				return command.Usagef("REVISION: %q is no number of a revision", args[1])
			}
			if err := flags.CheckIfMatch(ifMatch); err != nil {
				return err
			}
			c, err := opts.Client()
			if err != nil {
				return err
			}
			body, err := rest.Body(wire.Rollback{Revision: revision})
			if err != nil {
				return err
			}
			params := &client.RollbackWorkflowParams{Namespace: c.Namespace, IfMatch: flags.RevisionTag(ifMatch)}
			if dry {
				params.DryRun = &dry
			}
			reply, err := c.RollbackWorkflowWithBodyWithResponse(cmd.Context(), args[0], params, rest.JSONType, body)
			answer, err := rest.Read[wire.Workflow](reply, err)
			if err != nil {
				return err
			}
			return showPut(opts.Printer, answer, reply.HTTPResponse.Header.Get(changeHeader), dry)
		},
	}
	flags.Int(cmd.Flags(), &ifMatch, "if-match", "only if this is the revision in force")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "check everything, and change nothing")
	return cmd
}

// showPaused prints whether a workflow is paused.
func showPaused(p *printer.Printer, answer rest.Answer[wire.Workflow]) error {
	return p.Show(answer.Raw, func() error {
		state := "open"
		if answer.Value.PausedAt != nil {
			state = "paused"
		}
		if p.OutIsTerminal {
			return p.Printf("%s %s\n", printer.Flat(answer.Value.ID), p.StatusWord(printer.Status(state)))
		}
		return p.PrintTabbed([][]any{{answer.Value.ID, printer.Status(state)}})
	})
}
