// Package complete completes arguments and flags in the shell with names that the server has.
package complete

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/command"
)

const (
	patience = 900 * time.Millisecond // for the answer of the server
	most     = 50                     // names that are offered
)

// Commands has root and all commands below it offer names from the server, as arguments and as values of flags. Where
// the server does not answer soon, they offer none, and say nothing.
func Commands(root *cobra.Command, client func() (*rest.Client, error)) {
	o := offer{client}
	for name, names := range flagSources {
		if root.PersistentFlags().Lookup(name) != nil {
			_ = root.RegisterFlagCompletionFunc(name, o.values(names))
		}
	}
	for _, cmd := range root.Commands() {
		o.command(root.Name(), cmd)
	}
}

// offer asks the server for names.
type offer struct {
	client func() (*rest.Client, error)
}

// command adds to a command, which belongs to a noun, and to those below it.
func (o offer) command(noun string, cmd *cobra.Command) {
	for name, names := range flagSources {
		if cmd.LocalNonPersistentFlags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, o.values(names)) // fails where a command offers its own
		}
	}
	if noun == "task" && cmd.Name() == "requeue" {
		_ = cmd.RegisterFlagCompletionFunc("to", o.values(queues))
	}
	if noun == "task" && cmd.Name() == "move" {
		_ = cmd.RegisterFlagCompletionFunc("to", o.values(nodes))
	}
	if names, many := argumentOf(noun, cmd.Use); names != nil {
		cmd.ValidArgsFunction = o.arguments(names, many, cmd.ValidArgsFunction)
	}
	for _, sub := range cmd.Commands() {
		o.command(cmd.Name(), sub)
	}
}

// argumentOf returns the source of the first argument of a command, and whether the command takes several. use is the
// usage of the command. The source is nil if nothing is offered for the argument.
func argumentOf(noun, use string) (names source, many bool) {
	words := strings.Fields(use)
	for i := 1; i < len(words); i++ {
		if strings.HasPrefix(words[i], "--") { // the word behind it is its value
			i++
			continue
		}
		word := strings.Trim(words[i], "[]")
		name, many := strings.CutSuffix(word, "...")
		if names := argumentSources[noun+" "+name]; names != nil {
			return names, many
		}
	}
	return nil, false
}

// arguments offers names as the first argument, or as each one. next offers further arguments, if it is not nil.
func (o offer) arguments(names source, many bool, next cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0 || many:
			return o.ask(cmd.Context(), names, args, word), cobra.ShellCompDirectiveNoFileComp
		case next != nil:
			return next(cmd, args, word)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// values offers names as values of a flag.
func (o offer) values(names source) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return o.ask(cmd.Context(), names, nil, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// ask returns names that begin with a word and are not taken. A failure is nothing to tell: somebody is typing.
func (o offer) ask(ctx context.Context, names source, taken []string, word string) []cobra.Completion {
	c, err := o.client()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := names(ctx, c, word)
	if err != nil {
		return nil
	}
	found = slices.DeleteFunc(found, func(name string) bool {
		return !strings.HasPrefix(name, word) || slices.Contains(taken, name) || command.CheckName("", name) != nil
	})
	return found[:min(len(found), most)]
}
