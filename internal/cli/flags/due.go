package flags

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
)

// Due is the flags that say when a task is due.
type Due struct {
	At    *string
	Delay *time.Duration
}

// Bind adds the flags.
func (d *Due) Bind(f *pflag.FlagSet) {
	String(f, &d.At, "at", "when it is due, in RFC 3339 or as local \"2006-01-02 15:04[:05]\"")
	Duration(f, &d.Delay, "delay", "how long until it is due")
}

// Resolve returns what the API takes: a time, a delay, or neither.
func (d *Due) Resolve(times Times) (runAt *wire.Time, delay *string, err error) {
	switch {
	case d.At != nil && d.Delay != nil:
		return nil, nil, command.Usagef("--at and --delay: give one of them, not both")
	case d.Delay != nil && *d.Delay < 0:
		return nil, nil, command.Usagef("--delay: %s is negative", *d.Delay)
	}
	runAt, err = times.Time("--at", d.At)
	return runAt, DurationText(d.Delay), err
}
