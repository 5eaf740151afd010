package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow/words"
)

// Document is a file that describes workflows, schedules, or both. A list that is nil is not written.
type Document struct {
	Namespace string     `json:"namespace,omitempty"`
	Workflows []Workflow `json:"workflows,omitzero"`
	Schedules []Schedule `json:"schedules,omitzero"`
}

// Workflow is a workflow of a Document.
type Workflow struct {
	ID        string  `json:"id"`
	Namespace *string `json:"namespace,omitempty"`
	words.Workflow
}

// Schedule is a schedule of a Document.
type Schedule struct {
	ID string `json:"id"`
	wire.ScheduleDefinition
}

// ScheduleOf returns what a file says about a schedule: its namespace, its definition without the defaults, and whether
// it is paused. raw is the schedule as the server answers it.
func ScheduleOf(raw json.RawMessage) (Schedule, error) {
	var s Schedule
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, err
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

// JSON returns the document as JSON that is YAML, too.
func (d *Document) JSON() (json.RawMessage, error) {
	raw, err := wire.Encode(d)
	return escapeUnprintable(raw), err
}

// Text returns the document as YAML.
func (d *Document) Text() (string, error) {
	raw, err := d.JSON()
	if err != nil {
		return "", err
	}
	node, err := YAML(raw)
	if err != nil {
		return "", err
	}
	return Text(node)
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
