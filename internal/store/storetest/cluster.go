package storetest

import (
	"fmt"
	"testing"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/task"
)

// Clustered is a World on a cluster.
type Clustered struct {
	*World
	Cluster *redistest.Cluster
}

// InCluster returns a World on a cluster of its own, in which no replica takes over from a server that is silent.
func InCluster(t testing.TB) *Clustered {
	t.Helper()
	c := redistest.StartCluster(t, redistest.NoFailover())
	return &Clustered{On(t, redistest.Open(t, c.URL())), c}
}

// ServerOf returns the server that has the data of a task.
func (w *Clustered) ServerOf(ref task.Ref) *redistest.Server {
	w.t.Helper()
	return w.Cluster.Primary(string(w.KeysOf(ref).States()))
}

// Elsewhere returns names of n tasks whose data is on other servers than that one.
func (w *Clustered) Elsewhere(than *redistest.Server, n int) []task.Ref {
	w.t.Helper()
	var refs []task.Ref
	for i := 0; len(refs) < n; i++ {
		if ref := (task.Ref{Namespace: task.DefaultNamespace, ID: fmt.Sprint(i)}); w.ServerOf(ref) != than {
			refs = append(refs, ref)
		}
	}
	return refs
}
