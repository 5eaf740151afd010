package manifest

import (
	"encoding/json"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/schedule"
)

// DocumentOf returns a document that has a schedule, and nothing else.
func DocumentOf(d schedule.Definition, paused bool) (Document, error) {
	said := definition.WireSchedule(d)
	said.Paused = &paused
	raw, err := wire.Encode(Schedule{ID: d.ID, ScheduleDefinition: said})
	if err != nil {
		return Document{}, err
	}
	s, err := ScheduleOf(raw)
	return Document{Namespace: d.Namespace, Schedules: []Schedule{s}}, err
}

// Definition returns what the entry of a schedule asks for; paused is nil if it does not say whether the schedule is
// paused. Error: CodeInvalid, with the fields.
func (e *Entry) Definition() (d schedule.Definition, paused *bool, _ error) {
	var said wire.ScheduleDefinition
	if err := json.Unmarshal(e.Body, &said); err != nil {
		return d, nil, err
	}
	d, err := definition.Schedule(said, e.ID)
	d.Namespace = e.Namespace
	return d, said.Paused, err
}

// Differences returns the fields that differ between two definitions, sorted by name.
func Differences(before, after schedule.Definition) ([]Change, error) {
	old, err := wire.Encode(definition.WireSchedule(before))
	if err != nil {
		return nil, err
	}
	changed, err := wire.Encode(definition.WireSchedule(after))
	if err != nil {
		return nil, err
	}
	return Changes(old, changed)
}
