package lua

import (
	"cmp"
	"maps"
	"slices"
	"strings"
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
// queue. Neither a queue's name nor a type has a blank.
func LaneName(queue, taskType string) string { return queue + " " + taskType }

// SplitLane returns the queue and the type of a lane; the type is "" if the name is that of a queue.
func SplitLane(name string) (queue, taskType string) {
	queue, taskType, _ = strings.Cut(name, " ")
	return queue, taskType
}

// AllTypes stands for all types in ServedText.
const AllTypes = "*"

// ServedText returns which types, at least one, the workers of each queue run, as served.lua reads it: queues with the
// same types share a line. It is never "", which stands for what is not known.
func ServedText(types map[string][]string) string {
	queues := make(map[string][]string) // by their types
	for queue, some := range types {
		line := strings.Join(some, " ")
		queues[line] = append(queues[line], queue)
	}
	var text strings.Builder
	for _, line := range slices.Sorted(maps.Keys(queues)) {
		names := queues[line]
		slices.Sort(names)
		text.WriteString("," + strings.Join(names, ",") + ", " + line + " \n")
	}
	return cmp.Or(text.String(), "\n")
}
