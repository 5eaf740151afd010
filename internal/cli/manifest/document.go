package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/task"
)

// Document is a file that describes schedules.
type Document struct {
	Namespace string     `json:"namespace,omitempty"`
	Schedules []Schedule `json:"schedules"`
}

// Schedule is a schedule of a Document.
type Schedule struct {
	ID string `json:"id"`
	wire.ScheduleDefinition
}

// ScheduleOf returns what a file has to say about a schedule, given the JSON with which the server answers it: its
// namespace, its definition without the defaults, and whether it is paused.
func ScheduleOf(raw json.RawMessage) (Schedule, error) {
	var s Schedule
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, rest.Misunderstood(err)
	}
	if s.Paused != nil && !*s.Paused {
		s.Paused = nil
	}
	// The server fills these in.
	if s.Task.Queue != nil && *s.Task.Queue == task.DefaultQueue {
		s.Task.Queue = nil
	}
	if string(s.Task.Payload) == "{}" {
		s.Task.Payload = nil
	}
	return s, nil
}

// Sort sorts the schedules by their namespaces and ids, and drops repeated ones.
func (d *Document) Sort() {
	byName := func(a, b Schedule) int {
		return cmp.Or(cmp.Compare(wire.Value(a.Namespace), wire.Value(b.Namespace)), cmp.Compare(a.ID, b.ID))
	}
	slices.SortStableFunc(d.Schedules, byName)
	d.Schedules = slices.CompactFunc(d.Schedules, func(a, b Schedule) bool { return byName(a, b) == 0 })
}

// Print prints the document as a file: as JSON in that format, else as YAML.
func (d *Document) Print(p *printer.Printer) error {
	raw, err := rest.Encode(d)
	if err != nil {
		return err
	}
	as := *p
	if as.IsTable() {
		as.Format = printer.YAML
	}
	return as.Show(escapeUnprintable(raw), nil)
}

// escapeUnprintable returns JSON with the same meaning that is YAML, too: YAML has some characters in escapes only.
func escapeUnprintable(raw []byte) []byte {
	return unprintable.ReplaceAllFunc(raw, func(found []byte) []byte {
		r, _ := utf8.DecodeRune(found)
		return fmt.Appendf(nil, `\u%04x`, r)
	})
}

// unprintable is what strings of JSON may have as it is, and YAML may not.
var unprintable = regexp.MustCompile(`[\x{7f}-\x{9f}\x{fffe}\x{ffff}]`)
