package executor

import (
	"strconv"
	"strings"
)

// output takes a command's lines as they come. stdout and stderr are each called by one goroutine, and
// result and complaint are for after their end.
type output struct {
	attempt Attempt
	tail    tail
	lastErr string
}

// stdout takes a line of standard output: a line "::progress 40" is progress, any other is log and,
// if it is one of the last, result.
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

// complaint is ": " and the last line of standard error, or nothing.
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
