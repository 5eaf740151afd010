package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/task"
)

// Limit is what is known of a limit under which a task waits.
type Limit struct {
	Name    string     // as the task has it: "key:tenant-7"
	Of      string     // what was set: it may end with "*"
	Rule    limit.Rule // Paused is by the clock of Redis
	Note    string     // why it is paused, "" if nobody said
	By      string     // who set it, "" if that is not known
	Held    int        // slots that tasks hold
	Holders []task.Ref // some of these tasks
	Token   time.Time  // when a task may start by the rate; zero: now
}

// mostHolders is how many tasks that hold slots are named.
const mostHolders = 3

// limited is what a due task waits for that lacks a slot of a limit, or may not start by its rate.
func (f TaskFacts) limited() (all []Reason) {
	for _, l := range f.Limits {
		r := Reason{Code: Limited, Since: f.Task.DueAt, Ahead: f.Ahead}
		switch {
		case l.Rule.Paused.After(f.Now):
			r.Detail = fmt.Sprintf("The limit %s is paused until %s%s.", l.of(), moment(l.Rule.Paused), l.why())
			r.Do = fmt.Sprintf("Wait, or resume it: dtsctl limit resume '%s'.", l.Of)
		case l.Rule.Slots > 0 && l.Held >= l.Rule.Slots:
			r.Detail = fmt.Sprintf("The limit %s lets %d of its tasks be queued or running at once, and so many are%s.",
				l.of(), l.Rule.Slots, l.holders(f.Task.Ref))
			r.Do = fmt.Sprintf("Wait for one of them, or raise it: dtsctl limit set '%s' --slots N.", l.Of)
		case l.Token.After(f.Now):
			r.Detail = fmt.Sprintf("The limit %s lets %s of its tasks start: the next one may at %s.",
				l.of(), limit.Rule{Rate: l.Rule.Rate, Per: l.Rule.Per}, moment(l.Token))
			r.Do = fmt.Sprintf("Wait, or raise it: dtsctl limit set '%s' --rate N --per 1m.", l.Of)
		default:
			continue
		}
		all = append(all, r)
	}
	return all
}

// of names a limit, and what was set for it.
func (l Limit) of() string {
	if l.Name == l.Of {
		return l.Name
	}
	return fmt.Sprintf("%s (set as %s)", l.Name, l.Of)
}

// why says who has paused a limit, and why.
func (l Limit) why() string {
	text := ""
	if l.By != "" {
		text += " by " + l.By
	}
	if l.Note != "" {
		text += fmt.Sprintf(" (%s)", l.Note)
	}
	return text
}

// holders names some tasks that hold slots.
func (l Limit) holders(of task.Ref) string {
	var names []string
	for _, ref := range l.Holders {
		name := ref.ID
		if ref.Namespace != of.Namespace {
			name += fmt.Sprintf(" in namespace %s", ref.Namespace)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	if len(names) > mostHolders {
		names = append(names[:mostHolders], "others")
	}
	return ", such as " + strings.Join(names, ", ")
}
