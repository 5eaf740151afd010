package api

import (
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/change"
	"github.com/dts-sched/dts/internal/task"
)

// subjectsOf are what a client wants to follow.
func subjectsOf(p FollowEventsParams) []wire.EventSubject {
	if len(p.About) == 0 {
		return []wire.EventSubject{wire.SubjectTask}
	}
	return p.About
}

// fieldFilter is a filter of events by one field.
type fieldFilter struct {
	name  string
	given bool
	has   []wire.EventSubject // what has the field
}

// fieldFilters are the filters of a client. The namespace is not among them, as it has a default.
func fieldFilters(p FollowEventsParams) []fieldFilter {
	return []fieldFilter{
		{"state", len(p.State) > 0, []wire.EventSubject{wire.SubjectTask}},
		{"queue", p.Queue != "", []wire.EventSubject{wire.SubjectTask, wire.SubjectQueue}},
		{"type", p.Type != "", []wire.EventSubject{wire.SubjectTask}},
		{"owner", p.Owner != "", []wire.EventSubject{wire.SubjectTask}},
		{"node", p.Node != "", []wire.EventSubject{wire.SubjectTask, wire.SubjectNode}},
		{"schedule", p.Schedule != "", []wire.EventSubject{wire.SubjectTask, wire.SubjectSchedule}},
		{"task", p.Task != "", []wire.EventSubject{wire.SubjectTask}},
	}
}

// changesOf returns the filter of changes that the parameters describe; nil if they ask for none. Error:
// CodeInvalid for a filter by a field that nothing has which the client wants to follow.
func changesOf(p FollowEventsParams) (func(*change.Change) bool, error) {
	about := subjectsOf(p)
	wanted := func(s wire.EventSubject) bool { return slices.Contains(about, s) }
	for _, f := range fieldFilters(p) {
		if f.given && !slices.ContainsFunc(f.has, wanted) {
			return nil, task.Invalid(f.name, "filters only what is about %s, and about does not ask for that",
				subjectWords(f.has))
		}
	}
	if !slices.ContainsFunc(about, func(s wire.EventSubject) bool { return s != wire.SubjectTask }) {
		return nil, nil
	}
	return func(c *change.Change) bool {
		return wanted(wire.EventSubject(c.Kind())) && fits(p, c)
	}, nil
}

// fits reports whether a change has the value of each filter whose field it has.
func fits(p FollowEventsParams, c *change.Change) bool {
	same := func(want, got string) bool { return want == "" || got == "" || got == want }
	schedule := ""
	if c.Kind() == change.Schedule {
		schedule = c.Ref.ID
	}
	return same(p.Schedule, schedule) && same(p.Queue, c.Queue) && same(p.Node, c.Node)
}

// subjectWords lists subjects in a sentence.
func subjectWords(subjects []wire.EventSubject) string {
	texts := make([]string, len(subjects))
	for i, s := range subjects {
		texts[i] = string(s)
	}
	return strings.Join(texts, " or ")
}

func wireChange(c change.Change) wire.Change {
	out := wire.Change{
		Type: c.Type, At: wire.At(c.At), Namespace: wire.Given(c.Ref.Namespace),
		Revision: wire.Given(c.Revision), Queue: wire.Given(c.Queue), LimitName: wire.Given(c.Limit),
		Node: wire.Given(c.Node), State: wire.Given(c.State),
		By: wire.Given(c.By), Note: wire.Given(c.Note),
	}
	switch c.Kind() {
	case change.Schedule:
		out.Schedule = wire.Given(c.Ref.ID)
	case change.Workflow:
		out.Workflow = wire.Given(c.Ref.ID)
	}
	if c.Type == change.QueueLimited {
		out.Capacity, out.Limit = &c.Capacity, &c.Capacity
	}
	return out
}
