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
	cost := max(f.Task.Cost, 1)
	for _, l := range f.Limits {
		r := Reason{Code: Limited, Since: f.Task.DueAt, Ahead: f.Ahead}
		switch {
		case l.Rule.Paused.After(f.Now):
			r.Detail = fmt.Sprintf("The limit %s is paused until %s%s.", l.of(), moment(l.Rule.Paused), l.why())
			r.Do = fmt.Sprintf("Wait, or resume it: dtsctl limit resume '%s'.", l.Of)
		case l.Rule.IsTooDear(cost):
			r.Detail, r.Do = l.tooDear(cost)
		case cost > 1 && l.Rule.Slots > 0 && l.Held+cost > l.Rule.Slots:
			r.Detail = fmt.Sprintf("The task needs %d slots of the limit %s, which has %d, and %d of them are in use%s.",
				cost, l.of(), l.Rule.Slots, l.Held, l.holders(f.Task.Ref))
			r.Do = fmt.Sprintf("Wait until enough are free, or raise it: dtsctl limit set '%s' --slots N.", l.Of)
		case l.Rule.Slots > 0 && l.Held >= l.Rule.Slots:
			r.Detail = fmt.Sprintf("The limit %s lets %d of its tasks be queued or running at once, and so many are%s.",
				l.of(), l.Rule.Slots, l.holders(f.Task.Ref))
			r.Do = fmt.Sprintf("Wait for one of them, or raise it: dtsctl limit set '%s' --slots N.", l.Of)
		case cost > 1 && l.Token.After(f.Now):
			r.Detail = fmt.Sprintf("The limit %s lets %s of its tasks start, and this one counts as %d: it may start at %s.",
				l.of(), limit.Rule{Rate: l.Rule.Rate, Per: l.Rule.Per}, cost, moment(l.Token))
			r.Do = fmt.Sprintf("Wait, or raise it: dtsctl limit set '%s' --rate N --per 1m.", l.Of)
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

// tooDear says that a task of that cost can never start, and what would be right.
func (l Limit) tooDear(cost int) (detail, do string) {
	has, flag, most := "slots", "slots", l.Rule.Slots
	if most == 0 || cost <= most {
		has, flag, most = "tokens at most", "burst", l.Rule.Tokens()
	}
	detail = fmt.Sprintf("The task has the cost %d, and the limit %s has %d %s: it can never start.",
		cost, l.of(), most, has)
	do = fmt.Sprintf("Raise the limit: dtsctl limit set '%s' --%s %d; "+
		"or change the task: dtsctl task change ID --cost %d.",
		l.Of, flag, cost, most)
	return detail, do
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
