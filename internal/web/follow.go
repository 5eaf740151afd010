package web

import (
	"encoding/json"
	"html/template"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/task"
)

// followUpHint is an example of a follow-up.
const followUpHint = `{"when": "failed", "task": {"type": "http", "payload": {"url": "https://..."}}}`

// followUpField is the field for what follows a task.
func (v *visit) followUpField() formField {
	return formField{Name: "on_end", Label: v.T("Followed by, as JSON"), Hint: followUpHint, Long: true, Wide: true}
}

// followUpOf is the follow-up that was typed as JSON; nil for none. Error: CodeInvalid.
func (v *visit) followUpOf(text string) (*task.FollowUp, error) {
	next, err := v.typedFollowUp(text)
	if err != nil || next == nil {
		return nil, err
	}
	d, err := definition.Task(wire.Submission{OnEnd: next})
	return d.OnEnd, err
}

// typedFollowUp is followUpOf as the API has it.
func (v *visit) typedFollowUp(text string) (*wire.FollowUp, error) {
	if text == "" {
		return nil, nil
	}
	var next wire.FollowUp
	in := json.NewDecoder(strings.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&next); err != nil || in.More() {
		return nil, v.invalid("on_end", v.T("must be like %s", followUpHint))
	}
	return &next, nil
}

// FollowedBy says what follows a task: when, until it has ended; then which task.
func (v *visit) FollowedBy(t task.Task) template.HTML {
	if t.State.Final() {
		next, follows := t.Follow(t.Attempt, t.State)
		if !follows {
			return v.T("Nothing, as it ended otherwise")
		}
		return linkTo(v.Path("tasks", next.Namespace, next.ID), code(next.ID))
	}
	return v.Follows(t.OnEnd)
}

// Follows says what follows a task, and when.
func (v *visit) Follows(f *task.FollowUp) template.HTML {
	switch next := f.Task.Type; f.When {
	case task.WhenSucceeded:
		return v.T("%s, if it succeeds", next)
	case task.WhenFailed:
		return v.T("%s, if it fails", next)
	default:
		return v.T("%s, when it has ended", next)
	}
}
