package shellexec

import (
	"bytes"
	"io"
	"strings"

	"github.com/dts-sched/dts/internal/task"
)

const (
	readSize  = 32 << 10
	tailLimit = 20 // lines of output that make the result
)

// readLines calls emit with every line of r, without its line end and cut at task.LogLineLimit, or at checkpointLine if it begins
// with checkpointPrefix. Text after the last line end is a line too. Its memory is bounded: it holds one buffer and the beginning of
// one line. It returns the error of r, or nil at io.EOF.
func readLines(r io.Reader, emit func(line string)) error {
	buf := make([]byte, readSize)
	line := make([]byte, 0, task.LogLineLimit+over)
	for {
		n, err := r.Read(buf)
		chunk := buf[:n]
		for {
			end := bytes.IndexByte(chunk, '\n')
			if end < 0 {
				line = fill(line, chunk)
				break
			}
			emit(lineText(fill(line, chunk[:end])))
			line, chunk = line[:0], chunk[end+1:]
		}
		if err != nil {
			if len(line) > 0 {
				emit(lineText(line))
			}
			if err == io.EOF {
				return nil
			}
			return err
		}
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
	return task.Cut(string(bytes.TrimSuffix(line, []byte("\r"))), limit)
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
