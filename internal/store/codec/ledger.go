package codec

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// chunkMark begins a chunk of a ledger. The record of one tick begins with a name, and no name is this word.
const chunkMark = "fired "

// DecodeLedger reads a member of a ledger: the record of one tick, or a chunk of ticks that fired on time, as
// lua/include/chunk.lua writes it. score is the member's score, the time of its first tick in ms since 1970. The entries are
// in the order of their ticks. Error: the member has another form, or lacks what each record has.
func DecodeLedger(member string, score int64) ([]schedule.Entry, error) {
	if strings.HasPrefix(member, chunkMark) {
		return decodeChunk(member, score)
	}
	f := strings.SplitN(member, " ", 7)
	if len(f) != 7 {
		return nil, fmt.Errorf("the ledger's record %q has %d fields, want 7", task.CutMiddle(member, damageLimit), len(f))
	}
	e := schedule.Entry{
		Name: f[0], Outcome: schedule.Outcome(f[1]), HasTask: f[2] == "1", Late: ms(Number(f[3])), DecidedAt: FromMS(Number(f[4])),
		Revision: int(Number(f[5])), Reason: f[6], Tick: FromMS(score),
	}
	if !slices.Contains(schedule.Outcomes, e.Outcome) || e.DecidedAt.IsZero() {
		return nil, fmt.Errorf("the ledger's record %q has no outcome, or no time", task.CutMiddle(member, damageLimit))
	}
	return []schedule.Entry{e}, nil
}

// waiting is a tick that waits for its turn, as lua/include/overlap.lua writes it: its time in ms, and its name.
var waiting = regexp.MustCompile(`^\d+ \S+$`)

// CheckWaiting returns an error if a tick that waits cannot be read. lua/fire.lua reads it.
func CheckWaiting(entry string) error {
	if !waiting.MatchString(entry) {
		return fmt.Errorf("the tick %q that waits cannot be read", task.CutMiddle(entry, damageLimit))
	}
	return nil
}

// decodeChunk reads "fired <revision> <count> <last ms> <step ms> <ticks>", whose first tick is at first.
func decodeChunk(member string, first int64) ([]schedule.Entry, error) {
	f := strings.Split(member, " ")
	if len(f) != 6 {
		return nil, fmt.Errorf("the ledger's chunk %q has %d fields, want 6", task.CutMiddle(member, damageLimit), len(f))
	}
	revision := int(Number(f[1]))
	entries := make([]schedule.Entry, 0, strings.Count(f[5], ",")+1)
	at, step := first, int64(0)
	for tick := range strings.SplitSeq(f[5], ",") {
		if delta, late, ok := strings.Cut(tick, ":"); ok {
			tick, step = late, Number(delta)
		}
		late, err := strconv.ParseInt(tick, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the ledger's chunk %q: a tick is %q, want its lateness in ms", task.CutMiddle(member, damageLimit), tick)
		}
		at += step
		entries = append(entries, onTime(FromMS(at), ms(late), revision))
	}
	return entries, nil
}

// onTime is the entry of a tick that fired on time.
func onTime(tick time.Time, late time.Duration, revision int) schedule.Entry {
	return schedule.Entry{
		Name: schedule.TickName(tick), Tick: tick, Outcome: schedule.Fired, HasTask: true, Late: late,
		DecidedAt: tick.Add(late), Revision: revision,
	}
}

// EncodeEntry writes an entry as the record of one tick, as lua/include/ledger.lua does:
// "<name> <outcome> <1 if it has a task, else 0> <late ms> <decided ms> <revision> <reason>". A tick has this text in
// cursors even if its record is in a chunk.
func EncodeEntry(e schedule.Entry) string {
	hasTask := "0"
	if e.HasTask {
		hasTask = "1"
	}
	return strings.Join([]string{
		e.Name, string(e.Outcome), hasTask, strconv.FormatInt(e.Late.Milliseconds(), 10), strconv.FormatInt(toMS(e.DecidedAt), 10),
		strconv.Itoa(e.Revision), e.Reason,
	}, " ")
}
