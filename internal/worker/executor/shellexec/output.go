package shellexec

import (
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/worker/executor"
)

// output takes the lines of a command as they come. stdout and stderr are each called by one goroutine; result and
// complaint may be called after both have ended.
type output struct {
	attempt executor.Attempt
	tail    tail
	lastErr string
}

// stdout takes a line of standard output. A line "::progress 40" reports progress; any other line goes into the log
// and, if it is one of the last, into the result.
func (o *output) stdout(line string) {
	if percent, ok := parseProgress(line); ok {
		o.attempt.Progress(percent)
		return
	}
	o.attempt.Log("stdout", line)
	o.tail.add(line)
}

func (o *output) stderr(line string) {
	o.attempt.Log("stderr", line)
	if strings.TrimSpace(line) != "" {
		o.lastErr = line
	}
}

func (o *output) result() string { return o.tail.String() }

// complaint is ": " and the last line of standard error that is not blank, or "" if there is none.
func (o *output) complaint() string {
	if o.lastErr == "" {
		return ""
	}
	return ": " + o.lastErr
}

func parseProgress(line string) (percent int, ok bool) {
	number, ok := strings.CutPrefix(line, "::progress ")
	if !ok {
		return 0, false
	}
	percent, err := strconv.Atoi(strings.TrimSpace(number))
	return percent, err == nil && percent >= 0 && percent <= 100
}
