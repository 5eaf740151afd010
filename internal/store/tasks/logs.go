package tasks

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// filteredChunk is how many lines are read in one round trip while a filter may leave most of them out.
const filteredChunk = 250

// LogQuery says which lines of a task's log to read.
type LogQuery struct {
	After     string // the cursor of a line: only lines after it; "" means from the start
	Before    string // the cursor of a line: only lines before it; "" means up to the end
	Backwards bool   // read the last of these lines, and not the first ones
	Limit     int    // how many lines to return at most; at least 1

	Attempt int    // only lines of this attempt; 0 means all
	Newest  bool   // only lines of the newest attempt that has begun, and of those that begin later
	Stream  string // only lines of this stream; "" means all
	Text    string // only lines that contain this text, in upper or lower case; "" means all
}

// LogPage is a part of a task's log, in the order in which it was written.
type LogPage struct {
	Lines []task.LogLine
	// First and Last are the cursors of the first and the last line that was read, also of one that is left out. Both
	// are "" if none was read, but Last is After in a page that is read forwards.
	First, Last string
	More        bool // there may be further lines: after Last, or before First if it was read backwards
}

// Logs reads lines of a task's log: those of the page, and with a filter those that it looks at. The page ends early
// when it is full. Under redisx.LeavingOut, lines that cannot be read are left out. Errors: CodeTaskNotFound,
// CodeInvalid for the name or a cursor, CodeUnavailable.
func (s *Tasks) Logs(ctx context.Context, ref task.Ref, q LogQuery) (LogPage, error) {
	if err := task.ValidateRef(ref); err != nil {
		return LogPage{}, err
	}
	q, err := s.fromNewest(ctx, ref, q)
	if err != nil {
		return LogPage{}, err
	}
	from, to, err := q.bounds()
	if err != nil {
		return LogPage{}, err
	}
	r := logReading{q: q, ref: ref, from: from, to: to, text: strings.ToLower(q.Text)}
	if !q.Backwards {
		r.page.Last = q.After
	}
	for !r.done {
		n := r.chunk()
		entries, err := s.readLog(ctx, &r, n)
		if err != nil {
			return LogPage{}, err
		}
		if err := r.take(ctx, entries, n); err != nil {
			return LogPage{}, err
		}
	}
	if q.Backwards {
		slices.Reverse(r.page.Lines)
	}
	return r.page, nil
}

// LogStart returns the cursor after which the lines of a query begin. It is for readers that follow a log page by page;
// their later queries have neither Newest nor Backwards. Errors: as Logs.
func (s *Tasks) LogStart(ctx context.Context, ref task.Ref, q LogQuery) (string, error) {
	if err := task.ValidateRef(ref); err != nil {
		return "", err
	}
	q, err := s.fromNewest(ctx, ref, q)
	if err != nil {
		return "", err
	}
	if !q.Backwards {
		q.Limit = 1
		_, err := s.Logs(ctx, ref, q) // which refuses what cannot be read
		return q.After, err
	}
	start := q.After
	for {
		page, err := s.Logs(ctx, ref, q)
		if err != nil {
			return "", err
		}
		if len(page.Lines) > 0 {
			start = before(page.Lines[0].Cursor)
		}
		q.Limit, q.Before = q.Limit-len(page.Lines), page.First
		if q.Limit <= 0 || !page.More {
			return start, nil
		}
	}
}

// before returns the cursor before that of a line: lines are numbered from 1.
func before(cursor string) string {
	attempt, number, _ := strings.Cut(cursor, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 {
		return cursor
	}
	return fmt.Sprintf("%s-%d", attempt, n-1)
}

// fromNewest replaces Newest by the cursor after which the lines of the newest attempt begin.
func (s *Tasks) fromNewest(ctx context.Context, ref task.Ref, q LogQuery) (LogQuery, error) {
	if !q.Newest {
		return q, nil
	}
	q.Newest = false
	t, err := s.get(ctx, ref, true)
	if err != nil {
		return q, err
	}
	newest := t.Attempt
	if t.State == task.Queued { // for an attempt that has not begun
		newest--
	}
	if newest < 1 {
		return q, nil
	}
	if q.After != "" {
		if attempt, err := cursorAttempt("after", q.After); err != nil || attempt >= newest {
			return q, err
		}
	}
	q.After = fmt.Sprintf("%d-0", newest)
	return q, nil
}

// bounds returns the ids between which the lines are, as Redis wants them. Error: CodeInvalid for a cursor.
func (q LogQuery) bounds() (from, to string, _ error) {
	from, to = "-", "+"
	if q.Attempt > 0 {
		from, to = strconv.Itoa(q.Attempt), strconv.Itoa(q.Attempt)
	}
	if q.After != "" {
		attempt, err := cursorAttempt("after", q.After)
		if err != nil {
			return "", "", err
		}
		if attempt >= q.Attempt {
			from = "(" + q.After
		}
	}
	if q.Before != "" {
		attempt, err := cursorAttempt("before", q.Before)
		if err != nil {
			return "", "", err
		}
		if q.Attempt == 0 || attempt <= q.Attempt {
			to = "(" + q.Before
		}
	}
	return from, to, nil
}

// cursorAttempt is the number of the attempt in the cursor of a line, which may be damaged. Error: CodeInvalid.
func cursorAttempt(field, cursor string) (int, error) {
	m := cursorPattern.FindStringSubmatch(cursor)
	if m == nil || strings.Trim(cursor, "0") == "-" { // Redis has no entry 0-0
		return 0, task.Invalid(field, "%q must be the cursor of a log line", cursor)
	}
	return strconv.Atoi(m[1])
}

// logReading is a page of a log that is being read.
type logReading struct {
	q        LogQuery
	ref      task.Ref
	from, to string // of what is left to read
	text     string // of the query, in lower case
	page     LogPage
	portions layout.Portions
	begun    bool // something was read
	done     bool
}

// chunk is how many entries the next round trip reads.
func (r *logReading) chunk() int {
	if r.q.Stream != "" || r.q.Text != "" {
		return filteredChunk
	}
	return max(1, r.q.Limit-len(r.page.Lines))
}

// readLog reads the next n entries, and at first whether the task exists. Errors: CodeTaskNotFound, CodeUnavailable.
func (s *Tasks) readLog(ctx context.Context, r *logReading, n int) ([]redis.XMessage, error) {
	k := s.l.KeysOf(r.ref)
	pipe := s.l.DB.Pipeline()
	exists := pipe.HExists(ctx, string(k.Defs()), r.ref.String())
	var entries *redis.XMessageSliceCmd
	if r.q.Backwards {
		entries = pipe.XRevRangeN(ctx, string(k.Log(r.ref)), r.to, r.from, int64(n))
	} else {
		entries = pipe.XRangeN(ctx, string(k.Log(r.ref)), r.from, r.to, int64(n))
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, layout.Unavailable(err)
	}
	if !r.begun && !exists.Val() && exists.Err() == nil {
		return nil, s.missing(ctx, r.ref)
	}
	r.begun = true
	return entries.Val(), nil
}

// take adds entries to the page until it is full. asked is how many were asked for.
func (r *logReading) take(ctx context.Context, entries []redis.XMessage, asked int) error {
	for _, e := range entries {
		if r.full() {
			break
		}
		if err := r.add(ctx, e); err != nil {
			return err
		}
	}
	r.page.More = len(entries) == asked || r.full()
	r.done = !r.page.More || r.full()
	return nil
}

func (r *logReading) full() bool { return len(r.page.Lines) >= r.q.Limit || r.portions.Full() }

// add adds an entry to the page if it is wanted, and goes on behind it.
func (r *logReading) add(ctx context.Context, e redis.XMessage) error {
	line, err := decodeLine(e)
	switch {
	case err == nil:
		wanted := r.wants(line)
		if wanted {
			r.page.Lines = append(r.page.Lines, line)
		}
		r.portions.Read(layout.TextBytes(line.Text), wanted)
	case !redisx.LeaveOut(ctx, "task %s: %v", r.ref, err):
		return unreadablePart(r.ref, err)
	}
	if r.q.Backwards {
		r.to, r.page.First = "("+e.ID, e.ID
		if r.page.Last == "" {
			r.page.Last = e.ID
		}
		return nil
	}
	r.from, r.page.Last = "("+e.ID, e.ID
	if r.page.First == "" {
		r.page.First = e.ID
	}
	return nil
}

// wants reports whether the filter lets a line through.
func (r *logReading) wants(line task.LogLine) bool {
	return (r.q.Stream == "" || line.Stream == r.q.Stream) && strings.Contains(strings.ToLower(line.Text), r.text)
}

// decodeLine decodes an entry of a task's log.
func decodeLine(e redis.XMessage) (task.LogLine, error) {
	attempt, err := attemptOf(e.ID)
	line := task.LogLine{
		Cursor: e.ID, Attempt: attempt, Stream: codec.Text(e.Values["stream"]),
		At: codec.FromMS(codec.Number(codec.Text(e.Values["at"]))), Text: codec.Text(e.Values["text"]),
	}
	if err == nil && line.At.IsZero() {
		err = fmt.Errorf("the line %s of its log has no time", e.ID)
	}
	return line, err
}

// CheckLine returns an error if an entry of a task's log cannot be read.
func CheckLine(e redis.XMessage) error {
	_, err := decodeLine(e)
	return err
}

// cursorPattern is that of ids of lines, also of those that cannot be read.
var cursorPattern = regexp.MustCompile(`^(\d{1,18})-\d{1,18}$`)

var linePattern = regexp.MustCompile(`^(\d{1,9})-\d{1,18}$`)

// attemptOf is the number of the attempt that wrote a log line. A line's id is "<attempt>-<number of the line>".
func attemptOf(id string) (int, error) {
	m := linePattern.FindStringSubmatch(id)
	if m == nil {
		return 0, fmt.Errorf("%q is not the id of a log line, want <attempt>-<line>", id)
	}
	return strconv.Atoi(m[1])
}
