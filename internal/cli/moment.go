package cli

import (
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// parseTime reads the time that a flag names: RFC 3339, or one of the zone.
func parseTime(flag, text string, zone *time.Location) (time.Time, error) {
	if t, ok := timeOf(text, zone); ok {
		return t, nil
	}
	return time.Time{}, usagef(`%s: %q is not a time; write 2026-01-02T15:04:05Z, or "2026-01-02 15:04" for local time`, flag, text)
}

func timeOf(text string, zone *time.Location) (time.Time, bool) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UTC(), true
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// timeFrom is the time that a flag names, nil if it was not given.
func (s *session) timeFrom(flags *pflag.FlagSet, name, text string) (*time.Time, error) {
	if !flags.Changed(name) {
		return nil, nil
	}
	t, err := parseTime("--"+name, text, s.Zone)
	if err != nil {
		return nil, err
	}
	return &t, nil
}

// pastFrom is the time that a flag names, in whole milliseconds: a time, or how long ago it was. It is nil if the flag
// was not given.
func (s *session) pastFrom(flags *pflag.FlagSet, name, text string) (*time.Time, error) {
	if !flags.Changed(name) {
		return nil, nil
	}
	t, ok := timeOf(text, s.Zone)
	if ago, err := time.ParseDuration(text); err == nil && !strings.HasPrefix(text, "-") {
		t, ok = s.Now().Add(-ago).UTC(), true
	}
	if !ok {
		return nil, usagef(`--%s: %q is not a time; write 2026-01-02T15:04:05Z, "2026-01-02 15:04" for local time, or 2h for two hours ago`, name, text)
	}
	t = t.Truncate(time.Millisecond)
	return &t, nil
}

// pastRange reads the flags --from and --to, each as pastFrom does.
func (s *session) pastRange(flags *pflag.FlagSet, from, to string) (since, until *time.Time, err error) {
	if since, err = s.pastFrom(flags, "from", from); err != nil {
		return nil, nil, err
	}
	until, err = s.pastFrom(flags, "to", to)
	return since, until, err
}
