package queue

import "strings"

// defaultPrefix is the prefix under which queues have the same name in asynq as in DTS.
const defaultPrefix = "dts"

// names turns DTS's names of queues into asynq's and back. asynq's keys know no prefix, so an installation with one
// of its own has queues of its own, "<prefix>.<queue>": two installations on one Redis would else take each other's
// deliveries.
type names string // the prefix

// asynq is asynq's name of a queue.
func (n names) asynq(queue string) string {
	if n == "" || n == defaultPrefix {
		return queue
	}
	return string(n) + "." + queue
}

// queue is DTS's name of one of asynq's queues, and whether it belongs to this installation.
func (n names) queue(asynq string) (string, bool) {
	if n == "" || n == defaultPrefix {
		return asynq, true
	}
	return strings.CutPrefix(asynq, string(n)+".")
}
