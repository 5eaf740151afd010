// Package limit says what limits there are, and to which tasks each applies. It is pure: nothing in it reads a clock or
// calls Redis.
package limit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Kind says what the tasks of a limit have in common.
type Kind string

// The kinds of limits.
const (
	Key       Kind = "key"       // the limit key
	Type      Kind = "type"      // the type
	Queue     Kind = "queue"     // the queue
	Namespace Kind = "namespace" // the namespace
	All       Kind = "all"       // nothing: it is about all tasks
)

// kinds are all kinds, from narrow to wide. A leader asks for the slots of a task in this order (ADR 49).
var kinds = []Kind{Key, Type, Queue, Namespace, All}

// Name is the name of a limit.
type Name struct {
	Kind Kind
	// Of is the key, type, queue or namespace that it is about. "*" at its end stands for any further characters. It is
	// "" for All.
	Of string
}

// String returns the name as people write it: "key:tenant-7", "all".
func (n Name) String() string {
	if n.Kind == All {
		return string(All)
	}
	return string(n.Kind) + ":" + n.Of
}

// IsWildcard reports whether the name ends with "*": it is about several keys, types, queues or namespaces.
func (n Name) IsWildcard() bool { return strings.HasSuffix(n.Of, "*") }

// Compare orders names from narrow to wide, and by what they are about within a kind.
func Compare(a, b Name) int {
	return cmp.Or(cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)), cmp.Compare(a.Of, b.Of))
}

// longest is how many characters a key and a type have at most.
var longest = map[Kind]int{Key: task.LimitKeyLimit, Type: task.TypeLimit}

// ParseName reads what String writes. Error: CodeInvalid for the field name.
func ParseName(text string) (Name, error) {
	if text == string(All) {
		return Name{Kind: All}, nil
	}
	kind, of, _ := strings.Cut(text, ":")
	n := Name{Kind(kind), of}
	if !slices.Contains(kinds, n.Kind) || n.Kind == All || of == "" {
		const message = "%q must be key:KEY, type:TYPE, queue:QUEUE, namespace:NAMESPACE or all; * may end a name"
		return Name{}, task.Invalid("name", message, text)
	}
	if begin := strings.TrimSuffix(of, "*"); begin != "" {
		if err := task.ValidateName("name", begin); err != nil {
			return Name{}, err
		}
	}
	if most := longest[n.Kind]; most > 0 && len(of) > most {
		const message = "is %d characters long behind %q, at most %d are allowed: no task has a longer one"
		return Name{}, task.Invalid("name", message, len(of), kind+":", most)
	}
	return n, nil
}

// Rule says what a limit allows.
type Rule struct {
	Slots  int           // most tasks that may be queued or running at once; 0 for any number
	Rate   int           // most tasks that may be handed over in Per; 0 for any number
	Per    time.Duration // a second, a minute or an hour; 0 without a Rate
	Burst  int           // most tasks that may be handed over at once after a rest; 0 means Rate
	Paused time.Time     // nothing is handed over until then; zero if it is not paused
}

// UntilResumed is when a pause ends that lasts until somebody resumes the limit: the last second that RFC 3339 can say.
var UntilResumed = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

// Most is how many limits there may be. One whose name ends with "*" is one.
const Most = 1000

// The bounds of a rule.
const (
	SlotsLimit = 1_000_000
	RateLimit  = 1_000_000
)

// Validate says what is wrong with a rule. Errors: CodeInvalid.
func (r Rule) Validate() error {
	return task.Join(
		within("slots", r.Slots, SlotsLimit),
		within("rate", r.Rate, RateLimit),
		within("burst", r.Burst, RateLimit),
		r.validatePer(),
		r.validateUse(),
	)
}

func within(field string, n, most int) error {
	if n < 0 || n > most {
		return task.Invalid(field, "%d must be 1 to %d, or left out", n, most)
	}
	return nil
}

func (r Rule) validatePer() error {
	switch {
	case r.Rate == 0 && r.Per != 0:
		return task.Invalid("per", "there is no rate: give one, or leave per out")
	case r.Rate == 0 && r.Burst != 0:
		return task.Invalid("burst", "there is no rate: give one, or leave burst out")
	case r.Rate != 0 && r.Per == 0:
		return task.Invalid("per", "is left out beside a rate: give 1s, 1m or 1h")
	case r.Rate != 0 && r.Per != time.Second && r.Per != time.Minute && r.Per != time.Hour:
		return task.Invalid("per", "%s must be 1s, 1m or 1h", task.FormatDuration(r.Per))
	}
	return nil
}

func (r Rule) validateUse() error {
	if r.Slots == 0 && r.Rate == 0 && r.Paused.IsZero() {
		return task.Invalid("slots", "the limit allows everything: give slots or a rate")
	}
	return nil
}

// Removed names what a rule allows that another one, which takes its place, does not mention.
func (r Rule) Removed(by Rule) (parts []string) {
	if r.Slots > 0 && by.Slots == 0 {
		parts = append(parts, fmt.Sprintf("slots %d", r.Slots))
	}
	if r.Rate > 0 && by.Rate == 0 {
		parts = append(parts, fmt.Sprintf("rate %d per %s", r.Rate, task.FormatDuration(r.Per)))
	}
	if r.Burst > 0 && by.Burst == 0 {
		parts = append(parts, fmt.Sprintf("burst %d", r.Burst))
	}
	return parts
}

// IsTooDear reports whether no task of that cost can ever start: it needs more slots or tokens than there are.
func (r Rule) IsTooDear(cost int) bool {
	return r.Slots > 0 && cost > r.Slots || r.Rate > 0 && cost > r.Tokens()
}

// String says in words what a rule allows: "5 at once, 100 a minute".
func (r Rule) String() string {
	var parts []string
	if r.Slots > 0 {
		parts = append(parts, fmt.Sprintf("%d at once", r.Slots))
	}
	if r.Rate > 0 {
		per := map[time.Duration]string{time.Second: "second", time.Minute: "minute", time.Hour: "hour"}[r.Per]
		parts = append(parts, fmt.Sprintf("%d a %s", r.Rate, per))
	}
	if r.Burst > 0 {
		parts = append(parts, fmt.Sprintf("%d after a rest", r.Burst))
	}
	return strings.Join(parts, ", ")
}
