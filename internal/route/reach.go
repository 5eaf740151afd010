package route

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/task"
)

const (
	// PreferencesLimit is the most preferences of a task.
	PreferencesLimit = 8
	// buckets is into how many groups keys of Hash are divided. A group waits in a lane of its own and has one node.
	buckets = 64
)

// Reach is where a task may run, and to which node there it goes. The zero value says nothing: the task goes to the
// queue that all nodes share.
type Reach struct {
	Select Selector
	Prefer Preferences
	Route  Route
	Bucket int // of the key of Hash
	Slots  int // of its node that a task holds while it runs; 0 stands for 1
	Move   Move
}

// SlotsLimit is the most slots of its node that a task can hold.
const SlotsLimit = 100

// Holds returns how many slots of its node a task holds.
func (r Reach) Holds() int { return max(r.Slots, 1) }

// BucketOf returns the bucket of a key of Hash.
func BucketOf(key string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return int(h.Sum32() % buckets)
}

// IsZero reports whether the reach says nothing.
func (r Reach) IsZero() bool {
	return r.Move == (Move{}) && r.isOpen()
}

// isOpen reports whether the reach says nothing but a move.
func (r Reach) isOpen() bool {
	return r.Select.IsZero() && len(r.Prefer) == 0 && (r.Route.By == "" || r.Route.By == Any) && r.Slots <= 1
}

// A reach is written as one word, which is part of the name of the lane in which its tasks wait: the selector, the
// preferences, the route, and the slots if they are several, with semicolons between, and a move before them. It has no
// blanks, and no character that JSON writes otherwise.
var (
	writeWord = strings.NewReplacer(" ", "~", "<", "{", ">", "}")
	readWord  = strings.NewReplacer("~", " ", "{", "<", "}", ">")
)

const (
	partMark   = ";" // between the parts of a reach
	wishMark   = "|" // between two preferences
	weightMark = "*" // between the weight of a preference and its selector
	detailMark = ":" // between a strategy and what it goes by
)

// String returns the word of a reach, "" for one that says nothing. ParseReach reads it. Reaches that mean the same
// have the same word, but for the order of preferences.
func (r Reach) String() string {
	if r.isOpen() {
		return r.Move.Word("")
	}
	wishes := make([]string, len(r.Prefer))
	for i, p := range r.Prefer {
		wishes[i] = strconv.Itoa(p.Weight) + weightMark + p.Select.String()
	}
	parts := []string{r.Select.String(), strings.Join(wishes, wishMark), r.route()}
	if r.Slots > 1 {
		parts = append(parts, strconv.Itoa(r.Slots))
	}
	return r.Move.Word(writeWord.Replace(strings.Join(parts, partMark)))
}

// route returns the text of the route: the strategy, and what it goes by.
func (r Reach) route() string {
	by := string(r.Route.By)
	switch {
	case r.Route.By == "" || r.Route.By == Any:
		return ""
	case r.Route.By == Hash:
		return strings.Join([]string{by, strconv.Itoa(r.Bucket), string(r.Route.Sticky)}, detailMark)
	case r.Route.Load != (Load{}):
		l := r.Route.Load
		return fmt.Sprintf("%s:%g:%g:%g:%g", by, l.CPU, l.Memory, l.Slots, l.Response)
	case len(r.Route.Order) > 0:
		return by + detailMark + strings.Join(r.Route.Order, ",")
	}
	return by
}

// ParseReach reads what String wrote. Error: the word is none; then somebody has written it by hand.
func ParseReach(word string) (Reach, error) {
	move, word := cutMove(word)
	if word == "" {
		return Reach{Move: move}, nil
	}
	parts := strings.Split(readWord.Replace(word), partMark)
	if len(parts) != 3 && len(parts) != 4 {
		return Reach{}, fmt.Errorf("%q is no reach: it has %d parts, and must have 3 or 4", word, len(parts))
	}
	s, err := ParseSelector(parts[0])
	if err != nil {
		return Reach{}, err
	}
	r := Reach{Select: s, Move: move, Slots: slotsIn(parts)}
	if len(parts) == 4 && r.Slots == 0 {
		return Reach{}, fmt.Errorf("%q is no reach: its slots are %q, and must be 2 to %d", word, parts[3], SlotsLimit)
	}
	for wish := range strings.SplitSeq(parts[1], wishMark) {
		if wish == "" {
			continue
		}
		number, selector, _ := strings.Cut(wish, weightMark)
		weight, _ := strconv.Atoi(number) // 0 is no weight
		p, err := ParsePreference(selector, weight)
		if err != nil {
			return Reach{}, err
		}
		r.Prefer = append(r.Prefer, p)
	}
	if err := r.parseRoute(parts[2]); err != nil {
		return Reach{}, fmt.Errorf("%q is no reach: %w", word, err)
	}
	return r, nil
}

// slotsIn returns the slots in the parts of a word; 0 if it names none, or not 2 to SlotsLimit.
func slotsIn(parts []string) int {
	if len(parts) != 4 {
		return 0
	}
	if n, err := strconv.Atoi(parts[3]); err == nil && n > 1 && n <= SlotsLimit {
		return n
	}
	return 0
}

// SlotsOf returns how many slots of its node a task holds whose reach has this word; 1 if nobody can read it.
func SlotsOf(word string) int {
	_, word = cutMove(word)
	return max(slotsIn(strings.Split(word, partMark)), 1)
}

// parseRoute reads what route wrote.
func (r *Reach) parseRoute(text string) error {
	by, rest, detailed := strings.Cut(text, detailMark)
	r.Route.By = Strategy(by)
	details := strings.Split(rest, detailMark)
	var err error
	switch {
	case r.Route.By == Hash && len(details) == 2:
		r.Bucket, err = strconv.Atoi(details[0])
		r.Route.Sticky = Sticky(details[1])
	case r.Route.By == Weighted && len(details) == 4:
		l := &r.Route.Load
		for i, factor := range []*float64{&l.CPU, &l.Memory, &l.Slots, &l.Response} {
			if *factor, err = strconv.ParseFloat(details[i], 64); err != nil {
				break
			}
		}
	case (r.Route.By == Failover || r.Route.By == BusyOver) && detailed:
		r.Route.Order = strings.Split(rest, ",")
	case r.Route.By == Hash || detailed:
		err = fmt.Errorf("%q is no route", text)
	}
	if err != nil {
		return err
	}
	return r.Route.Check()
}

// Spec is what a task says about where it runs, as people write it. The zero value says nothing.
type Spec struct {
	Select string
	Prefer []Wish
	Route  Route
	Key    string // of Hash
	Slots  int    // 0 stands for 1
}

// Wish is a preference as people write it.
type Wish struct {
	Select string
	Weight int
}

// Reach returns what the spec means. Error: CodeInvalid of the fields select, prefer[n].*, route.* and slots.
func (s Spec) Reach() (Reach, error) {
	selector, err := ParseSelector(s.Select)
	errs := []error{err}
	r := Reach{Select: selector, Route: s.Route, Slots: s.Slots}
	if s.Slots == 1 {
		r.Slots = 0
	}
	if s.Slots < 0 || s.Slots > SlotsLimit {
		errs = append(errs, task.Invalid("slots", "%d must be 1 to %d", s.Slots, SlotsLimit))
	}
	if len(s.Prefer) > PreferencesLimit {
		errs = append(errs, task.Invalid("prefer",
			"has %d preferences, at most %d are allowed", len(s.Prefer), PreferencesLimit))
	} else {
		for i, wish := range s.Prefer {
			p, err := ParsePreference(wish.Select, wish.Weight)
			errs = append(errs, task.Within(fmt.Sprintf("prefer[%d]", i), err))
			r.Prefer = append(r.Prefer, p)
		}
	}
	errs = append(errs, task.Within("route", task.Join(s.Route.Check(), s.checkKey())))
	if s.Route.By == Hash {
		r.Bucket = BucketOf(s.Key)
	}
	if err := task.Join(errs...); err != nil {
		return Reach{}, err
	}
	if n := len(r.String()); n > task.ReachLimit {
		return Reach{}, task.Invalid("prefer", "and select and route are %d characters together, at most %d are allowed",
			n, task.ReachLimit)
	}
	return r, nil
}

func (s Spec) checkKey() error {
	switch {
	case s.Route.By == Hash && s.Key == "":
		return task.Invalid("key", "is missing: tasks of one key go to the same node")
	case s.Route.By != Hash && s.Key != "":
		return task.Invalid("key", "must be left out: only %s goes by it", Hash)
	}
	return task.ValidateRouteKey(s.Key)
}

// SpecOf returns the spec with which a task was given its reach. It says the same in the canonical form.
func SpecOf(reach, key string) (Spec, error) {
	r, err := ParseReach(reach)
	if err != nil {
		return Spec{}, err
	}
	s := Spec{Select: r.Select.String(), Route: r.Route, Key: key, Slots: r.Slots}
	s.Route.Order = slices.Clone(r.Route.Order)
	for _, p := range r.Prefer {
		s.Prefer = append(s.Prefer, Wish{p.Select.String(), p.Weight})
	}
	return s, nil
}
