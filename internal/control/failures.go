package control

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/rollup"
)

// FailureFilter says which failures somebody wants.
type FailureFilter struct {
	Since    time.Duration // up to now; 0 means ByMinute
	Queue    string        // "" for all
	Schedule string        // "" for all
}

// Failures are the causes of failures, the most frequent first.
type Failures struct {
	From, Until time.Time
	Causes      []Failure
	Untold      int // failures beyond the limits, of which only the number is known; they may be of any namespace
}

// Failure is why attempts failed, timed out or were lost, in one namespace.
type Failure struct {
	Text      string // of the errors, without what differs between them
	Namespace string
	Count     int // attempts
	Dead      int // tasks that ended failed
	Queues    []string
	Schedules []string // rollup.Rest stands for several others
	Types     []string
	Example   rollup.Example
	First     time.Time
	Last      time.Time
}

// ListFailures returns why attempts failed in the caller's namespace, which may be EveryNamespace. Errors: CodeInvalid,
// CodeUnavailable.
func (c *Control) ListFailures(ctx context.Context, who Caller, f FailureFilter) (Failures, error) {
	if _, err := c.begin(ctx, who, "listFailures"); err != nil {
		return Failures{}, err
	}
	kept, err := c.kept(ctx, f.Since)
	if err != nil {
		return Failures{}, err
	}
	return kept.failures(who, f), nil
}

// failures are the causes of failures in the namespace of a caller.
func (k kept) failures(who Caller, f FailureFilter) Failures {
	all := Failures{From: k.from, Until: k.now}
	type group struct{ text, namespace string }
	groups := make(map[group]*Failure)
	for _, m := range k.periods {
		for _, cause := range m.Causes {
			switch {
			case cause.Text == rollup.Rest:
				all.Untold += cause.Count
				continue
			case !f.matches(cause) || !who.Covers(cause.Namespace):
				continue
			}
			key := group{cause.Text, cause.Namespace}
			if groups[key] == nil {
				groups[key] = &Failure{Text: cause.Text, Namespace: cause.Namespace, First: cause.First}
			}
			groups[key].add(cause)
		}
	}
	for _, failure := range groups {
		all.Causes = append(all.Causes, *failure)
	}
	slices.SortFunc(all.Causes, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.Last.Compare(a.Last), cmp.Compare(a.Text, b.Text),
			cmp.Compare(a.Namespace, b.Namespace))
	})
	return all
}

// matches reports whether a cause is one that is asked for. One of several schedules is none of a schedule.
func (f FailureFilter) matches(c rollup.Cause) bool {
	return (f.Queue == "" || f.Queue == c.Queue) && (f.Schedule == "" || f.Schedule == c.Schedule)
}

// add adds a cause with the same text.
func (f *Failure) add(c rollup.Cause) {
	f.Count, f.Dead = f.Count+c.Count, f.Dead+c.Dead
	if c.First.Before(f.First) {
		f.First = c.First
	}
	if !c.Last.Before(f.Last) {
		f.Last, f.Example = c.Last, c.Example
	}
	f.Queues, f.Schedules, f.Types = with(f.Queues, c.Queue), with(f.Schedules, c.Schedule), with(f.Types, c.Type)
}

// with returns sorted names with one more, unless it is among them or "".
func with(names []string, name string) []string {
	i, known := slices.BinarySearch(names, name)
	if known || name == "" {
		return names
	}
	return slices.Insert(names, i, name)
}
