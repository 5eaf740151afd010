package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/apply"
	"github.com/dts-sched/dts/internal/cli/bench"
	"github.com/dts-sched/dts/internal/cli/bulk"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/complete"
	"github.com/dts-sched/dts/internal/cli/doctor"
	"github.com/dts-sched/dts/internal/cli/events"
	"github.com/dts-sched/dts/internal/cli/flow"
	"github.com/dts-sched/dts/internal/cli/importer"
	"github.com/dts-sched/dts/internal/cli/limit"
	"github.com/dts-sched/dts/internal/cli/lock"
	"github.com/dts-sched/dts/internal/cli/memory"
	"github.com/dts-sched/dts/internal/cli/namespace"
	"github.com/dts-sched/dts/internal/cli/node"
	"github.com/dts-sched/dts/internal/cli/queue"
	"github.com/dts-sched/dts/internal/cli/schedule"
	"github.com/dts-sched/dts/internal/cli/status"
	"github.com/dts-sched/dts/internal/cli/task"
	"github.com/dts-sched/dts/internal/config"
)

// NewRootCommand returns dtsctl with all its commands.
func NewRootCommand(f *command.Factory) *cobra.Command {
	root := &cobra.Command{
		Use:   "dtsctl",
		Short: "Submit tasks and schedules to DTS, and follow, change, cancel or retry them",
		Long: `dtsctl uses a DTS server over its API: it submits tasks and schedules, shows what became of them, and shows and
controls queues and nodes.

"dtsctl completion" writes a script for the shell. It offers commands, flags, and names from the server: ids of new tasks
and of schedules, queues, types, namespaces and nodes.

A terminal gets tables and times like "in 3 minutes". A pipe gets one line per thing, fields separated by tabs,
without a header, and times in RFC 3339. With -o json or -o yaml, the output is what the API answered.`,
		Example: `  dtsctl task http https://example.com/hook --delay 10m
  dtsctl task shell --id backup --wait -- /usr/local/bin/backup --full
  dtsctl task list --state failed
  dtsctl schedule put nightly --cron '30 2 * * *' -- /usr/local/bin/backup
  dtsctl lock deploy -- ./deploy.sh
  dtsctl status
  dtsctl events`,
		SilenceUsage: true, SilenceErrors: true,
	}
	command.Group(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return config.FlagError(cmd.Flags(), err) })
	root.SetIn(f.In)
	root.SetOut(f.Printer.Out)
	root.SetErr(f.Printer.Err)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	bindGlobals(root.PersistentFlags(), f)
	command.Complete(root, "output", "table", "json", "yaml")
	root.AddCommand(
		task.NewCommand(f), schedule.NewCommand(f), apply.NewCommand(f), node.NewCommand(f), queue.NewCommand(f),
		lock.NewCommand(f), namespace.NewCommand(f), importer.NewCommand(f), events.NewCommand(f), status.NewCommand(f), doctor.NewCommand(f),
		memory.NewCommand(f), bench.NewCommand(f), bulk.NewCommand(f),
		flow.NewCommand(f), limit.NewCommand(f),
		newVersionCommand(f),
	)
	complete.Commands(root, f.Client)
	root.AddCommand(newTopics()...)
	command.RefuseUnknownWords(root)
	return root
}

// bindGlobals adds the flags of all commands.
func bindGlobals(set *pflag.FlagSet, f *command.Factory) {
	set.StringVar(&f.Server.Address, "server", "", "address of the server (DTSCTL_SERVER; default "+rest.DefaultAddress+")")
	set.StringVarP(&f.Server.Namespace, "namespace", "n", "", "namespace of the tasks and schedules (DTSCTL_NAMESPACE; default \"default\")")
	set.VarP(&f.Printer.Format, "output", "o", "how to print: table, json or yaml")
	set.DurationVar(&f.Server.Timeout, "request-timeout", rest.DefaultTimeout, "how long to wait for an answer of the server")
}
