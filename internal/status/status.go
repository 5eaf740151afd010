package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Severity says how bad a reason is.
type Severity string

// The severities.
const (
	Bad  Severity = "bad"  // work does not happen
	Warn Severity = "warn" // somebody should know
)

// Reason is one thing that needs somebody.
type Reason struct {
	Code      Code      `json:"code"`
	Severity  Severity  `json:"severity"`
	Since     time.Time `json:"since,omitzero"` // zero if nobody knows
	Kind      string    `json:"kind"`           // redis, partition, node, queue, limit, schedule or installation
	Namespace string    `json:"namespace,omitempty"`
	ID        string    `json:"id,omitempty"`
	Detail    string    `json:"detail"` // in sentences
	Do        string    `json:"do"`     // what to do, in a sentence
	More      int       `json:"more,omitempty"`
}

// key is the same for the same reason in two statuses.
func (r Reason) key() string { return strings.Join([]string{string(r.Code), r.Namespace, r.ID}, " ") }

// Level says how an installation is.
type Level string

// The levels.
const (
	AllWell   Level = "ok"
	Attention Level = "warn" // a reason is Warn, and none Bad
	Trouble   Level = "bad"  // a reason is Bad
)

// Status says whether an installation needs somebody.
type Status struct {
	At       time.Time `json:"at"`
	StandIn  bool      `json:"stand_in,omitempty"` // computed by a node that was asked, as no leader did
	Level    Level     `json:"level"`
	Sentence string    `json:"sentence"`
	Reasons  []Reason  `json:"reasons,omitempty"`
	Figures  Figures   `json:"figures"`
	Warnings []string  `json:"warnings,omitempty"` // what could not be read: there may be further reasons
	// Seen says since when conditions hold that are no reasons yet, or have no time of their own.
	Seen map[string]time.Time `json:"seen,omitempty"`
}

// Figures are some numbers about an installation.
type Figures struct {
	Nodes     int           `json:"nodes"`   // that live
	Running   int           `json:"running"` // slots that are taken
	Capacity  int           `json:"capacity"`
	Waiting   *int          `json:"waiting,omitempty"` // tasks that are due and have not begun; nil while Redis is silent
	Limited   int           `json:"limited,omitempty"` // of Waiting, those that have limits and waited for slots
	Begun     float64       `json:"begun"`             // attempts a second, in the last minutes
	Ended     float64       `json:"ended"`
	Failed    float64       `json:"failed"`
	LateP50   time.Duration `json:"late_p50"`
	LateP99   time.Duration `json:"late_p99"`
	LateMost  time.Duration `json:"late_most"`
	Memory    float64       `json:"memory"`     // bytes that Redis uses
	MaxMemory float64       `json:"max_memory"` // 0 for no limit
	RoundTrip time.Duration `json:"round_trip"`
	// RedisVersion is that of a server of Redis; "" if it does not say.
	RedisVersion string `json:"redis_version,omitempty"`
	// Partitions is how many partitions there are, of which Led have a leader; 0 if that is not known.
	Partitions int           `json:"partitions,omitempty"`
	Led        int           `json:"led,omitempty"`
	Over       time.Duration `json:"over"` // which time Begun, Ended, Failed and Late... are about; 0: nothing is known
}

// reasonsOfEach is how many reasons of one code a status has: the last of them says how many more there are.
const reasonsOfEach = 5

// Judge computes the status.
func Judge(f Facts) Status {
	s := Status{At: f.Now, Figures: figuresOf(f), Seen: make(map[string]time.Time)}
	s.Warnings = slices.Concat(f.Unread, f.Notes)
	j := &judge{Facts: f, seen: s.Seen}
	j.redis()
	j.fleet()
	j.queues()
	j.limits()
	j.schedules()
	j.past()
	j.carryOver()
	s.Reasons = shorten(j.reasons)
	bad := 0
	for _, r := range j.reasons {
		if r.Severity == Bad {
			bad++
		}
	}
	s.Level, s.Sentence = summary(len(j.reasons), bad, s.Figures)
	return s
}

// judge collects reasons.
type judge struct {
	Facts
	reasons []Reason
	seen    map[string]time.Time
	barred  []Lane // what limits keep from starting, by limit
}

func (j *judge) add(r Reason) { j.reasons = append(j.reasons, r) }

// since returns since when a condition holds, as far as this and the earlier statuses know.
func (j *judge) since(r Reason) time.Time { return j.sinceAt(r.key(), time.Time{}) }

// sinceAt is since for the condition of a key, of which it may be known that it has held from a time on.
func (j *judge) sinceAt(key string, known time.Time) time.Time {
	at := j.Now
	for _, earlier := range []time.Time{known, j.Before.Seen[key]} {
		if !earlier.IsZero() && earlier.Before(at) {
			at = earlier
		}
	}
	j.seen[key] = at
	return at
}

// carryFor is for how long it counts what an earlier status has seen and this one could not look at.
const carryFor = time.Minute

// carryOver keeps since when conditions hold, if something could not be read: they may still hold.
func (j *judge) carryOver() {
	if len(j.Unread) == 0 && j.Redis.Silent == "" || j.Now.Sub(j.Before.At) > carryFor {
		return
	}
	for key, at := range j.Before.Seen {
		if _, seen := j.seen[key]; !seen {
			j.seen[key] = at
		}
	}
}

// figuresOf returns the numbers of some facts.
func figuresOf(f Facts) Figures {
	n := Figures{
		LateP50: f.Last.LateP50, LateP99: f.Last.LateP99, LateMost: f.Last.LateMost, Over: f.Last.Span,
		Memory: f.Redis.Memory, MaxMemory: f.Redis.MaxMemory, RoundTrip: f.Redis.RoundTrip,
		RedisVersion: f.Redis.Version, Partitions: f.Partitions, Led: max(f.Partitions-len(f.Unled), 0),
	}
	for _, node := range f.Nodes {
		if node.Alive {
			n.Nodes++
			n.Running += node.Running
			if node.CordonOf == "" {
				n.Capacity += node.Capacity
			} else { // its other slots take nothing
				n.Capacity += node.Running
			}
		}
	}
	if f.Redis.Silent == "" {
		n.Waiting = new(int)
		for _, q := range f.Queues {
			*n.Waiting += q.Waiting
			n.Limited += q.Limited
		}
	}
	if seconds := f.Last.Span.Seconds(); seconds > 0 {
		n.Begun = float64(f.Last.Begun) / seconds
		n.Ended = float64(f.Last.Ended) / seconds
		n.Failed = float64(f.Last.Failed) / seconds
	}
	return n
}

// shorten sorts reasons, the worst first, and leaves out those of a code that has too many.
func shorten(reasons []Reason) []Reason {
	slices.SortStableFunc(reasons, func(a, b Reason) int {
		return cmp.Or(
			cmp.Compare(rank(a.Severity), rank(b.Severity)), cmp.Compare(place(a.Code), place(b.Code)),
			a.Since.Compare(b.Since), strings.Compare(a.key(), b.key()),
		)
	})
	var short []Reason
	for i := 0; i < len(reasons); {
		same := i
		for same < len(reasons) && reasons[same].Code == reasons[i].Code && reasons[same].Severity == reasons[i].Severity {
			same++
		}
		short = append(short, reasons[i:min(same, i+reasonsOfEach)]...)
		short[len(short)-1].More = max(same-i-reasonsOfEach, 0)
		i = same
	}
	return short
}

func rank(s Severity) int {
	if s == Bad {
		return 0
	}
	return 1
}

// place is that of a code in the list of codes.
func place(c Code) int { return slices.IndexFunc(Codes, func(m Meaning) bool { return m.Code == c }) }

// summary says how an installation is that has so many reasons, of which so many are bad.
func summary(reasons, bad int, n Figures) (Level, string) {
	switch {
	case reasons == 0:
		return AllWell, "All well: " + n.sentence() + "."
	case reasons == 1 && bad == 0:
		return Attention, "One thing is worth a look."
	case bad == 0:
		return Attention, fmt.Sprintf("%d things are worth a look.", reasons)
	}
	text := "One thing needs somebody now"
	if bad > 1 {
		text = fmt.Sprintf("%d things need somebody now", bad)
	}
	switch reasons - bad {
	case 0:
		return Trouble, text + "."
	case 1:
		return Trouble, text + ", and one more is worth a look."
	}
	return Trouble, fmt.Sprintf("%s, and %d more are worth a look.", text, reasons-bad)
}

// sentence says what goes on.
func (n Figures) sentence() string {
	text := counted(n.Nodes, "node lives", "nodes live") + ", " + counted(n.Running, "slot is taken", "slots are taken")
	if n.Waiting != nil {
		text += ", " + counted(*n.Waiting, "task waits", "tasks wait")
	}
	return text
}

// counted is a number with what it counts; 0 is "no".
func counted(n int, one, many string) string {
	switch n {
	case 0:
		return "no " + one
	case 1:
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// moment is a time for people.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
