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

// LaneName returns the name of a lane: where tasks of a queue wait that have one type, apart from the others of the
// queue; or, if the type is "", that of the queue. Neither a queue's name nor a type has a blank.
func LaneName(queue, taskType string) string {
	if taskType == "" {
		return queue
	}
	return queue + " " + taskType
}

// FairLaneName returns the name of the lane of a fair key: where tasks of a queue, or of one type of it, wait that have
// the key and the weight.
func FairLaneName(queue, taskType, key string, weight int) string {
	return queue + " " + cmp.Or(taskType, AllTypes) + " " + key + " " + strconv.Itoa(weight)
}

// SplitLane returns the queue and the type of a lane; the type is "" if tasks of all types wait there.
func SplitLane(name string) (queue, taskType string) {
	queue, taskType, _ = strings.Cut(name, " ")
	taskType, _, fair := strings.Cut(taskType, " ")
	if fair && taskType == AllTypes {
		taskType = ""
	}
	return queue, taskType
}

// FairOf returns the fair key of a lane, and its weight, from the name: "" and 0 if that has none.
func FairOf(name string) (key string, weight int) {
	words := strings.Split(name, " ")
	if len(words) != fairWords || words[fairWords-2] == "" {
		return "", 0
	}
	weight, _ = strconv.Atoi(words[fairWords-1])
	return words[fairWords-2], weight
}

// fairWords is how many words the name of a lane of a fair key has: the queue, the type, the key and the weight.
const fairWords = 4

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
