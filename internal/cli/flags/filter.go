package flags

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
)

// Filter is the flags that choose tasks, or events of tasks.
type Filter struct {
	StateNames                         []string
	Queue, Type, Owner, Node, Schedule string // "" means any
}

// Bind adds the flags.
func (f *Filter) Bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.StateNames, "state", nil, "only in this state; may be repeated, or name several states separated by commas")
	flags.StringVar(&f.Queue, "queue", "", "only of this queue")
	flags.StringVar(&f.Type, "type", "", "only of this type")
	flags.StringVar(&f.Owner, "owner", "", "only of this owner")
	flags.StringVar(&f.Node, "node", "", "only if this node began the newest attempt")
	flags.StringVar(&f.Schedule, "schedule", "", "only if this schedule created it")
	RefuseEmpty(flags, "state", "queue", "type", "owner", "node", "schedule")
	command.Complete(cmd, "state", "scheduled", "queued", "running", "succeeded", "failed", "cancelled")
}

// States returns the states that are wanted. The server judges which words are states.
func (f *Filter) States() wire.States {
	var states wire.States
	for _, name := range f.StateNames {
		states = append(states, wire.State(strings.TrimSpace(name)))
	}
	return states
}
