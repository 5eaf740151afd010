package flow

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/server"
	"github.com/dts-sched/dts/internal/manifest"
)

// everyNamespace stands for all namespaces in a list.
const everyNamespace = "*"

type exportOptions struct {
	options
	IDs           []string
	Prefix        string
	AllNamespaces bool
}

func newExportCommand(f *command.Factory) *cobra.Command {
	opts := &exportOptions{options: newOptions(f)}
	cmd := &cobra.Command{
		Use: "export [WORKFLOW...]", Short: "Write workflows as a file that apply takes",
		Annotations: command.Asks("listWorkflows", "getWorkflow"),
		Long: `export writes workflows as a file for "dtsctl apply": those that are named, those with ids that begin with
--prefix, or all of the namespace. The file is YAML; with -o json, it is JSON.

The file has the definitions that are in force, sorted by id: no state, and no defaults. To apply it where it comes from
changes nothing. Elsewhere it creates workflows with equal definitions, without runs and history. It does not say
whether a workflow is paused.

The namespace is written if the command line or DTSCTL_NAMESPACE names one, or with --all-namespaces. Without it, the
file can be applied to any namespace: dtsctl flow export | dtsctl -n other apply -f -

The exit code is 1 if a workflow is missing in the file because the server cannot read it. If an id does not exist,
nothing is written.`,
		Example: `  dtsctl flow export > workflows.yaml
  dtsctl flow export etl report -o json
  dtsctl flow export -A > all.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.IDs = args
			if err := opts.check(); err != nil {
				return err
			}
			return exportRun(cmd.Context(), opts)
		},
	}
	set := cmd.Flags()
	set.StringVar(&opts.Prefix, "prefix", "", "only those whose ids begin with this")
	flags.RefuseEmpty(set, "prefix")
	set.BoolVarP(&opts.AllNamespaces, "all-namespaces", "A", false, "write the workflows of all namespaces, as -n '*'")
	return cmd
}

func (opts *exportOptions) check() error {
	switch {
	case len(opts.IDs) == 0:
		return nil
	case opts.Prefix != "" || opts.AllNamespaces:
		return command.Usagef("name workflows, or choose them with --prefix and --all-namespaces, not both")
	}
	return command.IDs(nil, opts.IDs)
}

func exportRun(ctx context.Context, opts *exportOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	namespace := printer.Deref(c.Namespace)
	if opts.AllNamespaces {
		namespace = everyNamespace
	}
	found, complete, err := opts.read(ctx, c, namespace)
	if err != nil {
		return err
	}
	d := manifest.Document{Workflows: []manifest.Workflow{}}
	if namespace != everyNamespace {
		d.Namespace = namespace
	}
	for _, w := range found {
		out := manifest.Workflow{ID: w.ID}
		if err := json.Unmarshal(w.Definition, &out.Workflow); err != nil {
			return rest.Misunderstood(err)
		}
		if namespace == everyNamespace {
			out.Namespace = &w.Namespace
		}
		d.Workflows = append(d.Workflows, out)
	}
	raw, err := d.JSON()
	if err != nil {
		return err
	}
	if err := opts.Printer.ShowFile(raw); err != nil {
		return err
	}
	if !complete {
		return command.ErrReported
	}
	return nil
}

// read returns the workflows that are wanted, by namespace and id. Those that cannot be read are missing, which is
// told, and the list is not complete. Error: ErrReported, for ids that were refused.
func (opts *exportOptions) read(
	ctx context.Context, c *rest.Client, namespace string,
) (found []wire.Workflow, complete bool, err error) {
	if len(opts.IDs) > 0 {
		ids := slices.Compact(slices.Sorted(slices.Values(opts.IDs)))
		err := command.ForEach(opts.Printer, ids, func(id string) error {
			answer, err := rest.Read[wire.Workflow](
				c.GetWorkflowWithResponse(ctx, id, &client.GetWorkflowParams{Namespace: c.Namespace}))
			found = append(found, answer.Value)
			return err
		})
		return found, true, err
	}
	params := client.ListWorkflowsParams{Namespace: flags.NilIfZero(namespace), Prefix: flags.NilIfZero(opts.Prefix)}
	page := func(limit int, cursor *string) (json.RawMessage, error) {
		params.Limit, params.Cursor = &limit, cursor
		answer, err := rest.Read[wire.WorkflowList](c.ListWorkflowsWithResponse(ctx, &params))
		return answer.Raw, err
	}
	pages, err := server.ReadPages[wire.Workflow](server.Window{All: true}, "workflows", page)
	opts.Printer.Warn(pages.Warnings)
	slices.SortFunc(pages.Rows, func(a, b wire.Workflow) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID))
	})
	return pages.Rows, len(pages.Warnings) == 0, err
}
