package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ExactArgs makes a command take exactly the named arguments.
func ExactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return Usagef("%s is missing", names[len(args)])
		case len(args) > len(names):
			return Usagef("%q is one argument too many%s", args[len(names)], asValue(cmd, args[len(names)]))
		}
		for i, arg := range args {
			if err := CheckName(names[i], arg); err != nil {
				return err
			}
		}
		return nil
	}
}

// CheckNamespaces refuses --all-namespaces beside --namespace with another name than "*".
func CheckNamespaces(cmd *cobra.Command) error {
	all, _ := cmd.Flags().GetBool("all-namespaces") // false for a command without it
	namespace := cmd.Flags().Lookup("namespace")
	if !all || namespace == nil || !namespace.Changed || namespace.Value.String() == "*" {
		return nil
	}
	return Usagef("--all-namespaces and --namespace %s: give one of them, not both", namespace.Value)
}

// asValue says how to write an argument as the value of a flag that was given without one, if there is such a flag.
func asValue(cmd *cobra.Command, arg string) (hint string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() != "bool" && f.NoOptDefVal != "" && f.Value.String() == f.NoOptDefVal {
			hint = fmt.Sprintf("; as a value of --%[1]s, write --%[1]s=%[2]s", f.Name, arg)
		}
	})
	return hint
}

// IDs makes a command take one or more ids.
func IDs(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return Usagef("ID is missing")
	}
	for _, arg := range args {
		if err := CheckName("ID", arg); err != nil {
			return err
		}
	}
	return nil
}

// NotWithIDs refuses the named flags, which mean nothing beside ids, if they are given.
func NotWithIDs(cmd *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if cmd.Flags().Changed(name) {
			return Usagef("--%s: it does nothing beside ids", name)
		}
	}
	return nil
}

// CheckName refuses a name that would change the path of a URL. The server judges all other names.
func CheckName(argument, name string) error {
	if name == "" || name == "." || name == ".." {
		return Usagef("%s: %q cannot be a name", argument, name)
	}
	return nil
}

// Group makes a command one that only holds others: without arguments it shows its help, and an unknown word is a
// usage error.
func Group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknown(cmd, args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// RefuseUnknownWords makes the commands that cobra adds, help and completion, refuse words that name no command or
// shell.
func RefuseUnknownWords(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args, cmd.Example = namesACommand, "  "+root.Name()+" help version"
		case "completion":
			Group(cmd)
		}
	}
}

// namesACommand refuses arguments that are not the path of a command from the root.
func namesACommand(cmd *cobra.Command, args []string) error {
	found, rest, err := cmd.Root().Find(args)
	if err == nil && len(rest) > 0 {
		return unknown(found, rest[0])
	}
	return err
}

// unknown is the error for a word that names no command of cmd.
func unknown(cmd *cobra.Command, word string) error {
	return Usagef("%s has no command %q%s", cmd.CommandPath(), word, suggestion(cmd, word))
}

func suggestion(cmd *cobra.Command, word string) string {
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	near := cmd.SuggestionsFor(word)
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
}

// CompleteFiles offers the shell files as values of a flag: unlike cobra, dtsctl offers them only where they fit. The
// flag must exist.
func CompleteFiles(cmd *cobra.Command, flag string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, offerFiles)
}

// CompleteFileArguments offers the shell files as arguments.
func CompleteFileArguments(cmd *cobra.Command) { cmd.ValidArgsFunction = offerFiles }

// CompleteCommand offers the shell files behind the name of a thing and "--", where a command stands. Cobra does not
// tell whether there was a "--", but nothing else stands there.
func CompleteCommand(cmd *cobra.Command) {
	cmd.ValidArgsFunction = func(
		cmd *cobra.Command, args []string, word string,
	) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offerFiles(cmd, args, word)
	}
}

func offerFiles(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// Complete tells the shell the values of a flag. The flag must exist.
func Complete(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
