package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

const (
	lossesGather = 3 * time.Second // from the first lost attempt until the log names all that were lost meanwhile
	lossesNamed  = 10              // tasks that a line of the log names; it counts the others
)

// losses gathers the attempts that this node has ended as lost in all its partitions, so that the log has one line
// for each node that ran them.
type losses struct {
	wake chan struct{} // signalled when something was lost

	mu    sync.Mutex
	nodes map[string]*lossesOf
}

// lossesOf are those of one node.
type lossesOf struct {
	tasks    names // that lost an attempt with it
	repeated names // those whose earlier node died as well
}

// names are the first lossesNamed names of a list.
type names struct {
	count int
	list  []string
}

func (n *names) add(name string) {
	if n.count++; n.count <= lossesNamed {
		n.list = append(n.list, name)
	}
}

func newLosses() *losses {
	return &losses{wake: make(chan struct{}, 1), nodes: map[string]*lossesOf{}}
}

// add notes that an attempt was lost with a node, and which nodes died in a row, if that is known.
func (l *losses) add(node string, ref task.Ref, deaths task.Deaths) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.nodes[node]
	if of == nil {
		of = &lossesOf{}
		l.nodes[node] = of
	}
	of.tasks.add(ref.String())
	if deaths.Repeated() {
		of.repeated.add(fmt.Sprintf("%s (%s)", ref, strings.Join(deaths.Nodes, ", ")))
	}
	signal(l.wake)
}

// take returns what was gathered, and begins anew.
func (l *losses) take() map[string]*lossesOf {
	l.mu.Lock()
	defer l.mu.Unlock()
	gathered := l.nodes
	l.nodes = map[string]*lossesOf{}
	return gathered
}

// tellLosses logs what was lost, until ctx ends.
func (s *Scheduler) tellLosses(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-s.losses.wake:
		case <-ctx.Done():
		}
		_ = clock.Sleep(ctx, lossesGather)
		gathered := s.losses.take()
		for _, node := range slices.Sorted(maps.Keys(gathered)) {
			s.logLosses(node, gathered[node])
		}
	}
	return nil
}

// logLosses logs what was lost with a node.
func (s *Scheduler) logLosses(node string, of *lossesOf) {
	s.o.Log.Warn("attempts were lost: their node has died or was cut off", "ran_on", node,
		"count", of.tasks.count, "tasks", of.tasks.list)
	if of.repeated.count > 0 {
		s.o.Log.Warn("tasks were running on several nodes in a row that died", "ran_on", node,
			"count", of.repeated.count, "tasks", of.repeated.list)
	}
}
