package scheduler

import (
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// takenInTurn takes all of n tasks, a few at a time, and returns their ids in order.
func (w *world) takenInTurn(n int) (ids []string) {
	w.t.Helper()
	testkit.Eventually(w.t, "all tasks are taken", func() bool {
		for _, id := range w.takeOf(8) {
			ids = append(ids, strings.TrimPrefix(id, task.DefaultNamespace+":"))
		}
		return len(ids) >= n
	})
	return ids
}

// countOf counts the ids that begin with a name.
func countOf(ids []string, name string) (n int) {
	for _, id := range ids {
		if strings.HasPrefix(id, name) {
			n++
		}
	}
	return n
}

// first is how many tasks leaders hand over before they have seen that tasks wait: 16 of each partition.
const first = 16 * 16

// A customer with many tasks that came first holds up nobody: while all of them wait, they take turns by weight.
func TestDispatch_FairKeysTakeTurns(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newAdvanced(t)
	w.slots = 4
	w.overdueAs(500, "many", task.Definition{FairKey: "many"})
	w.overdueAs(150, "heavy", task.Definition{FairKey: "heavy", FairWeight: 2})
	w.overdueAs(80, "plain", task.Definition{})
	a, b := w.start("a", never), w.start("b", never)
	w.leads(map[*node]int{a: 8, b: 8})
	ids := w.takenInTurn(730)[first:]
	// Until one of them has no more, each has its part, but for what waits in the queue while a leader sees it.
	const together, slack = 200, 2 * 16
	for name, part := range map[string]int{"many": together / 4, "heavy": together / 2, "plain": together / 4} {
		if n := countOf(ids[:together], name); n < part-slack || n > part+slack {
			t.Errorf("of %d, %d are %s, want about %d", together, n, name, part)
		}
	}
}

func TestDispatch_UrgentTasksComeFirst(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newAdvanced(t)
	w.slots = 4
	w.overdueAs(400, "plain", task.Definition{})
	w.overdueAs(50, "urgent", task.Definition{Priority: 9})
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	ids := w.takenInTurn(450)
	if n := countOf(ids[:first+50+16], "urgent"); n != 50 {
		t.Errorf("of the first tasks, %d are urgent, want all 50", n)
	}
}
