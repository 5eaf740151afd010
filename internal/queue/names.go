package queue

import "strings"

// defaultPrefix is the prefix with which queues have the same name in asynq as in DTS.
const defaultPrefix = "dts"

// names converts DTS's names of queues to asynq's and back. Its value is the prefix of the installation. The keys of
// asynq have no prefix, so an installation with another prefix than the default names its queues
// "<prefix>.<queue>" in asynq. Otherwise two installations on one Redis would take each other's deliveries.
type names string

// areAsynqs reports whether queues have the same name in asynq as in DTS.
func (n names) areAsynqs() bool { return n == "" || n == defaultPrefix }

// asynq returns asynq's name of a queue.
func (n names) asynq(queue string) string {
	if n.areAsynqs() {
		return queue
	}
	return string(n) + "." + queue
}

// queue returns DTS's name of an asynq queue, and whether the queue belongs to this installation, as far as the name tells.
func (n names) queue(asynqName string) (string, bool) {
	if n.areAsynqs() {
		return asynqName, true
	}
	return strings.CutPrefix(asynqName, string(n)+".")
}
