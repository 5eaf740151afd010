package usage

import (
	"iter"
	"strings"

	"github.com/dts-sched/dts/internal/task"
)

// entry is a sampled entry of a hash of tasks.
type entry struct {
	name  string // of the task: namespace:id
	bytes float64
	ended bool
}

// tally sums up what is measured and extrapolated.
type tally struct {
	kinds  map[Kind]float64
	owners map[string]*owner    // by namespace; "" for what belongs to none, or nobody knows to which
	runs   map[task.Ref]float64 // what the tasks of a schedule take
}

// owner is what belongs to a namespace.
type owner struct{ tasks, taskBytes, schedules, scheduleBytes float64 }

func newTally() tally {
	return tally{make(map[Kind]float64), make(map[string]*owner), make(map[task.Ref]float64)}
}

// of returns what belongs to the namespace of a name.
func (t tally) of(name string) *owner {
	namespace, _, _ := strings.Cut(name, ":")
	if task.ValidateName("namespace", namespace) != nil {
		namespace = "" // its namespace cannot be read
	}
	if t.owners[namespace] == nil {
		t.owners[namespace] = &owner{}
	}
	return t.owners[namespace]
}

// addTask counts bytes of a kind for the task of that name.
func (t tally) addTask(kind Kind, name string, bytes float64) {
	t.kinds[kind] += bytes
	t.of(name).taskBytes += bytes
	if ref, err := task.ParseRef(name); err == nil && ref.Root() != ref.ID {
		if s := (task.Ref{Namespace: ref.Namespace, ID: ref.Root()}); isSchedule(s) {
			t.runs[s] += bytes
		}
	}
}

// addSchedule counts bytes of a kind for the schedule of that name.
func (t tally) addSchedule(kind Kind, name string, bytes float64) {
	t.kinds[kind] += bytes
	t.of(name).scheduleBytes += bytes
}

// share divides the bytes of a key among the tasks of a sample of it, by size. kind tells to which kind a task's part
// belongs. Without a sample, all bytes are those of a task of no namespace that has not ended.
func (t tally) share(bytes float64, sample []entry, kind func(ended bool) Kind) {
	var total float64
	for _, e := range sample {
		total += e.bytes
	}
	if total == 0 {
		t.kinds[kind(false)] += bytes
		return
	}
	for _, e := range sample {
		t.addTask(kind(e.ended), e.name, bytes*e.bytes/total)
	}
}

// count divides the number of tasks of a partition among the namespaces of a sample.
func (t tally) count(tasks float64, sample []entry) {
	for _, e := range sample {
		t.of(e.name).tasks += tasks / float64(len(sample))
	}
}

// balanced corrects the weights in a sample: ended is the true share of the tasks that have ended, and the share in the
// sample is somewhat off.
func balanced(sample []entry, ended float64) []entry {
	var sampled float64
	for _, e := range sample {
		if e.ended {
			sampled++
		}
	}
	found := sampled / float64(len(sample))
	if found == 0 || found == 1 || ended < 0 || ended > 1 {
		return sample
	}
	out := make([]entry, len(sample))
	for i, e := range sample {
		factor := (1 - ended) / (1 - found)
		if e.ended {
			factor = ended / found
		}
		out[i] = entry{e.name, e.bytes * factor, e.ended}
	}
	return out
}

// evenly returns the entries of a sample that have ended, or those that have not, all with the same size: as in sets.
func evenly(sample []entry, ended bool) []entry {
	var out []entry
	for _, e := range sample {
		if e.ended == ended {
			out = append(out, entry{e.name, 1, ended})
		}
	}
	return out
}

// allot divides a number of samples among keys in proportion to how many entries they have, at least one to each.
func allot(samples int64, sizes []int64) []int64 {
	var total int64
	for _, n := range sizes {
		total += n
	}
	out := make([]int64, len(sizes))
	for i, n := range sizes {
		if n > 0 {
			out[i] = min(n, samples*n/total+1)
		}
	}
	return out
}

// sum adds numbers.
func sum(all iter.Seq[float64]) float64 {
	var total float64
	for n := range all {
		total += n
	}
	return total
}
