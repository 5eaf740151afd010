package flags

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/cli/command"
)

// Selection is the flags that choose tasks by what only lists know.
type Selection struct {
	Labels               []string
	Error                string // "" means any
	Time                 string // which time Since and Until mean; "" for the usual one
	SinceText, UntilText *string
}

// Bind adds the flags.
func (s *Selection) Bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&s.Labels, "label", "l", nil, "only with this label, as NAME=VALUE; may be repeated")
	flags.StringVar(&s.Error, "error", "",
		"only if it failed with an error that contains this text; # stands for numbers and ids, as task failures shows it")
	String(flags, &s.SinceText, "since", "only if its time is this or later: a time, or how long ago it was, as 2h")
	String(flags, &s.UntilText, "until", "only if its time is before this: a time, or how long ago it was")
	flags.StringVar(&s.Time, "time", "",
		"the time that --since and --until mean: created, due or ended "+
			"(default: ended if --state has only states in which tasks have ended, else created)")
	RefuseEmpty(flags, "label", "error", "time")
	command.Complete(cmd, "time", "created", "due", "ended")
}

// Span reads --since and --until.
func (s *Selection) Span(t Times) (since, until *time.Time, err error) {
	if since, err = t.Past("--since", s.SinceText); err != nil {
		return nil, nil, err
	}
	until, err = t.Past("--until", s.UntilText)
	return since, until, err
}
