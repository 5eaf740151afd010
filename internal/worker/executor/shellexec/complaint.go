package shellexec

import (
	"regexp"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/task"
)

const (
	complaintLines = 5
	complaintLimit = 1 << 10 // bytes, with the line ends between them
)

// complaint is why a command has failed, by its own words: the last lines of its standard error that are not blank.
// The line that names the error often stands above a stack trace, so the lines of a trace make room for what is above
// them.
type complaint struct{ lines []string }

// ofTrace matches lines of stack traces: those of Go, of PHP ("#0 file(3): f()"), and indented ones, as most languages
// have.
var ofTrace = regexp.MustCompile(`^(\s|#\d|goroutine \d|created by |[\w/.-]+\.[\w.(*)\[\]{}-]*\(.*\)$)`)

// add takes the next line. The newest one stays until another one comes.
func (c *complaint) add(line string) {
	line = strings.TrimRight(line, " \t")
	if line == "" {
		return
	}
	if len(c.lines) == complaintLines {
		first := max(0, slices.IndexFunc(c.lines, ofTrace.MatchString))
		c.lines = slices.Delete(c.lines, first, first+1)
	}
	c.lines = append(c.lines, line)
}

// String is ": " and the lines, or "" if there are none. If they are too long, each is cut to the same length.
func (c *complaint) String() string {
	if len(c.lines) == 0 {
		return ""
	}
	text := strings.Join(c.lines, "\n")
	if len(text) > complaintLimit {
		each := complaintLimit/len(c.lines) - 1
		cut := make([]string, len(c.lines))
		for i, line := range c.lines {
			cut[i] = task.Cut(line, each)
		}
		text = strings.Join(cut, "\n")
	}
	return ": " + text
}

// newest is the last line.
func (c *complaint) newest() string { return strings.Join(c.lines[max(0, len(c.lines)-1):], "") }
