// Package definition translates definitions of tasks and schedules between the words of the API, which are also those
// of files, and those of the engine.
package definition

import (
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
)

// Moment is a time of a request in whole ms.
func Moment(t wire.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// Duration writes 10m0s as 10m, as people do.
func Duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// ParseDuration reads a duration; "" is 0. Error: CodeInvalid, with the field.
func ParseDuration(field, s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, task.Invalid(field, "%q is not a duration such as 1m30s or 48h", s)
	}
	return d, nil
}

// ParseSpan reads a duration for which 0 stands for the default, so that nobody can ask for it. Error: CodeInvalid,
// with the field.
func ParseSpan(field, s string) (time.Duration, error) {
	d, err := ParseDuration(field, s)
	if err == nil && s != "" && d == 0 {
		err = task.Invalid(field, "must be more than 0")
	}
	return d, err
}

// Span is nil for a duration that nobody gave.
func Span(d time.Duration) *wire.Duration {
	if d == 0 {
		return nil
	}
	return new(Duration(d))
}

// reader collects the durations of a definition, and the errors among them.
type reader struct{ err error }

func (r *reader) span(field, s string) time.Duration {
	d, err := ParseSpan(field, s)
	r.note(err)
	return d
}

func (r *reader) duration(field, s string) time.Duration {
	d, err := ParseDuration(field, s)
	r.note(err)
	return d
}

func (r *reader) note(err error) { r.err = task.Join(r.err, err) }
