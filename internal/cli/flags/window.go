package flags

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/server"
)

// lookFor is how long a list looks for entries that match, unless it is told otherwise.
const lookFor = 10 * time.Second

// Window is the flags that say how much of a list is wanted.
type Window struct{ server.Window }

// Bind adds the flags.
func (w *Window) Bind(f *pflag.FlagSet) {
	f.IntVar(&w.Limit, "limit", 50, "how many entries to list at most")
	f.BoolVar(&w.All, "all", false, "list all of them")
	String(f, &w.Cursor, "cursor", "go on where an earlier list stopped, at its next_cursor")
	f.DurationVar(&w.Within, "within", lookFor, "how long to look for so many entries; a cursor then says how to go on")
}

// Check refuses a limit that lists nothing.
func (w *Window) Check() error {
	if w.Limit < 1 {
		return command.Usagef("--limit: %d is less than 1", w.Limit)
	}
	if w.Within < 0 {
		return command.Usagef("--within: %s is negative", w.Within)
	}
	return nil
}
