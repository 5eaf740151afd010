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

// limitList is what the list of limits shows.
type limitList struct {
	Sentence template.HTML
	Wrong    string     // why there can be no limits; "" if there can be
	Rows     []limitRow // those that hold tasks up first
	LeftOut  int        // how many more there are
	Searched bool       // the names contain what the reader asked for
}

// limitRow is a limit, and how it is.
type limitRow struct {
	control.LimitInfo
	State    limitState
	Full     []string  // of a name that ends with "*": names whose tasks wait and hold all of their slots
	SlotBars []segment // how many of its slots are held
}

// limitState is how a limit is. Those that hold more up are greater.
type limitState int

const (
	limitIdle   limitState = iota // none of its tasks holds a slot, and none waits
	limitUsed                     // some of its tasks hold slots, or wait
	limitFull                     // its tasks hold all of its slots, or those of one of its names and wait
	limitPaused                   // nothing is handed over
)

// limitRowOf says how a limit is. Of a name that ends with "*", each key has the slots for itself.
func limitRowOf(l control.LimitInfo) limitRow {
	row := limitRow{LimitInfo: l}
	isFull := func(u control.LimitUse) bool { return l.Rule.Slots > 0 && u.Held >= l.Rule.Slots }
	for _, u := range l.Uses {
		if isFull(u) && u.Waiting > 0 {
			row.Full = append(row.Full, u.Name)
		}
	}
	switch {
	case l.Paused:
		row.State = limitPaused
	case len(row.Full) > 0 || isFull(l.LimitUse) && !l.IsWildcard:
		row.State = limitFull
	case l.Held+l.Waiting > 0:
		row.State = limitUsed
	}
	row.SlotBars = meterOf(row.Slots(), amount{"f-run", l.Held})
	return row
}

// Slots is how many tasks of the limit may be queued or running at once, as far as that is known: of a name that ends
// with "*", in all of its names that are in use. 0 for any number.
func (l limitRow) Slots() int {
	if l.IsWildcard {
		return l.Rule.Slots * l.Names
	}
	return l.Rule.Slots
}

// holdsUp reports whether tasks wait for the limit, and surely for no other reason.
func (l limitRow) holdsUp() bool { return l.Waiting > 0 && l.State >= limitFull }

func readLimits(ctx context.Context, v *visit) (any, string, error) {
	title := string(v.T("Limits"))
	infos, err := v.site.Control.ListLimits(ctx, v.who)
	if edge.CodeOf(err) == task.CodeInvalid { // nodes live that do not follow limits
		return limitList{Sentence: v.T("There are no limits."), Wrong: v.wrongIn(err)}, title, nil
	}
	if err != nil {
		return nil, "", err
	}
	rows := make([]limitRow, len(infos))
	for i, info := range infos {
		rows[i] = limitRowOf(info)
	}
	l := limitList{Sentence: v.limitsSentence(rows)}
	slices.SortStableFunc(rows, func(a, b limitRow) int {
		return cmp.Or(cmp.Compare(b.urgency(), a.urgency()), cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Held, a.Held))
	})
	if name := strings.TrimSpace(v.query.Get("name")); name != "" {
		l.Searched = true
		rows = slices.DeleteFunc(rows, func(l limitRow) bool { return !strings.Contains(l.Name, name) })
	}
	l.Rows = rows[:min(len(rows), pageRows)]
	l.LeftOut = len(rows) - len(l.Rows)
	return l, title, nil
}

// urgency orders the rows: limits that hold tasks up, limits that are paused, and all others.
func (l limitRow) urgency() int {
	switch {
	case l.holdsUp():
		return 2
	case l.Paused:
		return 1
	}
	return 0
}

// limitsSentence says whether limits hold tasks up.
func (v *visit) limitsSentence(rows []limitRow) template.HTML {
	if len(rows) == 0 {
		return v.T("There are no limits: any number of tasks may run at once.")
	}
	var names []string
	for _, l := range rows {
		if l.holdsUp() {
			name := code(l.Name)
			if full := v.FullNames(l); full != "" {
				name += " (" + full + ")"
			}
			names = append(names, string(name))
		}
	}
	if len(names) == 0 {
		return sentences([]template.HTML{v.T("No limit is full or paused while its tasks wait.")})
	}
	n := len(names)
	if more := n - namedQueues; more > 0 {
		names = append(names[:namedQueues], string(v.T("and %d more", more)))
	}
	list := template.HTML(v.List(names)) //nolint:gosec // made by code and T
	return sentences([]template.HTML{v.T("%d limits hold tasks up: %s.", n, list)})
}

// FullNames are the first of the names of a limit whose tasks wait and hold all of their slots; "" for none.
func (v *visit) FullNames(l limitRow) template.HTML {
	switch {
	case l.State != limitFull || len(l.Full) == 0:
		return ""
	case len(l.Full) == 1:
		return code(l.Full[0])
	}
	return v.T("%s and others", code(l.Full[0]))
}

// LimitMark is the icon and the colour of a limit.
func (v *visit) LimitMark(l limitRow) mark {
	switch {
	case l.State == limitPaused:
		return mark{"pause", "t-warn"}
	case l.State == limitFull && l.Waiting > 0:
		return mark{"queued", "t-warn"}
	case l.State == limitIdle:
		return mark{"sched", "t-off"}
	}
	return mark{"alive", "t-ok"}
}

// LimitWord is the state of a limit in a word or two.
func (v *visit) LimitWord(l limitRow) template.HTML {
	switch l.State {
	case limitPaused:
		return v.T("paused")
	case limitFull:
		if l.IsWildcard {
			return v.T("full for some names")
		}
		return v.T("full")
	case limitUsed:
		return v.T("in use")
	}
	return v.T("not in use")
}

// RateWords say how many tasks of a limit may be handed over in a time; "" for any number.
func (v *visit) RateWords(l limitRow) template.HTML {
	switch r := l.Rule; {
	case r.Rate == 0:
		return ""
	case r.Per.Hours() == 1:
		return v.T("%d an hour", r.Rate)
	case r.Per.Minutes() == 1:
		return v.T("%d a minute", r.Rate)
	default:
		return v.T("%d a second", r.Rate)
	}
}

// TasksPath is the list of the tasks of a limit, if there is such a list; "" if not: lists know no keys.
func (l limitRow) TasksPath() template.URL {
	kind, of, _ := strings.Cut(l.Name, ":")
	switch {
	case l.Name == "all":
		return "/tasks"
	case kind == "key" || l.IsWildcard:
		return ""
	}
	return template.URL("/tasks?" + url.Values{kind: {of}}.Encode()) //nolint:gosec // it is escaped
}

// WaitingPath is the list of the tasks of a limit that wait, and of those whose time has not come; "" if there is no
// such list, or no task waits.
func (l limitRow) WaitingPath() template.URL {
	path := l.TasksPath()
	switch {
	case l.Waiting == 0 || path == "":
		return ""
	case path == "/tasks":
		return "/tasks?state=scheduled"
	}
	return path + "&state=scheduled"
}
