package codec

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// The fields of a schedule's hash that say what became of its ticks.
var (
	TrackFields = []string{"tracked", "succeeded", "missed", "ends", "ends0", "ends1", "ends2", "ends3"}
	DayFields   = []string{"days", "day"}
)

// states and results by the letters that lua/include/track.lua and days.lua write.
var (
	statesByLetter = map[byte]task.State{'s': task.Succeeded, 'f': task.Failed, 'c': task.Cancelled, 'a': task.Scheduled}

	resultsByLetter = map[string]schedule.Result{
		"s": schedule.ResultSucceeded, "f": schedule.ResultFailed, "c": schedule.ResultCancelled, "m": schedule.ResultMissed,
		"o": schedule.ResultSkipped, "x": schedule.ResultExcluded, "r": schedule.ResultReplaced,
	}
)

// DecodeTrack reads what became of a schedule's ticks from its hash. What cannot be read is left out, and damage says
// what that is.
func DecodeTrack(h map[string]string) (t schedule.Track, damage []string) {
	number := func(field string) time.Time {
		n, err := strconv.ParseInt(h[field], 10, 64)
		if err != nil && h[field] != "" {
			damage = append(damage, unreadableField(field, h[field]))
		}
		return FromMS(n)
	}
	t.Since, t.SucceededAt, t.MissedAt = number("tracked"), number("succeeded"), number("missed")
	for _, field := range endFields(h["ends"]) {
		text := h[field]
		if field == "ends" {
			text = afterCount(text)
		}
		for entry := range strings.FieldsSeq(text) {
			if e, ok := decodeEnd(entry); ok {
				t.Ends = append(t.Ends, e)
			} else {
				damage = append(damage, unreadableField(field, entry))
			}
		}
	}
	for _, field := range DayFields {
		for text := range strings.FieldsSeq(h[field]) {
			if d, ok := decodeDay(text); ok {
				t.Days = append(t.Days, d)
			} else {
				damage = append(damage, unreadableField(field, text))
			}
		}
	}
	// After a jump of the clock, days ahead are among the others.
	slices.SortStableFunc(t.Days, func(a, b schedule.Day) int { return a.Date.Compare(b.Date) })
	return t, damage
}

func unreadableField(field, text string) string {
	return fmt.Sprintf("its field %s cannot be read: %q", field, task.CutMiddle(text, damageLimit))
}

// countOfEnds begins the field ends.
var countOfEnds = regexp.MustCompile(`^\d{1,15}( |$)`)

// afterCount returns the ends in the field ends: what follows their count. A text without a count is no end either.
func afterCount(ends string) string { return ends[len(countOfEnds.FindString(ends)):] }

// endFields returns the fields that have ends, the oldest ends first. ends has the number of all that were written,
// which says which chunk is the newest full one.
func endFields(ends string) []string {
	n := int(Number(strings.TrimSuffix(countOfEnds.FindString(ends), " ")))
	var fields []string
	if n > 0 {
		newest := (n - 1) / schedule.EndsChunk
		for chunk := max(0, newest-schedule.EndsChunks); chunk < newest; chunk++ {
			fields = append(fields, "ends"+strconv.Itoa(chunk%schedule.EndsChunks))
		}
	}
	return append(fields, "ends")
}

// decodeEnd reads "<name>/<letter><attempts>/<ms from the tick to the end>/<ms that the last attempt took>".
func decodeEnd(entry string) (_ schedule.End, ok bool) {
	f := strings.Split(entry, "/")
	if len(f) != 4 || len(f[1]) < 2 {
		return schedule.End{}, false
	}
	tick, _, err := schedule.ParseTickName(f[0])
	state, known := statesByLetter[f[1][0]]
	attempts, errAttempts := strconv.Atoi(f[1][1:])
	after, errAfter := strconv.ParseInt(f[2], 10, 64)
	took, errTook := strconv.ParseInt(f[3], 10, 64)
	if err != nil || !known || errAttempts != nil || errAfter != nil || errTook != nil && f[3] != "" {
		return schedule.End{}, false
	}
	tick = tick.Truncate(time.Millisecond)
	return schedule.End{
		Name: f[0], Tick: tick, State: state, Attempts: attempts, At: tick.Add(ms(after)), Ran: f[3] != "", Took: ms(took),
	}, true
}

// aDay is a date, and letters with numbers behind them.
var aDay, aCount = regexp.MustCompile(`^\d{8}([a-z]\d{1,9})*$`), regexp.MustCompile(`[a-z]\d+`)

// decodeDay reads "20260102s23f1". Letters that a later release may write are left out.
func decodeDay(text string) (_ schedule.Day, ok bool) {
	if !aDay.MatchString(text) {
		return schedule.Day{}, false
	}
	date, err := time.Parse("20060102", text[:8])
	d := schedule.Day{Date: date, Counts: make(map[schedule.Result]int)}
	for _, count := range aCount.FindAllString(text[8:], -1) {
		if result, known := resultsByLetter[count[:1]]; known {
			d.Counts[result] = int(Number(count[1:]))
		}
	}
	return d, err == nil
}

// CheckTrackField returns an error if a field of a schedule's hash says what became of ticks and cannot be read. It
// knows no other fields.
func CheckTrackField(name, value string) error {
	if !slices.Contains(TrackFields, name) && !slices.Contains(DayFields, name) {
		return nil
	}
	h := map[string]string{name: value}
	if strings.HasPrefix(name, "ends") && name != "ends" { // DecodeTrack looks at as many chunks as the count says
		h["ends"] = strconv.Itoa(schedule.EndsChunk*schedule.EndsChunks + 1)
	}
	if name == "ends" && countOfEnds.FindString(value) == "" {
		return errors.New(unreadableField(name, value))
	}
	if _, damage := DecodeTrack(h); len(damage) > 0 {
		return errors.New(damage[0])
	}
	return nil
}
