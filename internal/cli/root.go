package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newRootCommand(s *session) *cobra.Command {
	root := &cobra.Command{
		Use:   "dtsctl",
		Short: "Submit tasks and schedules to DTS, and follow, change, cancel or repeat them",
		Long: `dtsctl uses a DTS server over its API: it submits tasks and schedules, shows what became of them, and looks
after queues and nodes.

A terminal gets tables and times like "in 3 minutes". A pipe gets one line a thing, fields separated by tabs,
without a header, and times in RFC 3339. With -o json or -o yaml, it is what the API answered.`,
		Example: `  dtsctl task http https://example.com/hook --delay 10m
  dtsctl task shell --id backup --wait -- /usr/local/bin/backup --full
  dtsctl task list --state failed
  dtsctl schedule put nightly --cron '30 2 * * *' -- /usr/local/bin/backup
  dtsctl events`,
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRun: func(*cobra.Command, []string) { s.running = true },
	}
	beGroup(root)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	s.bindGlobals(root.PersistentFlags())
	complete(root, "output", "table", "json", "yaml")
	root.AddCommand(newTaskCommand(s), newScheduleCommand(s), newApplyCommand(s), newNodeCommand(s), newQueueCommand(s), newEventsCommand(s), newVersionCommand(s))
	root.AddCommand(newTopics()...)
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			beGroup(cmd)
		}
	}
	return root
}

func (s *session) bindGlobals(flags *pflag.FlagSet) {
	flags.StringVar(&s.server, "server", "", "address of the server (DTSCTL_SERVER; default "+defaultServer+")")
	flags.StringVarP(&s.namespace, "namespace", "n", "", "namespace of the tasks and schedules (DTSCTL_NAMESPACE; default \"default\")")
	flags.VarP(&s.format, "output", "o", "how to print: table, json or yaml")
	flags.DurationVar(&s.timeout, "request-timeout", defaultTimeout, "how long to wait for an answer of the server")
}

// beGroup makes a command of one that only holds others: alone, it shows its help; with a word it does not know,
// it says so.
func beGroup(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return usagef("%s has no command %q%s", cmd.CommandPath(), args[0], suggest(cmd, args[0]))
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

func suggest(cmd *cobra.Command, word string) string {
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	near := cmd.SuggestionsFor(word)
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
}

// named makes the positional arguments of a command: exactly these.
func named(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usagef("%s is missing", names[len(args)])
		case len(args) > len(names):
			return usagef("%q is one argument too many", args[len(names)])
		}
		return checkNames(names, args)
	}
}

// ids is the positional arguments of a command that takes one or more ids.
func ids(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("ID is missing")
	}
	return checkNames([]string{"ID"}, args)
}

// checkNames refuses what would be another path once it stands in a URL. All else is the server's to judge.
func checkNames(names, args []string) error {
	for i, arg := range args {
		if arg == "" || arg == "." || arg == ".." {
			return usagef("%s: %q cannot be a name", names[min(i, len(names)-1)], arg)
		}
	}
	return nil
}

// complete tells the shell what a flag can be. The flag is there, so it cannot fail.
func complete(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
