package definition

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
)

// ParseOnce reads what people type: MODE:KEY, and SETTING=VALUE behind commas. Modes and values are checked later.
// Error: what is wrong with the text.
func ParseOnce(text string) (*wire.Once, error) {
	parts := strings.Split(text, ",")
	mode, key, ok := strings.Cut(parts[0], ":")
	if !ok || mode == "" || key == "" {
		return nil, fmt.Errorf("%q must be MODE:KEY, as singleton:tenant-7 or debounce:reindex,wait=5s", text)
	}
	once := &wire.Once{Mode: wire.OnceMode(strings.TrimSpace(mode)), Key: strings.TrimSpace(key)}
	for _, part := range parts[1:] {
		setting, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch setting {
		case "wait":
			once.Wait = &value
		case "max":
			once.Max = &value
		case "every":
			once.Every = &value
		case "excess":
			once.Excess = wire.Given(wire.Excess(value))
		default:
			return nil, fmt.Errorf("%q is no setting: use wait=5s, max=1m, every=1m or excess=delay", part)
		}
	}
	return once, nil
}

// Instead says of a field that is not known what would be right in its place; "" if nobody can tell.
func Instead(field string) string {
	of, name := lastMember(field)
	switch {
	case aStep.MatchString(of):
		return insteadInStep(of, name)
	case strings.HasSuffix(field, "on_end.task.once"):
		return ": leave it out, as a follow-up has no key"
	case strings.HasSuffix(field, "task.once"):
		return ": use overlap of the schedule, which says what becomes of a tick while a task before it has not ended"
	case slices.Contains([]string{"params", "steps", "on_failure", "finally"}, field):
		return ": a workflow is an entry of workflows, with an id"
	}
	return ""
}

// insteadInStep is Instead for a field of a step of a workflow, or of the task of one.
func insteadInStep(of, name string) string {
	right, known := fieldsOfSteps[name]
	step, ofTask := strings.CutSuffix(of, ".task")
	switch {
	case name == "delay":
		return ": a step begins as soon as those that it needs have ended"
	case known && ofTask:
		return fmt.Sprintf("; did you mean %s.%s?", step, right)
	case known:
		return fmt.Sprintf("; did you mean %s?", right)
	}
	return ""
}

// fieldsOfSteps are fields of a step, by their own names, which may be in its task by mistake, and by those that other
// schedulers of workflows have for them.
var fieldsOfSteps = map[string]string{
	"id": "id", "needs": "needs", "when": "when", "rule": "rule", "allow_failure": "allow_failure",
	"name": "id", "depends_on": "needs", "dependsOn": "needs", "dependencies": "needs", "if": "when", "condition": "when",
	"trigger_rule": "rule",
}

// aStep is the field of a step of a workflow, or of the task of one.
var aStep = regexp.MustCompile(`(^|\.)(steps|on_failure|finally)\[\d+\](\.task)?$`)

// lastMember splits a field into the object that has it and its name there.
func lastMember(field string) (object, name string) {
	i := strings.LastIndexByte(field, '.')
	return field[:max(i, 0)], field[i+1:]
}

// OnceText writes what ParseOnce reads; "" for nil.
func OnceText(o *task.Once) string {
	if o == nil {
		return ""
	}
	text := string(o.Mode) + ":" + o.Key
	for _, setting := range []struct{ name, value string }{
		{"wait", wire.Value(Span(o.Wait))}, {"max", wire.Value(Span(o.Max))}, {"every", wire.Value(Span(o.Every))},
		{"excess", string(o.Excess)},
	} {
		if setting.value != "" {
			text += "," + setting.name + "=" + setting.value
		}
	}
	return text
}
