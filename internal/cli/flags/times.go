package flags

import (
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
)

// Times reads the times that flags name.
type Times struct {
	now  func() time.Time
	zone *time.Location // of times without an offset
	user bool           // that is the zone of the user
}

// TimesOf returns a reader of times in the user's zone.
func TimesOf(f *command.Factory) Times { return Times{f.Printer.Now, f.Printer.Zone, true} }

// In returns a reader of times in a zone, the same one if the zone is not known here.
func (t Times) In(zone *string) Times {
	if zone == nil || *zone == "" {
		return t
	}
	if loc, err := time.LoadLocation(*zone); err == nil {
		t.zone, t.user = loc, false
	}
	return t
}

// forms lists what parse takes, for errors.
func (t Times) forms() string {
	zone := "local time"
	if !t.user {
		zone = "a time in " + t.zone.String()
	}
	return `2026-01-02T15:04:05Z, or 2026-01-02, "2026-01-02 15:04" or "2026-01-02 15:04:05" for ` + zone
}

// Time reads a time: RFC 3339, or a local date with or without a time of day. It returns nil for a nil text.
func (t Times) Time(flag string, text *string) (*wire.Time, error) {
	if text == nil {
		return nil, nil
	}
	at, ok := t.parse(*text)
	if !ok {
		return nil, command.Usagef(`%s: %q is not a time; write %s`, flag, *text, t.forms())
	}
	return &wire.Time{Time: at}, nil
}

func (t Times) parse(text string) (time.Time, bool) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.UTC(), true
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, text, t.zone); err == nil {
			return at.UTC(), true
		}
	}
	return time.Time{}, false
}

// Past reads a time as Time does, or how long ago it was, as 2h. The result is in whole milliseconds.
func (t Times) Past(flag string, text *string) (*time.Time, error) {
	if text == nil {
		return nil, nil
	}
	at, ok := t.parse(*text)
	if ago, err := time.ParseDuration(*text); err == nil && !strings.HasPrefix(*text, "-") {
		at, ok = t.now().Add(-ago).UTC(), true
	}
	if !ok {
		return nil, command.Usagef(`%s: %q is not a time; write how long ago it was, as 90s, 2h or 36h, or %s`, flag, *text, t.forms())
	}
	at = at.Truncate(time.Millisecond)
	return &at, nil
}

// PastRange reads the flags --from and --to as Past does.
func (t Times) PastRange(from, to *string) (since, until *time.Time, err error) {
	if since, err = t.Past("--from", from); err != nil {
		return nil, nil, err
	}
	until, err = t.Past("--to", to)
	return since, until, err
}
