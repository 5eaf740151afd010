package control

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// ScheduleLogTicks is how many ticks one reading of a schedule's logs looks at, at most.
const ScheduleLogTicks = 20

// ScheduleLogPage is a part of the logs of a schedule's tasks, in the order of ticks and lines.
type ScheduleLogPage struct {
	Lines     []ScheduleLogLine
	Forgotten []string // ids of tasks that are not kept any longer, the oldest first
	Previous  string   // the cursor of what comes before; "" if nothing does
}

// ScheduleLogLine is a line of the log of a task of a schedule.
type ScheduleLogLine struct {
	Task string // its id
	task.LogLine
}

// ReadScheduleLogs reads the last lines of the tasks of the newest ticks that have a task, or the lines before a
// cursor; "" is the end. The cursor has a number of ticks of its own. The query has no cursors. Errors:
// schedule.CodeNotFound, CodeInvalid for the cursor.
func (c *Control) ReadScheduleLogs(
	ctx context.Context, who Caller, id string, q LogQuery, ticks int, cursor string,
) (ScheduleLogPage, error) {
	if _, err := c.begin(ctx, who, "readScheduleLogs", who.Ref(id)); err != nil {
		return ScheduleLogPage{}, err
	}
	from, err := parseLogPosition(cursor, ticks)
	if err != nil {
		return ScheduleLogPage{}, err
	}
	// One more: a run by hand may have the time of the tick that the cursor names.
	filter := LedgerFilter{Until: from.tick, HasTask: true}
	ledger, err := c.store.Schedules.Ledger(ctx, who.Ref(id), filter, from.left+1, "")
	if err != nil {
		return ScheduleLogPage{}, err
	}
	r := scheduleLogs{q: q, ticks: from.of(ledger.Entries), from: from}
	r.q.Backwards = true
	for !r.done() {
		ref := who.Ref(r.ticks[0].TaskID(id))
		page, err := c.store.Tasks.Logs(ctx, ref, r.query())
		if err != nil && task.CodeOf(err) != task.CodeTaskNotFound {
			return ScheduleLogPage{}, err
		}
		r.add(ref.ID, page, err != nil)
	}
	return r.page(), nil
}

// scheduleLogs is a page of the logs of a schedule that is being read, from its end.
type scheduleLogs struct {
	q     LogQuery
	ticks []schedule.Entry  // that are left, newest first
	from  logPosition       // in the first one of these
	lines []ScheduleLogLine // newest first
	gone  []string
	bytes int
}

// done reports whether the page is full, or nothing is left.
func (r *scheduleLogs) done() bool {
	return len(r.ticks) == 0 || len(r.lines) >= r.q.Limit || r.bytes >= layout.PageBytes
}

// query is what to read of the next task.
func (r *scheduleLogs) query() LogQuery {
	q := r.q
	q.Before, q.Limit = r.from.before, q.Limit-len(r.lines)
	return q
}

// add adds what was read of the log of the next task, or that the task is gone.
func (r *scheduleLogs) add(id string, page LogPage, gone bool) {
	if gone {
		r.gone = append(r.gone, id)
	}
	for _, line := range slices.Backward(page.Lines) {
		r.lines = append(r.lines, ScheduleLogLine{Task: id, LogLine: line})
		r.bytes += layout.TextBytes(line.Text)
	}
	if page.More {
		r.from.before = page.First
		return
	}
	r.from.before = ""
	r.ticks = r.ticks[1:]
}

func (r *scheduleLogs) page() ScheduleLogPage {
	slices.Reverse(r.lines)
	slices.Reverse(r.gone)
	page := ScheduleLogPage{Lines: r.lines, Forgotten: r.gone}
	if len(r.ticks) > 0 {
		next := r.ticks[0]
		page.Previous = logPosition{left: len(r.ticks), name: next.Name, tick: next.Tick, before: r.from.before}.cursor()
	}
	return page
}

// logPosition is where a page of the logs of a schedule ends. The zero name is the end of all.
type logPosition struct {
	left   int    // how many ticks to look at, with this one
	name   string // of the tick
	tick   time.Time
	before string // the cursor of a line of its task; "" is the end of its log
}

// cursor is the position as an opaque text, safe in a URL.
func (p logPosition) cursor() string {
	text := fmt.Sprintf("%d %s %d %s", p.left, p.name, p.tick.UnixMilli(), p.before)
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// parseLogPosition reads what cursor returned; "" is the end of the logs of so many ticks. Error: CodeInvalid.
func parseLogPosition(cursor string, ticks int) (logPosition, error) {
	if cursor == "" {
		return logPosition{left: ticks}, nil
	}
	invalid := task.Invalid("before", "must be a previous_cursor that this list returned")
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	fields := strings.Split(string(raw), " ")
	if err != nil || len(fields) != 4 {
		return logPosition{}, invalid
	}
	left, errLeft := strconv.Atoi(fields[0])
	ms, errTick := strconv.ParseInt(fields[2], 10, 64)
	if errLeft != nil || errTick != nil || left < 1 || left > ScheduleLogTicks {
		return logPosition{}, invalid
	}
	return logPosition{left: left, name: fields[1], tick: time.UnixMilli(ms), before: fields[3]}, nil
}

// of returns the ticks that a position leaves of those at its time and before, newest first. Its own tick may be
// forgotten.
func (p *logPosition) of(ticks []schedule.Entry) []schedule.Entry {
	own := slices.IndexFunc(ticks, func(e schedule.Entry) bool { return e.Name == p.name })
	switch {
	case own >= 0:
		ticks = ticks[own:]
	case p.name != "":
		p.before = ""
	}
	return ticks[:min(p.left, len(ticks))]
}
