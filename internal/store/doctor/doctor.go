// Package doctor examines an installation: whether what is in Redis fits together, and whether Redis and the nodes are as they should be.
// It is safe on a live system. It reads page by page, one short script or pipeline at a time, with pauses as long as its work, and whatever a
// check of a partition finds was so in one moment: a script has looked at all keys that belong to the task or schedule. What cannot be seen in one
// moment, as deliveries and their tasks, it looks at twice.
//
// Repair is made by the same scripts, in the same moment; of what no script finds, by a command that does no harm a moment later. It does
// nothing that a leader or a worker does: it puts things where these look, or removes what belongs to nothing. So it needs no lease.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/listing"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

// The bounds of one examination. What is left is told by its cursor.
const (
	TimeLimit    = 5 * time.Second
	EntryLimit   = 100_000 // entries of Redis
	ExampleLimit = 5       // of each check
)

// secondLook is the time after which a check looks again at what it has not seen in one moment.
const secondLook = 300 * time.Millisecond

// Options say what is examined. All but Embedded and Entries are required.
type Options struct {
	Layout    *layout.Layout
	Tasks     *tasks.Tasks
	Schedules *schedules.Schedules
	Listing   *listing.Listing
	Queues    *queue.Queues
	Nodes     func(ctx context.Context) ([]cluster.Node, error)
	// Audit returns the ticks of a schedule, decided between two times, that have no record, and the records that have no tick.
	Audit func(ctx context.Context, ref task.Ref, from, until time.Time) ([]string, error)
	// Limits returns the limits of queues, by queue. Error: CodeUnavailable.
	Limits func(ctx context.Context) (map[string]int, error)
	// Embedded says that Redis is one inside the process, without settings and without a disk.
	Embedded bool
	// Entries is how many entries one examination reads, give or take a page; 0 means EntryLimit.
	Entries int
}

// Doctor examines one installation.
type Doctor struct{ o Options }

// New returns a doctor. It sends nothing to Redis.
func New(o Options) *Doctor {
	o.Entries = cmp.Or(o.Entries, EntryLimit)
	return &Doctor{o: o}
}

// Request says what to examine. The zero value means everything, from the start.
type Request struct {
	Checks    []string // names of checks; none for all
	Partition *int     // the data of this one alone; nil: everything
	Cursor    string   // that of an earlier report, to go on behind it
	Repair    bool     // repair what is found
}

// Result is what came of a check.
type Result struct {
	Check
	Severity   Severity // of what was found; Unknown or worse if something was passed over
	Looked     int      // how many things were looked at
	Found      int
	Repaired   int
	Detail     string   // what was seen; "" if there is nothing to say
	Examples   []string // of what was found
	PassedOver string   // the newest of what could not be looked at, and why; "" if all was looked at
}

// Report is what came of an examination. NextCursor is "" if it came to its end.
type Report struct {
	Results    []Result // in the order of Checks, those that were asked for
	NextCursor string
}

// Examine examines an installation, up to the bounds. A cursor of a report must be used with the same checks and partition. Errors:
// CodeInvalid for an unknown check or partition, or the cursor; CodeUnavailable.
func (d *Doctor) Examine(ctx context.Context, r Request) (Report, error) {
	e, err := d.begin(r)
	if err != nil {
		return Report{}, err
	}
	next, err := e.walk(ctx)
	if err != nil {
		return Report{}, layout.Unavailable(err)
	}
	return e.report(next), nil
}

// report is what came of the examination so far.
func (e *examination) report(next string) Report {
	report := Report{NextCursor: next}
	for _, c := range Checks {
		if result := e.results[c.Name]; result != nil {
			report.Results = append(report.Results, *result)
		}
	}
	return report
}

// begin checks a request.
func (d *Doctor) begin(r Request) (*examination, error) {
	e := &examination{Doctor: d, Request: r, results: make(map[string]*Result), seen: make(map[finding]bool)}
	e.started, e.rested = clock.Now(), clock.Now()
	if p := r.Partition; p != nil && (*p < 0 || *p >= d.o.Layout.Partitions()) {
		return nil, task.Invalid("partition", "must be 0 to %d", d.o.Layout.Partitions()-1)
	}
	for _, name := range r.Checks {
		if !slices.ContainsFunc(Checks, func(c Check) bool { return c.Name == name }) {
			return nil, task.Invalid("check", "there is no check %q", name)
		}
	}
	var names []string
	for _, c := range Checks {
		wanted := len(r.Checks) == 0 && !(d.o.Embedded && slices.Contains(ofSettings, c.Name)) || slices.Contains(r.Checks, c.Name)
		if wanted && (r.Partition == nil || c.OfData) {
			e.results[c.Name] = &Result{Check: c, Severity: OK}
			names = append(names, c.Name)
		}
	}
	e.wanted = " " + strings.Join(names, " ") + " "
	var err error
	e.at, err = parsePosition(r.Cursor)
	return e, err
}

// examination is one examination while it goes on.
type examination struct {
	*Doctor
	Request
	wanted  string // the names of the checks, as the scripts take them
	results map[string]*Result
	seen    map[finding]bool
	at      position
	started time.Time
	rested  time.Time      // end of the last pause
	entries int            // that were read
	servers int            // of Redis, once they are known
	limits  map[string]int // of queues; nil until they are known
}

// wants reports whether one of the checks is asked for.
func (e *examination) wants(checks ...string) bool {
	return slices.ContainsFunc(checks, func(name string) bool { return e.results[name] != nil })
}

// looked counts things that were looked at.
func (e *examination) looked(n int, checks ...string) {
	for _, name := range checks {
		if r := e.results[name]; r != nil {
			r.Looked += n
		}
	}
}

// finding is what a check finds.
type finding struct{ check, member, words string }

// What begins the name of a check in what a script reports: see findings.lua.
const (
	passedOver = "-" // the check cannot look at the member
	byHand     = "=" // no repair mends it
)

// found adds a finding to a check of the data, or notes what the check cannot look at. It returns false if the check is
// not asked for, or has found the same before: Redis may list a key twice, and several keys lead to one task.
func (e *examination) found(check, member, words string) bool {
	if name, passed := strings.CutPrefix(check, passedOver); passed {
		e.notLooked(member+" "+words, name)
		return false
	}
	check, lasts := strings.CutPrefix(check, byHand)
	r, same := e.results[check], finding{check, member, words}
	if slices.Contains(lossChecks, check) { // more of the same may be found elsewhere
		same.check, same.words = leftovers, ""
	}
	if r == nil || e.seen[same] {
		return false
	}
	e.seen[same] = true
	r.Found++
	r.Severity = r.Check.Severity
	if e.Repair && r.Repairs && !lasts {
		r.Repaired++
	}
	if len(r.Examples) < ExampleLimit {
		r.Examples = append(r.Examples, member+" "+legible(words))
	}
	return true
}

// notLooked notes for checks what they could not look at, and why.
func (e *examination) notLooked(words string, checks ...string) {
	for _, name := range checks {
		if r := e.results[name]; r != nil {
			r.PassedOver = words
			r.Severity = worse(r.Severity, Unknown)
		}
	}
}

// passOver returns nil for an error because of damage, or where Redis refuses writes, so that the examination goes on; any
// other error as it is. what is the name of what the checks cannot look at.
func (e *examination) passOver(what string, err error, checks ...string) error {
	switch {
	case redisx.IsDamage(err):
		e.notLooked(what+" was not looked at: a key has the wrong type, or a value in it is none", checks...)
	case redisx.RefusesChange(err):
		e.notLooked(what+" was not looked at: "+refusal(err), checks...)
	default:
		return err
	}
	return nil
}

// refusal says why Redis refuses a change.
func refusal(err error) string {
	var said redis.Error
	errors.As(err, &said)
	if redis.IsExecAbortError(err) {
		return "Redis refuses transactions, as it does while it is full (OOM): " + said.Error()
	}
	return "Redis refuses it: " + said.Error()
}

// counts are what a check has found and repaired.
type counts struct{ found, repaired int }

// tryRepair calls look. If Redis refuses a repair that look makes, as it is full, it calls look again without repairs,
// and notes that for the checks that find something.
func (e *examination) tryRepair(look func() error) error {
	if !e.Repair {
		return look()
	}
	before := make(map[string]counts, len(e.results))
	for name, r := range e.results {
		before[name] = counts{r.Found, r.Repaired}
	}
	refused := look()
	if !redisx.RefusesChange(refused) {
		return refused
	}
	for name, c := range before {
		e.results[name].Repaired = c.repaired
	}
	e.Repair = false
	err := look()
	e.Repair = true
	for name, c := range before {
		if r := e.results[name]; r.Repairs && r.Found > c.found {
			e.notLooked("what it found was not repaired: "+refusal(refused), name)
		}
	}
	return err
}

// leavingOut calls a reader that leaves out what it cannot read, and notes that for the checks.
func (e *examination) leavingOut(ctx context.Context, read func(context.Context) error, checks ...string) error {
	ctx, left := redisx.LeavingOut(ctx)
	err := read(ctx)
	for _, text := range left.Texts() {
		e.notLooked(text, checks...)
	}
	return err
}

// scores are the times in what scripts say, in ms.
var scores = regexp.MustCompile(`(\bat|\binstead of) (\d{10,16})\b`)

// legible writes the times in what a script says as people read them.
func legible(words string) string {
	return scores.ReplaceAllStringFunc(words, func(found string) string {
		at := strings.LastIndexByte(found, ' ') + 1
		ms, err := strconv.ParseInt(found[at:], 10, 64)
		if err != nil {
			return found
		}
		return found[:at] + time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
	})
}

// over reports whether the bounds are reached.
func (e *examination) over() bool {
	return e.entries >= e.o.Entries || clock.Since(e.started) >= TimeLimit
}
