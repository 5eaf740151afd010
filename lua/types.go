package lua

import "strings"

// TypesText returns the types of tasks that a worker runs as scripts take them: each of them between blanks; "" for none, which means
// all.
func TypesText(types []string) string {
	if len(types) == 0 {
		return ""
	}
	return " " + strings.Join(types, " ") + " "
}

// LaneName returns the name of a lane: where tasks of a queue wait that have one type, apart from the others of the queue. Neither a
// queue's name nor a type has a blank.
func LaneName(queue, taskType string) string { return queue + " " + taskType }

// SplitLane returns the queue and the type of a lane; the type is "" if the name is that of a queue.
func SplitLane(name string) (queue, taskType string) {
	queue, taskType, _ = strings.Cut(name, " ")
	return queue, taskType
}
