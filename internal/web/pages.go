package web

import (
	"cmp"
	"context"
	"net/url"
	"strings"
)

// page is a page: what it reads, and how that is shown.
type page struct {
	name    string   // of its template
	path    string   // of Echo
	example string   // the address that tests open, in an installation that they make; "" for path
	nav     string   // the name of the page to whose link of the bar it belongs
	bar     *barLink // its own link of the bar; nil for none
	// read returns the data of the page, and its title.
	read func(ctx context.Context, v *visit) (data any, title string, err error)
	// bare returns the data of the page, and its title, without Redis, which does not answer: a new form, or the one that
	// was sent. No data: that form begins with what is in Redis. nil: the page of the error has the fields.
	bare func(v *visit) (data any, title string)
	// trips is how many calls to Redis it may make one after the other. Calls that it makes at the same time count as
	// one. A test measures it, unless the page is costly.
	trips int
	// whole: fail if anything cannot be read. For pages that preview a change. Others leave it out, and say so.
	whole bool
	live  []string // the templates of the parts that are sent again when they have changed, beside those of the layout
	asks  []string // the parameters by which these parts differ, beside namespace
	// chooses says that what the page shows is of the namespace that the reader chooses.
	chooses bool
	costly  bool // it takes seconds to make: pages of other origins may not even link to it
}

// barLink is the link of a page in the bar.
type barLink struct {
	text  string
	key   string   // that opens the page
	needs []string // the kinds of things that it counts, if they need somebody
}

// pages are all pages. The bar has its links in this order.
var pages = []*page{
	{
		name: "overview", path: "/", nav: "overview",
		bar:  &barLink{text: "Overview", key: "o"},
		read: readOverview, trips: 3, chooses: true,
		live: []string{"health", "meters", "next", "causes", "longest", "queues"},
	},
	{
		name: "schedules", path: "/schedules", nav: "schedules",
		bar:  &barLink{text: "Schedules", key: "s", needs: []string{"schedule"}},
		read: readSchedules, trips: 3, chooses: true, live: []string{"unwell", "rows"},
		asks: []string{"is", "prefix", "label", "owner", "cursor"},
	},
	{
		name: "schedule", path: "/schedules/:namespace/:id", example: "/schedules/default/hourly", nav: "schedules",
		read: readSchedule, trips: 2, live: []string{"acts", "verdict", "tape", "days", "ledger", "coming", "runs"},
		asks: []string{"gaps", "day", "cursor"},
	},
	{
		name: "schedule", path: "/schedules/:namespace/:id/audit", example: "/schedules/default/hourly/audit",
		nav: "schedules", read: readSchedule, costly: true,
	},
	{
		name: "schedule_edit", path: "/schedules/new", nav: "schedules", read: readScheduleEdit, bare: bareScheduleEdit,
		whole: true,
	},
	{
		name: "schedule_edit", path: "/schedules/:namespace/:id/edit", example: "/schedules/default/hourly/edit",
		nav: "schedules", read: readScheduleEdit, bare: bareScheduleEdit, trips: 2, whole: true,
	},
	{
		name: "schedule_change", path: "/schedules/:namespace/:id/:do", example: "/schedules/default/hourly/pause",
		nav: "schedules", read: readScheduleChange, trips: 2, whole: true,
	},
	{
		name: "tasks", path: "/tasks", nav: "tasks",
		bar:  &barLink{text: "Tasks", key: "t"},
		read: readTasks, trips: 3, chooses: true, live: []string{"sentence", "states", "offers", "rows"},
		asks: []string{
			"state", "queue", "type", "schedule", "owner", "node", "label", "since", "until", "error", "cursor",
		},
	},
	{
		name: "runs", path: "/runs", nav: "runs",
		bar:  &barLink{text: "Workflows", key: "w"},
		read: readRuns, trips: 4, chooses: true, live: []string{"sentence", "states", "rows"},
		asks: []string{"state", "workflow", "label", "owner", "since", "until", "cursor"},
	},
	{
		name: "run", path: runPath, example: "/runs/default/flow", nav: "runs",
		read: readRun, trips: 4, live: []string{"can", "verdict", "graph", "steps", "signals", "facts", "output"},
		asks: []string{"state", "step", "like", "cursor", "answer"},
	},
	{
		name: "workflows", path: "/workflows", nav: "runs",
		read: readWorkflows, trips: 4, chooses: true, live: []string{"rows"}, asks: []string{"prefix", "cursor"},
	},
	{
		name: "workflow_edit", path: newWorkflowPath, nav: "runs", read: readWorkflowEdit, bare: bareWorkflowEdit,
		whole: true,
	},
	{
		name: "workflow_edit", path: "/workflows/:namespace/:id/edit", example: "/workflows/default/etl/edit", nav: "runs",
		read: readWorkflowEdit, bare: bareWorkflowEdit, trips: 1, whole: true,
	},
	{
		name: "workflow", path: "/workflows/:namespace/:id", example: "/workflows/default/etl", nav: "runs",
		read: readWorkflow, trips: 4, live: []string{"acts", "verdict", "runs"},
	},
	{
		name: "workflow_start", path: "/workflows/:namespace/:id/run", example: "/workflows/default/etl/run", nav: "runs",
		read: readWorkflowStart, trips: 1, whole: true,
	},
	{
		name: "workflow_change", path: "/workflows/:namespace/:id/:do", example: "/workflows/default/etl/pause",
		nav: "runs", read: readWorkflowChange, trips: 2, whole: true,
	},
	{name: "find", path: "/find", example: "/find?q=nobody", read: readFind, trips: 2},
	{
		name: "task", path: taskPath, example: "/tasks/default/runs", nav: "tasks",
		read: readTask, trips: 2, live: []string{"can", "verdict", "attempts", "log", "result"},
	},
	{
		name: "bulks", path: "/bulk", nav: "tasks",
		read: readBulks, trips: 1, chooses: true, live: []string{"sentence", "rows"},
	},
	{
		name: "bulk", path: "/bulk/:id", example: "/bulk/moving", nav: "tasks",
		read: readBulk, trips: 1, live: []string{"can", "progress"},
	},
	{
		name: "bulk_ask", path: "/bulk/new/:do", example: "/bulk/new/retry", nav: "tasks",
		read: readBulkAsk, trips: 4, whole: true,
	},
	{name: "submit", path: "/submit", nav: "tasks", read: readSubmit, bare: bareSubmit},
	{
		name: "queues", path: "/queues", nav: "queues",
		bar:  &barLink{text: "Queues", key: "q", needs: []string{"queue"}},
		read: readQueues, trips: 2, live: []string{"sentence", "rows"}, asks: []string{"name"},
	},
	{
		name: "queue", path: queuePath, example: "/queues/default", nav: "queues",
		read: readQueue, trips: 3, live: []string{"can", "verdict", "meters", "causes"},
	},
	{
		name: "limits", path: limitsPath, nav: "limits",
		bar:  &barLink{text: "Limits", key: "l"},
		read: readLimits, trips: 3, live: []string{"sentence", "rows"}, asks: []string{"name"},
	},
	{name: "limit_new", path: "/limits/new", nav: "limits", read: readLimitNew, bare: bareLimitNew},
	{
		name: "limit", path: limitPath, example: "/limits/key:*", nav: "limits",
		read: readLimit, trips: 3, live: []string{"can", "verdict", "meters", "uses"},
	},
	{
		name: "nodes", path: "/nodes", nav: "nodes",
		bar:  &barLink{text: "Nodes", key: "n", needs: []string{"node", "partition", "redis"}},
		read: readNodes, live: []string{"sentence", "meters", "rows"},
	},
	{
		name: "forecast", path: "/forecast", nav: "forecast",
		bar:  &barLink{text: "Forecast", key: "f"},
		read: readForecast, chooses: true, costly: true,
	},
	{name: "doctor", path: "/doctor", nav: "nodes", read: readDoctor, whole: true},
	{name: "doctor", path: "/doctor/run", nav: "nodes", read: readDoctor, whole: true, costly: true},
}

// has reports whether a path is one of the page.
func (p *page) has(path string) bool {
	pattern, parts := strings.Split(p.path, "/"), strings.Split(path, "/")
	if len(pattern) != len(parts) {
		return false
	}
	for i, part := range parts {
		if pattern[i] != part && (part == "" || !strings.HasPrefix(pattern[i], ":")) {
			return false
		}
	}
	return true
}

// paramsIn are the parts of a path of the page that differ, by their names.
func (p *page) paramsIn(path string) map[string]string {
	params, parts := map[string]string{}, strings.Split(path, "/")
	for i, part := range strings.Split(p.path, "/") {
		if name, isParam := strings.CutPrefix(part, ":"); isParam {
			params[name], _ = url.PathUnescape(parts[i]) // which was made by escaping
		}
	}
	return params
}

// pageRows is how many rows a list has.
const pageRows = 50

// address is the one that tests open.
func (p *page) address() string { return cmp.Or(p.example, p.path) }

// Examples returns the addresses that tests open, of all pages by their paths of Echo.
func Examples() map[string]string {
	examples := make(map[string]string, len(pages))
	for _, p := range pages {
		examples[p.path] = p.address()
	}
	return examples
}
