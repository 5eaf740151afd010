package task

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Delivery carries one attempt from the leader to a worker, through asynq.
type Delivery struct {
	Ref     Ref
	Attempt int
	Type    string
	Queue   string
	Timeout time.Duration // of the attempt, in whole ms
	DueAt   time.Time
	// FairKey and FairWeight are those of the task: "" and 0 if it has no key.
	FairKey    string
	FairWeight int
	LimitKey   string // of the task, as in its definition
	Cost       int    // of the task, as in its definition
	Reach      string // of the task, as in its definition
	Node       string // the only one that may take it; "" if all that serve the queue may
	// ClaimedAt is when the task was claimed for the attempt. It tells the deliveries of one id apart: a task that was taken
	// back, as to be changed, is claimed for the same attempt again, and a later task may have the same id.
	ClaimedAt time.Time
	Trace     string // of the task, as in its definition
}

// nodeMark stands between the name of a queue and a node. It is in neither of both.
const nodeMark = "@"

// NodeQueue returns the name of the queue in which deliveries of a queue wait for one node; the queue itself for "".
func NodeQueue(queue, node string) string {
	if node == "" {
		return queue
	}
	return queue + nodeMark + node
}

// SplitNodeQueue returns the queue and the node of a name that NodeQueue returned. The node is "" for that of a queue
// that all nodes share.
func SplitNodeQueue(name string) (queue, node string) {
	queue, node, _ = strings.Cut(name, nodeMark)
	return queue, node
}

// Via returns the name of the queue in which the delivery waits.
func (d Delivery) Via() string { return NodeQueue(d.Queue, d.Node) }

// String returns "namespace:id:attempt": the id of the delivery in asynq.
func (d Delivery) String() string { return d.Ref.String() + ":" + strconv.Itoa(d.Attempt) }

// ParseRef parses "namespace:id".
func ParseRef(s string) (Ref, error) {
	namespace, id, ok := strings.Cut(s, ":")
	if !ok || namespace == "" || id == "" || strings.Contains(id, ":") {
		return Ref{}, fmt.Errorf("%q is not the name of a task; want namespace:id", s)
	}
	return Ref{Namespace: namespace, ID: id}, nil
}

// ParseDelivery parses "namespace:id:attempt" and returns the task and the number of the attempt, which is at least 1.
func ParseDelivery(s string) (Ref, int, error) {
	i := max(strings.LastIndexByte(s, ':'), 0)
	ref, err := ParseRef(s[:i])
	if err != nil {
		return Ref{}, 0, fmt.Errorf("%q is not the id of a delivery; want namespace:id:attempt", s)
	}
	attempt, err := strconv.Atoi(s[i+1:])
	if err != nil || attempt < 1 {
		return Ref{}, 0, fmt.Errorf("%q is not the id of a delivery; want namespace:id:attempt", s)
	}
	return ref, attempt, nil
}
