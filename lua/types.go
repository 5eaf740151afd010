package lua

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/lua/contract"
)

// TypesText returns the types of tasks that a worker runs as scripts take them: each of them between blanks; "" for
// none, which means all.
func TypesText(types []string) string {
	if len(types) == 0 {
		return ""
	}
	return " " + strings.Join(types, " ") + " "
}

// Lane is where tasks of a queue wait that have something in common. Its name is that of the queue if that is all.
// Neither a queue's name nor any other part has a blank.
type Lane struct {
	Queue  string
	Type   string // "" for the tasks of all types
	Key    string // the fair key, "" for none
	Weight int    // of that; 0 without one
	Limits string // with commas between them, "" for none
	Reach  string // where its tasks may run, as package route writes it; "" for any node
}

// Name returns the name of the lane.
func (l Lane) Name() string {
	name := l.Queue
	if l.Key == "" && l.Limits == "" && l.Reach == "" {
		return LaneName(l.Queue, l.Type)
	}
	name += " " + cmp.Or(l.Type, noPart) + " " + cmp.Or(l.Key, noPart) + " " + strconv.Itoa(max(l.Weight, 1))
	if l.Limits != "" || l.Reach != "" {
		name += " " + cmp.Or(l.Limits, noPart)
	}
	if l.Reach != "" {
		name += " " + l.Reach
	}
	return name
}

// ParseLane reads the name of a lane.
func ParseLane(name string) Lane {
	words := strings.Split(name, " ")
	l := Lane{Queue: words[0], Type: "", Key: "", Weight: 0, Limits: "", Reach: ""}
	for i, part := range map[int]*string{laneType: &l.Type, laneKey: &l.Key, laneLimits: &l.Limits, laneReach: &l.Reach} {
		if i < len(words) && words[i] != noPart {
			*part = words[i]
		}
	}
	if l.Key != "" && len(words) > laneKey+1 {
		l.Weight, _ = strconv.Atoi(words[laneKey+1])
	}
	return l
}

// noPart stands for a part of the name of a lane that does not matter. The others are the places of parts.
const (
	noPart     = "*"
	laneType   = 1
	laneKey    = 2
	laneLimits = 4
	laneReach  = 5
)

// LaneName returns the name of the lane of a type in a queue; or, if the type is "", that of the queue.
func LaneName(queue, taskType string) string {
	if taskType == "" {
		return queue
	}
	return queue + " " + taskType
}

// SplitLane returns the queue and the type of a lane; the type is "" if tasks of all types wait there.
func SplitLane(name string) (queue, taskType string) {
	l := ParseLane(name)
	return l.Queue, l.Type
}

// Unnamed is the name of the set of tasks that nobody serves and that have got no name of their own. It is neither the
// name of a queue nor of a lane.
const Unnamed = contract.Unnamed

// FirstUnnamed has a claim look at these tasks from the first one on.
const FirstUnnamed = "0 "

// AllTypes stands for all types in ServedText.
const AllTypes = "*"

// Offer is queues, and the types of tasks that the same workers run in each of them: AllTypes, or at least one.
type Offer struct{ Queues, Types []string }

// ServedText returns what workers offer, as served.lua reads it. Offers of the same queues, or of the same types,
// share a line, so the text is never longer than those of single offers together. It is never "", which stands for
// what is not known.
func ServedText(offers []Offer) string {
	types := make(map[string][]string, len(offers)) // by queues
	for _, o := range offers {
		queues := joined(o.Queues, ",")
		types[queues] = append(types[queues], o.Types...)
	}
	queues := make(map[string][]string, len(types)) // by types
	for some, of := range types {
		line := joined(of, " ")
		if slices.Contains(of, AllTypes) {
			line = AllTypes
		}
		queues[line] = append(queues[line], strings.Split(some, ",")...)
	}
	var text strings.Builder
	for _, line := range slices.Sorted(maps.Keys(queues)) {
		text.WriteString("," + joined(queues[line], ",") + ", " + line + " \n")
	}
	return cmp.Or(text.String(), "\n")
}

// ClosedText returns names of queues and lanes as closed.lua reads them.
func ClosedText(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "\n" + strings.Join(names, "\n") + "\n"
}

// joined returns names in order, each once.
func joined(names []string, separator string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), separator)
}
