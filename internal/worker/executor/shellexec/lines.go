package shellexec

import (
	"bytes"
	"io"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

const (
	readSize  = 32 << 10
	tailLimit = 20 // lines of output that make the result
)

// wholeWrite is less than what programs gather before they write. A longer write may end anywhere in a text; a shorter
// one ends where the program meant it to.
const wholeWrite = 4096

// showEvery is how often the states of an unfinished line are shown: after a tenth of the time that it has taken so
// far, and not more than once in showLeast.
const (
	showLeast = time.Second
	showEvery = 10
)

// lineReader reads lines of any length in bounded memory. Programs draw progress in one line: each carriage return in
// it begins a new state of the line, and only the newest one counts, as on a terminal.
type lineReader struct {
	emit func(line string)  // takes every line, when it has ended
	show func(state string) // takes states of a line that has not ended, now and then

	line    []byte // the newest state: its beginning
	former  []byte // the last state before that was not empty
	redrawn bool   // the line has had a carriage return

	began, shown time.Time // of the first carriage return, and of the last call of show
}

// readLines calls emit with every line of r, without its line end and cut at task.LogLineLimit, or at checkpointLine
// if it begins with checkpointPrefix. Text after the last line end is a line too. It returns the error of r, or nil at
// io.EOF.
func readLines(r io.Reader, emit, show func(line string)) error {
	l := &lineReader{emit: emit, show: show, line: make([]byte, 0, task.LogLineLimit+over)}
	buf := make([]byte, readSize)
	for {
		n, err := r.Read(buf)
		l.take(buf[:n])
		if err != nil {
			if len(l.line) > 0 || l.redrawn {
				l.end()
			}
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
}

// take takes what one read has returned.
func (l *lineReader) take(chunk []byte) {
	whole := len(chunk) < wholeWrite
	for {
		end := bytes.IndexByte(chunk, '\n')
		if end < 0 {
			break
		}
		l.fill(chunk[:end])
		l.end()
		chunk = chunk[end+1:]
	}
	l.fill(chunk)
	if l.redrawn {
		l.showSometimes(whole)
	}
}

// fill adds a text without line ends to the line.
func (l *lineReader) fill(text []byte) {
	for {
		at := bytes.IndexByte(text, '\r')
		if at < 0 {
			l.line = fill(l.line, text)
			return
		}
		l.line = fill(l.line, text[:at])
		l.redraw()
		text = text[at+1:]
	}
}

// redraw begins a new state.
func (l *lineReader) redraw() {
	if len(l.line) > 0 {
		l.line, l.former = l.former[:0], l.line
	}
	l.redrawn = true
}

// newest returns the state that counts: that before a carriage return at the end, as of a Windows line end.
func (l *lineReader) newest() []byte {
	if len(l.line) == 0 {
		return l.former
	}
	return l.line
}

func (l *lineReader) end() {
	l.emit(lineText(l.newest()))
	l.line, l.former, l.redrawn = l.line[:0], l.former[:0], false
	l.began, l.shown = time.Time{}, time.Time{}
}

// showSometimes shows the newest state that is whole, unless one was shown lately.
func (l *lineReader) showSometimes(whole bool) {
	state := l.former
	if whole {
		state = l.newest()
	}
	now := clock.Now()
	if l.began.IsZero() {
		l.began = now
	}
	pause := max(showLeast, now.Sub(l.began)/showEvery)
	if now.Sub(l.shown) >= pause && len(bytes.TrimSpace(state)) > 0 {
		l.shown = now
		l.show(lineText(state))
	}
}

// over is how much more of a line than its limit is kept, so that task.Cut notices longer ones.
const over = 8

// fill appends as much of more as the limit of the line allows, and drops the rest.
func fill(line, more []byte) []byte {
	n := max(0, min(len(more), task.LogLineLimit+over-len(line)))
	line, more = append(line, more[:n]...), more[n:]
	if len(more) == 0 || !bytes.HasPrefix(line, []byte(checkpointPrefix)) {
		return line
	}
	return append(line, more[:max(0, min(len(more), checkpointLine+over-len(line)))]...)
}

func lineText(line []byte) string {
	limit := task.LogLineLimit
	if bytes.HasPrefix(line, []byte(checkpointPrefix)) {
		limit = checkpointLine
	}
	return task.Cut(string(line), limit)
}

// tail keeps the last lines: at most tailLimit of them, and only as many as fit into task.ResultLimit.
type tail struct {
	lines []string
	size  int // in bytes, including line ends
}

func (t *tail) add(line string) {
	t.lines = append(t.lines, line)
	t.size += len(line) + 1
	for len(t.lines) > tailLimit || t.size > task.ResultLimit+1 { // the last line has no line end
		t.size -= len(t.lines[0]) + 1
		t.lines[0] = ""
		t.lines = t.lines[1:]
	}
}

func (t *tail) String() string { return strings.Join(t.lines, "\n") }
