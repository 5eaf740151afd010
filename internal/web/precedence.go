package web

import (
	"html/template"
	"strconv"

	"github.com/dts-sched/dts/internal/task"
)

// precedenceFields are the fields that say which of the waiting tasks of a queue comes first, and which limits count
// it.
func (v *visit) precedenceFields() []formField {
	return []formField{
		{Name: "priority", Label: v.T("Priority (%d is the most urgent)", task.PriorityLimit), Hint: "0"},
		{Name: "fair_key", Label: v.T("Fair key"), Hint: "customer-7"},
		{Name: "fair_weight", Label: v.T("Weight of the fair key"), Hint: "1"},
		{Name: "limit_key", Label: v.T("Limit keys"), Hint: "tenant-7,api-x"},
		{Name: "cost", Label: v.T("Slots of each limit that it needs"), Hint: "1"},
	}
}

// setPrecedence sets what the precedenceFields say. Error: CodeInvalid.
func (v *visit) setPrecedence(d *task.Definition, typed func(name string) string) error {
	var wrong problems
	number := func(name string, least int) int {
		text := typed(name)
		n, err := strconv.Atoi(text)
		if text != "" && (err != nil || n < least) {
			wrong.add(v.invalid(name, v.T("must be a whole number from %d on", least)))
		}
		return n
	}
	d.Priority, d.FairKey, d.FairWeight = number("priority", 0), typed("fair_key"), number("fair_weight", 1)
	d.LimitKey, d.Cost = typed("limit_key"), number("cost", 1)
	if d.FairKey == "" && d.FairWeight > 0 {
		wrong.add(v.invalid("fair_weight", v.T("belongs to the fair key, which is missing")))
	}
	return wrong.err()
}

// FairKey is the fair key of a task, with its weight.
func (v *visit) FairKey(d task.Definition) template.HTML {
	if d.FairWeight > 1 {
		return v.T("%s, weight %d", code(d.FairKey), d.FairWeight)
	}
	return code(d.FairKey)
}
