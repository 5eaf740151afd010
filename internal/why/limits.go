package why

import (
	"fmt"
	"slices"
	"strconv"
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
	By      string     // who paused it, "" if that is not known
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
			until := "somebody resumes it"
			if l.Rule.Paused.Before(limit.UntilResumed) {
				until = moment(l.Rule.Paused)
			}
			r.Detail = fmt.Sprintf("The limit %s is paused%s until %s.", l.of(), l.why(), until)
			r.Do = fmt.Sprintf("Wait, or resume it: dtsctl limit resume '%s'.", l.Of)
		case l.Rule.IsTooDear(cost):
			r.Detail, r.Do = l.tooDear(f.Task.Ref, cost)
		case cost > 1 && l.Rule.Slots > 0 && l.Held+cost > l.Rule.Slots:
			r.Detail = fmt.Sprintf("The task needs %d slots of the limit %s, which has %d, and %d of them are in use%s.",
				cost, l.of(), l.Rule.Slots, l.Held, l.holders(f.Task.Ref))
			r.Do = "Wait until enough are free, or raise it: " + l.raise("slots", "N")
		case l.Rule.Slots > 0 && l.Held >= l.Rule.Slots:
			r.Detail, r.Do = l.full(f.Task.Ref)
		case cost > 1 && l.Token.After(f.Now):
			r.Detail = fmt.Sprintf("The limit %s gives %s in %s, and this task needs %d: they are there at %s.",
				l.of(), counted(l.Rule.Rate, "token"), task.FormatDuration(l.Rule.Per), cost, moment(l.Token))
			r.Do = "Wait, or raise it: " + l.raise("rate", "N")
		case l.Token.After(f.Now):
			r.Detail = fmt.Sprintf("The limit %s lets %s of its tasks start: the next one may at %s.",
				l.of(), limit.Rule{Rate: l.Rule.Rate, Per: l.Rule.Per}, moment(l.Token))
			r.Do = "Wait, or raise it: " + l.raise("rate", "N")
		default:
			continue
		}
		all = append(all, r)
	}
	return all
}

// full says that each slot is in use. A limit that was lowered has fewer slots than are in use.
func (l Limit) full(of task.Ref) (detail, do string) {
	over := l.Held - l.Rule.Slots
	do = "Wait for one of them, or raise it: " + l.raise("slots", "N")
	switch {
	case over > 0:
		detail = fmt.Sprintf("The limit %s has %s, and %d are in use%s.", l.of(),
			counted(l.Rule.Slots, "slot"), l.Held, l.holders(of))
		do = fmt.Sprintf("Wait until %d of the %d are free again, or raise it: %s", over+1, l.Held, l.raise("slots", "N"))
	case l.Rule.Slots == 1:
		detail = fmt.Sprintf("The only slot of the limit %s is in use%s.", l.of(),
			strings.Replace(l.holders(of), "such as", "by", 1))
		do = "Wait until it is free, or raise it: " + l.raise("slots", "N")
	default:
		detail = fmt.Sprintf("Each of the %d slots of the limit %s is in use%s.", l.Rule.Slots, l.of(), l.holders(of))
	}
	return detail, do
}

// counted is "1 slot" or "5 slots".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// tooDear says that a task of that cost can never start, and what would be right.
func (l Limit) tooDear(ref task.Ref, cost int) (detail, do string) {
	flag, most := "slots", l.Rule.Slots
	has := counted(most, "slot")
	if most == 0 || cost <= most {
		flag, most = "burst", l.Rule.Tokens()
		has = counted(most, "token") + " at most"
	}
	detail = fmt.Sprintf("The task has the cost %d, and the limit %s has %s: it can never start.", cost, l.of(), has)
	do = fmt.Sprintf("Change the task: %s task change %s --cost %d. Or raise the limit: %s",
		ctl(ref), ref.ID, most, l.raise(flag, strconv.Itoa(cost)))
	return detail, do
}

// raise is the command that gives a limit another number, and keeps what else it allows. Of a limit with "*" it raises
// that of the task alone.
func (l Limit) raise(flag, to string) string {
	command := fmt.Sprintf("dtsctl limit set '%s'", l.Name)
	for _, part := range []struct {
		flag string
		n    int
	}{{"slots", l.Rule.Slots}, {"rate", l.Rule.Rate}, {"burst", l.Rule.Burst}} {
		switch {
		case part.flag == flag:
			command += fmt.Sprintf(" --%s %s", flag, to)
		case part.n > 0:
			command += fmt.Sprintf(" --%s %d", part.flag, part.n)
		}
		if part.flag == "rate" && l.Rule.Per > 0 {
			command += " --per " + task.FormatDuration(l.Rule.Per)
		}
	}
	return command + "."
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
