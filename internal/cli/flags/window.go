package flags

import (
	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/server"
)

// Window is the flags that say how much of a list is wanted.
type Window struct{ server.Window }

// Bind adds the flags.
func (w *Window) Bind(f *pflag.FlagSet) {
	f.IntVar(&w.Limit, "limit", 50, "how many entries to list at most")
	f.BoolVar(&w.All, "all", false, "list all of them")
}

// Check refuses a limit that lists nothing.
func (w *Window) Check() error {
	if w.Limit < 1 {
		return command.Usagef("--limit: %d is less than 1", w.Limit)
	}
	return nil
}
