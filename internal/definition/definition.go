// Package definition translates definitions of tasks and schedules between the words of the API, which are also those
// of files, and those of the engine.
package definition

import (
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
)

// Moment is a time of a request in whole ms.
func Moment(t wire.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// Span is nil for a duration that nobody gave.
func Span(d time.Duration) *wire.Duration {
	if d == 0 {
		return nil
	}
	return new(task.FormatDuration(d))
}

// reader collects the durations of a definition, and the errors among them.
type reader struct{ err error }

func (r *reader) span(field, s string) time.Duration {
	d, err := task.ParseSpan(field, s)
	r.note(err)
	return d
}

func (r *reader) duration(field, s string) time.Duration {
	d, err := task.ParseDuration(field, s)
	r.note(err)
	return d
}

func (r *reader) note(err error) { r.err = task.Join(r.err, err) }
