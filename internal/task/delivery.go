package task

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Delivery is one attempt on its way to a worker.
type Delivery struct {
	Ref     Ref
	Attempt int
	Type    string
	Queue   string
	Timeout time.Duration // of the attempt
	DueAt   time.Time
}

// String is "namespace:id:attempt": the delivery's name, and its id in asynq.
func (d Delivery) String() string { return d.Ref.String() + ":" + strconv.Itoa(d.Attempt) }

// ParseRef reads "namespace:id".
func ParseRef(s string) (Ref, error) {
	namespace, id, ok := strings.Cut(s, ":")
	if !ok || namespace == "" || id == "" || strings.Contains(id, ":") {
		return Ref{}, fmt.Errorf("%q does not name a task", s)
	}
	return Ref{Namespace: namespace, ID: id}, nil
}

// ParseDelivery reads "namespace:id:attempt".
func ParseDelivery(s string) (Ref, int, error) {
	i := max(strings.LastIndexByte(s, ':'), 0)
	ref, err := ParseRef(s[:i])
	if err != nil {
		return Ref{}, 0, fmt.Errorf("%q does not name a delivery", s)
	}
	attempt, err := strconv.Atoi(s[i+1:])
	if err != nil || attempt < 1 {
		return Ref{}, 0, fmt.Errorf("%q does not name a delivery", s)
	}
	return ref, attempt, nil
}
