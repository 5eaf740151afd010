package web

import (
	"cmp"
	"context"
	"html/template"
	"net/url"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/task"
)

// taskList is what the list of tasks shows.
type taskList struct {
	Sentence template.HTML
	Fields   []filterField
	States   []stateTab
	Offers   []offer
	Tasks    []task.Task
	Next     string // the cursor of the next page; "" at the end
	First    bool   // it is the first page
	Lacks    string // what the list may lack; "" for nothing
	Wrong    string // what is wrong with the filter; "" if nothing is
	Empty    bool   // there is no task at all
}

// stateTab is a state with the number of tasks that match.
type stateTab struct {
	Name    string // "" for all
	Label   string
	Mark    mark
	Count   int
	More    bool // there are more, or may be
	Present bool
}

// filterFields are the fields of the filter, in the order of the form.
func (v *visit) filterFields() []filterField {
	fields := []filterField{
		{"queue", v.T("Queue"), "", ""}, {"type", v.T("Type"), "", ""}, {"schedule", v.T("Schedule"), "", ""},
		{"label", v.T("Label"), "", "order=4711"}, {"owner", v.T("Owner"), "", ""}, {"node", v.T("Node"), "", ""},
		{"since", v.T("Since"), "", "2h"}, {"until", v.T("Until"), "", "1h"}, {"error", v.T("Error has"), "", ""},
	}
	for i := range fields {
		fields[i].Value = v.query.Get(fields[i].Name)
		v.label(fields[i].Name, fields[i].Label)
	}
	return fields
}

func readTasks(ctx context.Context, v *visit) (any, string, error) {
	title := string(v.T("Tasks"))
	l := taskList{First: v.query.Get("cursor") == "", Fields: v.filterFields()}
	filter, err := v.taskFilter()
	if err != nil {
		l.Wrong = v.wrongIn(err)
		return l, title, nil
	}
	filter.Brief, filter.LastEnds = true, true
	page, counts, err := v.site.Control.ListAndCountTasks(ctx, v.who, filter, pageRows, v.query.Get("cursor"))
	if edge.CodeOf(err) == task.CodeInvalid {
		l.Wrong = err.Error()
		return l, title, nil
	}
	if err != nil {
		return nil, "", err
	}
	l.Tasks, l.Next, l.Lacks = page.Tasks, page.NextCursor, cmp.Or(page.Missing, countTheShown(counts, page.Tasks))
	l.States, l.Offers = v.stateTabs(counts), v.offers(counts)
	l.Sentence = v.tasksSentence(l.States)
	if l.Empty = l.States[0].Count == 0 && !l.States[0].More && v.unfiltered(l.Fields); l.Empty {
		l.Sentence = v.T("There are no tasks yet.") + " " + linkTo("/submit", v.T("Submit a task"))
	}
	return l, title, nil
}

// unfiltered reports whether the address asks for all tasks.
func (v *visit) unfiltered(fields []filterField) bool {
	return v.Chosen() == "" && v.query.Get("state") == "" &&
		!slices.ContainsFunc(fields, func(f filterField) bool { return f.Value != "" })
}

// countTheShown makes counts that may be too low no lower than what is shown, and says that there may be more. It
// returns what they may lack; "" for nothing.
func countTheShown(counts map[task.State]control.TaskCount, shown []task.Task) (missing string) {
	for s, c := range counts {
		if c.Missing == "" {
			continue
		}
		n := 0
		for _, t := range shown {
			if t.State == s {
				n++
			}
		}
		missing, c.Tasks, c.About = c.Missing, max(c.Tasks, n), true
		counts[s] = c
	}
	return missing
}

// taskFilter is the filter that the address asks for. Error: CodeInvalid, with the field.
func (v *visit) taskFilter() (control.TaskFilter, error) {
	get := func(name string) string { return strings.TrimSpace(v.query.Get(name)) }
	f := control.TaskFilter{
		Namespace: v.Namespace, Queue: get("queue"), Type: get("type"), Schedule: get("schedule"), Owner: get("owner"),
		Node: get("node"), Error: get("error"),
	}
	if state := get("state"); state != "" {
		if !isState(state) {
			return f, v.invalid("state", v.T("%s is no state of a task", quoted(state)))
		}
		f.States = []task.State{task.State(state)}
	}
	var err error
	if f.Labels, err = v.labelOf(get("label")); err != nil {
		return f, err
	}
	since, err := v.timeParameter("since")
	if err != nil {
		return f, err
	}
	until, err := v.timeParameter("until")
	if err != nil {
		return f, err
	}
	if !since.IsZero() && !until.IsZero() && until.Before(since) {
		return f, v.invalid("until", v.T("is before %s", v.T("Since")))
	}
	if !since.IsZero() || !until.IsZero() {
		f.Limit("", control.TaskSpan{Since: since, Until: until})
	}
	return f, nil
}

// stateTabs are all states, with the numbers of tasks that match.
func (v *visit) stateTabs(counts map[task.State]control.TaskCount) []stateTab {
	all := stateTab{Label: string(v.T("All")), Present: v.query.Get("state") == ""}
	tabs := []stateTab{all}
	for _, s := range task.States {
		c := counts[s]
		tabs = append(tabs, stateTab{
			Name: string(s), Label: v.stateName(s), Mark: stateMark(task.Task{State: s}), Count: c.Tasks, More: c.About,
			Present: v.query.Get("state") == string(s),
		})
		tabs[0].Count += c.Tasks
		tabs[0].More = tabs[0].More || c.About
	}
	return tabs
}

// matching is how many tasks match, as far as they were counted.
func (v *visit) matching(t stateTab) string {
	if t.More {
		return v.Num(t.Count) + "+"
	}
	return v.Num(t.Count)
}

// tasksSentence says how many tasks match, and how they are.
func (v *visit) tasksSentence(tabs []stateTab) template.HTML {
	all := tabs[0]
	if i := slices.IndexFunc(tabs, func(t stateTab) bool { return t.Present }); i > 0 { // of what is listed
		if tabs[i].Count == 0 {
			return v.T("No task matches.")
		}
		return v.T("%[2]s tasks match: %[3]s.", tabs[i].Count, v.matching(tabs[i]), v.stateClause(tabs[i]))
	}
	if all.Count == 0 {
		return v.T("No task matches.")
	}
	var clauses []string
	for _, t := range tabs[1:] {
		if t.Count > 0 {
			clauses = append(clauses, string(v.stateClause(t)))
		}
	}
	list := template.HTML(v.List(clauses)) //nolint:gosec // made by T
	return v.T("%[2]s tasks match: %[3]s.", all.Count, v.matching(all), list)
}

// stateClause says how many tasks are in a state. The number chooses the form of the text.
func (v *visit) stateClause(t stateTab) template.HTML {
	n, text := t.Count, v.matching(t)
	switch task.State(t.Name) {
	case task.Scheduled:
		return v.T("%[2]s are scheduled", n, text)
	case task.Queued:
		return v.T("%[2]s are queued", n, text)
	case task.Running:
		return v.T("%[2]s run", n, text)
	case task.Succeeded:
		return v.T("%s succeeded", text)
	case task.Failed:
		return v.T("%s failed", text)
	}
	return v.T("%[2]s were cancelled", n, text)
}

// OfCause is the list of tasks that failed for a cause; of one queue, or of all if queue is "".
func (v *visit) OfCause(cause control.Failure, queue string) string {
	query := url.Values{"state": {"failed"}, "error": {cause.Text}, "namespace": {cause.Namespace}}
	if queue != "" {
		query.Set("queue", queue)
	}
	return "/tasks?" + query.Encode()
}
