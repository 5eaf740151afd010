package rollup

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Cause is why attempts failed, timed out or were lost. Attempts have the same cause if their errors have the same
// shape and their tasks are of the same queue, namespace, schedule and type.
type Cause struct {
	Kind
	Count   int // attempts
	Dead    int // tasks that ended failed with it
	Example Example
	First   time.Time
	Last    time.Time
}

// Kind is what attempts of one cause have in common.
type Kind struct {
	Text      string // the shape of the error
	Queue     string
	Namespace string
	Schedule  string // "" if the tasks belong to none; Rest if they belong to several
	Type      string
}

// Example is the newest attempt of a cause.
type Example struct {
	Task    task.Ref
	Attempt int
}

// plus returns both causes as one of that kind. The example is the newer one.
func (c Cause) plus(other Cause) Cause {
	sum := c
	if !other.Last.Before(c.Last) {
		sum.Last, sum.Example = other.Last, other.Example
	}
	if other.First.Before(c.First) {
		sum.First = other.First
	}
	sum.Count += other.Count
	sum.Dead += other.Dead
	return sum
}

// boundCauses returns at most limit causes, those that occurred most often first. Too many lose their schedules
// first; if they are still too many, those that occurred least often become one.
func boundCauses(causes []Cause, limit int) []Cause {
	causes = unite(causes, false)
	if len(causes) > limit {
		causes = unite(causes, true)
	}
	if len(causes) <= limit {
		return causes
	}
	kept := causes[: limit-1 : limit-1]
	rest := causes[limit-1:]
	for i := range rest {
		rest[i].Kind = Kind{Text: Rest}
	}
	return unite(append(kept, rest...), false)
}

// unite returns causes of the same kind as one, those that occurred most often first. Those that differ by their
// schedules only become one, too, if anySchedule says so: that of Rest.
func unite(causes []Cause, anySchedule bool) []Cause {
	united := make(map[Kind]Cause, len(causes))
	for _, c := range causes {
		key := c.Kind
		if anySchedule {
			key.Schedule = ""
		}
		before, known := united[key]
		if !known {
			united[key] = c
			continue
		}
		sum := before.plus(c)
		if before.Schedule != c.Schedule {
			sum.Schedule = Rest
		}
		united[key] = sum
	}
	return slices.SortedFunc(maps.Values(united), func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.Last.Compare(a.Last), compareKinds(a.Kind, b.Kind))
	})
}

func compareKinds(a, b Kind) int {
	return cmp.Or(cmp.Compare(a.Text, b.Text), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Schedule, b.Schedule), cmp.Compare(a.Type, b.Type))
}

// busiest returns the names of the queues, those in which most happened or waits first, without Rest.
func busiest(queues map[string]Queue) []string {
	weight := func(name string) int { q := queues[name]; return q.Begun + q.Ended() + q.Waiting }
	names := slices.DeleteFunc(slices.Collect(maps.Keys(queues)), func(name string) bool { return name == Rest })
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(weight(b), weight(a)), cmp.Compare(a, b))
	})
	return names
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
