package web

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/task"
)

// Examples of what stands in the reachFields.
const (
	selectHint = "zone in (eu,us),gpu"
	preferHint = "10:zone=eu"
	routeHint  = `round, or {"by": "hash", "key": "tenant-7"}`
)

// reachFields are the fields that say on which nodes a task may run, and to which of them it goes.
func (v *visit) reachFields() []formField {
	return []formField{
		{Name: "slots", Label: v.T("Slots of its node that it holds"), Hint: "1"},
		{Name: "select", Label: v.T("Nodes, by labels"), Hint: selectHint, Wide: true},
		{Name: "prefer", Label: v.T("Preferred nodes (weight:labels)"), Hint: preferHint, Long: true, Wide: true},
		{Name: "route", Label: v.T("Route"), Hint: routeHint, Wide: true},
	}
}

// reach is what the reachFields say, as the API has it.
type reach struct {
	Select *wire.Selector
	Prefer wire.Preferences
	Route  *wire.Route
	Slots  *wire.Slots
}

// reachOf reads what the reachFields say. Error: CodeInvalid.
func (v *visit) reachOf(typed func(name string) string) (r reach, _ error) {
	var wrong problems
	r.Select = wire.Given(typed("select"))
	for line := range strings.Lines(typed("prefer")) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		p, err := definition.ParsePreference(line)
		if err != nil {
			wrong.add(v.invalid("prefer", v.T("must be like %s", preferHint)))
			break
		}
		r.Prefer = append(r.Prefer, p)
	}
	if text := typed("slots"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			wrong.add(v.invalid("slots", v.T("must be a whole number from %d on", 1)))
		}
		r.Slots = wire.Given(n)
	}
	text := typed("route")
	switch {
	case text == "":
	case !strings.HasPrefix(text, "{"):
		r.Route = &wire.Route{By: new(wire.RouteBy(text))}
	default:
		decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
		decoder.DisallowUnknownFields()
		if decoder.Decode(&r.Route) != nil || decoder.More() {
			wrong.add(v.invalid("route", v.T("must be like %s", routeHint)))
		}
	}
	return r, wrong.err()
}

// setReach sets what the reachFields say. Error: CodeInvalid.
func (v *visit) setReach(d *task.Definition, typed func(name string) string) error {
	r, err := v.reachOf(typed)
	if err != nil {
		return err
	}
	read, err := definition.Task(wire.Submission{Select: r.Select, Prefer: r.Prefer, Route: r.Route, Slots: r.Slots})
	d.Reach, d.RouteKey = read.Reach, read.RouteKey
	return err
}

// reachTexts are what stands in the reachFields.
func reachTexts(
	selector *wire.Selector, prefer wire.Preferences, route *wire.Route, slots *wire.Slots,
) map[string]string {
	return map[string]string{
		"slots":  numberText(wire.Value(slots)),
		"select": wire.Value(selector), "prefer": strings.Join(preferTexts(prefer), "\n"), "route": routeText(route),
	}
}

// preferTexts are preferences as they are typed.
func preferTexts(prefer wire.Preferences) (texts []string) {
	for _, p := range prefer {
		texts = append(texts, definition.PreferenceText(p))
	}
	return texts
}

// routeText is a route as it is typed: its name if that is all.
func routeText(r *wire.Route) string {
	switch {
	case r == nil:
		return ""
	case r.Key == nil && r.Order == nil && r.Sticky == nil && r.Load == nil:
		return string(wire.Value(r.By))
	}
	raw, _ := json.Marshal(r) // of texts and numbers
	return string(raw)
}
