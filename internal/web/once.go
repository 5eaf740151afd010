package web

import (
	"html/template"
	"slices"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/task"
)

// onceHint is an example of a key, and of what becomes of a further submission with it.
const onceHint = "debounce:reindex,wait=5s"

// onceField is the field for the key of a task, and for what becomes of further submissions with it.
func (v *visit) onceField() formField {
	return formField{Name: "once", Label: v.T("Mode and key"), Hint: onceHint, Wide: true}
}

// onceOf is the key that was typed, beside when the task is to be due; nil for none. Error: CodeInvalid.
func (v *visit) onceOf(text, due string) (*task.Once, error) {
	if text == "" {
		return nil, nil
	}
	once, err := definition.ParseOnce(text)
	if err != nil {
		return nil, v.invalid("once", v.T("must be like %s", onceHint))
	}
	mode := task.OnceMode(once.Mode)
	if slices.Contains(task.OnceModes, mode) && mode != task.OnceSingleton && !isNow(due) {
		text := v.T("%s says when the task is due: leave the field %s empty", mode, v.whenLabel())
		return nil, v.invalid("once", text)
	}
	d, err := definition.Task(wire.Submission{Once: once})
	return d.Once, err
}

// OnceWords says what becomes of a further submission with the key of a task.
func (v *visit) OnceWords(o *task.Once) template.HTML {
	switch wait, most := v.Span(o.Wait), v.Span(o.Max); {
	case o.Mode == task.OnceSingleton:
		return v.T("none is created while this one has not ended")
	case o.Mode == task.OnceLatest:
		return v.T("the newest one waits until this one has ended")
	case o.Mode == task.OnceCancelRunning:
		return v.T("the newest one stops this one")
	case o.Mode == task.OnceDebounce && o.Max > 0:
		return v.T("due %s after the newest submission, at most %s after the first one", wait, most)
	case o.Mode == task.OnceDebounce:
		return v.T("due %s after the newest submission", wait)
	case o.Excess == task.ExcessDelay:
		return v.T("at most one in %s; others are due later", v.Span(o.Every))
	}
	return v.T("at most one in %s; others are dropped", v.Span(o.Every))
}

// after is a link to the task whose end a task waits for.
func (v *visit) after(t task.Task) template.HTML {
	if t.After == "" {
		return v.T("another task with its key")
	}
	return linkTo(v.Path("tasks", t.Ref.Namespace, t.After), code(t.After))
}
