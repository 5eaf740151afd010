package control

import "github.com/dts-sched/dts/internal/task"

// EveryNamespace as a Caller's namespace means all of them. Only use cases that say so accept it.
const EveryNamespace = "*"

// Caller says who asks, and in which namespace. It is resolved once for each request, by the edge that took it.
type Caller struct {
	// Namespace is the one in which the ids of the request are looked up. It is never empty.
	Namespace string
	// Address is the IP address from which the request came over HTTP; else "".
	Address string
	// Name says who asks, at most CallerLimit bytes; "" if nobody said.
	Name string
	// Verified says that a login proved the name. Else it is the caller's own word.
	Verified bool
	// Request is the id of the request, as logs have it; "" for none.
	Request string
	// Key is the same if a request is sent again; "" for none. Runs of schedules by hand, and bulk actions, go by it.
	Key string
	// Traceparent is that of the request, for the span of a submission; "" for none.
	Traceparent string

	arrived bool // Arrive let in a request of this caller
}

// CallerLimit is the length in bytes of a caller's name.
const CallerLimit = 100

// By says who the caller is, for those who ask later who did something; "" if nothing is known.
func (who Caller) By() string {
	switch {
	case who.Name != "" && who.Verified:
		return who.Name
	case who.Name != "":
		return who.Name + " (not verified)"
	case who.Address != "":
		return "somebody at " + who.Address
	}
	return ""
}

// Ref is the task or schedule that the caller means by an id.
func (who Caller) Ref(id string) task.Ref { return task.Ref{Namespace: who.Namespace, ID: id} }

// Covers says whether a namespace is the one that the caller means, or one of all that the caller means.
func (who Caller) Covers(namespace string) bool {
	return who.Namespace == namespace || who.Namespace == EveryNamespace
}
