package schedule

import (
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

type exportOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	IDs           []string
	Prefix        string
	Labels        []string
	AllNamespaces bool
}

func newExportCommand(f *command.Factory) *cobra.Command {
	opts := &exportOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "export [ID...]", Short: "Write schedules as a file that apply takes",
		Annotations: command.Asks("listSchedules", "getSchedule"),
		Long: `export writes schedules as a file for "dtsctl apply": the schedules that are named, those with all labels of
--label, those with ids that begin with --prefix, or all of the namespace. The file is YAML; with -o json, it is JSON.

The file has the definitions as they were put, sorted by id: no state, and no defaults. A schedule that is paused has
"paused: true". To apply the file where it comes from changes nothing. Elsewhere it creates schedules with equal
definitions; they begin without runs, ledger and history. An interval without start_at counts from then on, and a
schedule without a tick to come is refused.

The namespace is written if the command line or DTSCTL_NAMESPACE names one, or with --all-namespaces. Without it, the
file can be applied to any namespace: dtsctl schedule export | dtsctl -n other apply -f -

The exit code is 1 if a schedule is missing in the file because the server cannot read it. If an id does not exist,
nothing is written.`,
		Example: `  dtsctl schedule export > schedules.yaml
  dtsctl schedule export nightly hourly -o json
  dtsctl schedule export -l team=storage | dtsctl --server http://other:8080 apply -f -
  dtsctl schedule export -A > all.yaml`,
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
	set.StringArrayVarP(&opts.Labels, "label", "l", nil, "only with this label, as NAME=VALUE; may be repeated")
	flags.RefuseEmpty(set, "prefix", "label")
	set.BoolVarP(&opts.AllNamespaces, "all-namespaces", "A", false, "write the schedules of all namespaces, as -n '*'")
	return cmd
}

func (opts *exportOptions) check() error {
	if len(opts.IDs) > 0 {
		if opts.Prefix != "" || len(opts.Labels) > 0 || opts.AllNamespaces {
			return command.Usagef("name schedules, or choose them with --label, --prefix and --all-namespaces, not both")
		}
		return command.IDs(nil, opts.IDs)
	}
	_, err := flags.Labels("--label", opts.Labels)
	return err
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
	answers, complete, err := opts.read(ctx, c, namespace)
	if err != nil {
		return err
	}
	d := manifest.Document{Schedules: []manifest.Schedule{}}
	if namespace != everyNamespace {
		d.Namespace = namespace
	}
	for _, raw := range answers {
		s, err := manifest.ScheduleOf(raw)
		if err != nil {
			return rest.Misunderstood(err)
		}
		if namespace != everyNamespace {
			s.Namespace = nil
		}
		d.Schedules = append(d.Schedules, s)
	}
	d.Sort()
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

// everyNamespace stands for all namespaces in a list.
const everyNamespace = "*"

// read returns the answers of the server for all schedules that are wanted. Those that cannot be read are missing,
// which is told, and the list is not complete. Error: ErrReported, for ids that were refused.
func (opts *exportOptions) read(
	ctx context.Context, c *rest.Client, namespace string,
) (answers []json.RawMessage, complete bool, _ error) {
	if len(opts.IDs) == 0 {
		return opts.list(ctx, c, namespace)
	}
	err := command.ForEach(opts.Printer, slices.Compact(slices.Sorted(slices.Values(opts.IDs))), func(id string) error {
		answer, err := getSchedule(ctx, c, id)
		answers = append(answers, answer.Raw)
		return err
	})
	return answers, true, err
}

// list reads the schedules that the flags choose.
func (opts *exportOptions) list(
	ctx context.Context, c *rest.Client, namespace string,
) (answers []json.RawMessage, complete bool, _ error) {
	params := client.ListSchedulesParams{
		Namespace: flags.NilIfZero(namespace), Prefix: flags.NilIfZero(opts.Prefix), Label: opts.Labels,
	}
	read := func(limit int, cursor *string) (json.RawMessage, error) {
		params.Limit, params.Cursor = &limit, cursor
		answer, err := rest.Read[wire.ScheduleList](c.ListSchedulesWithResponse(ctx, &params))
		return answer.Raw, err
	}
	pages, err := server.ReadPages[json.RawMessage](server.Window{All: true}, "schedules", read)
	opts.Printer.Warn(pages.Warnings)
	return pages.Rows, len(pages.Warnings) == 0, err
}
