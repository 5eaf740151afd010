package shellexec

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// What lines of standard output begin with that are meant for DTS.
const (
	progressPrefix   = "::progress "
	checkpointPrefix = "::checkpoint "
)

// checkpointLine is the most bytes of a line with a checkpoint, which may have blanks that the stored form does not have.
const checkpointLine = 2 * task.CheckpointLimit

// output takes the lines of a command as they come. stdout and stderr are each called by one goroutine, which calls
// showStdout and showStderr as well; result and complaint may be called after both have ended.
type output struct {
	attempt            executor.Attempt
	tail               tail
	last               complaint
	shownOut, shownErr string // the state of an unfinished line that was logged last; "" if there is none
}

// stdout takes a line of standard output. A line "::progress 40 rows copied" reports progress, and "::checkpoint {...}" saves a
// checkpoint; any other line goes into the log and, if it is one of the last, into the result.
func (o *output) stdout(line string) {
	if percent, note, ok := parseProgress(line); ok {
		o.attempt.Progress(percent, note)
		return
	}
	if checkpoint, ok := strings.CutPrefix(line, checkpointPrefix); ok {
		o.save(checkpoint)
		return
	}
	o.log("stdout", line, &o.shownOut)
	o.tail.add(line)
}

// showStdout takes a state of an unfinished line of standard output. It may end in the middle, which a checkpoint must not.
func (o *output) showStdout(state string) {
	if strings.HasPrefix(state, checkpointPrefix) {
		return
	}
	if percent, note, ok := parseProgress(state); ok {
		o.attempt.Progress(percent, note)
		return
	}
	o.attempt.Log("stdout", state)
	o.shownOut = state
}

func (o *output) showStderr(state string) {
	o.attempt.Log("stderr", state)
	o.shownErr = state
}

// log logs a line, unless it ends as it was shown.
func (o *output) log(stream, line string, shown *string) {
	if line == "" || line != *shown {
		o.attempt.Log(stream, line)
	}
	*shown = ""
}

// save saves a checkpoint soon: a command may write them faster than Redis should save them. The log says why if that
// fails; the command finds out when it reads DTS_CHECKPOINT in the next attempt.
func (o *output) save(checkpoint string) {
	if err := o.attempt.SaveSoon(json.RawMessage(checkpoint)); err != nil {
		o.attempt.Log("stderr", task.Cut("::checkpoint: not saved: "+err.Error(), task.LogLineLimit))
	}
}

func (o *output) stderr(line string) {
	o.log("stderr", line, &o.shownErr)
	o.last.add(line)
}

func (o *output) result() string { return o.tail.String() }

// parseProgress reads "::progress 40" or "::progress 40 rows copied".
func parseProgress(line string) (percent int, note string, ok bool) {
	text, ok := strings.CutPrefix(line, progressPrefix)
	if !ok {
		return 0, "", false
	}
	number, note, _ := strings.Cut(strings.TrimSpace(text), " ")
	percent, err := strconv.Atoi(number)
	return percent, strings.TrimSpace(note), err == nil && percent >= 0 && percent <= 100
}
