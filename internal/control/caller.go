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
}

// Ref is the task or schedule that the caller means by an id.
func (who Caller) Ref(id string) task.Ref { return task.Ref{Namespace: who.Namespace, ID: id} }

// Covers says whether a namespace is the one that the caller means, or one of all that the caller means.
func (who Caller) Covers(namespace string) bool {
	return who.Namespace == namespace || who.Namespace == EveryNamespace
}
