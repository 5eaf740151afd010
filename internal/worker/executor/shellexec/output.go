package shellexec

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

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

// saveTime is how long saving a checkpoint may take. It is not bound to the end of the attempt's time: a command that is told to stop
// may save one.
const saveTime = 5 * time.Second

// output takes the lines of a command as they come. stdout and stderr are each called by one goroutine; result and
// complaint may be called after both have ended.
type output struct {
	ctx     context.Context // of the attempt, whose end does not matter here
	attempt executor.Attempt
	tail    tail
	lastErr string
	gaveUp  bool // the attempt's time is over, and a checkpoint could not be saved: further ones would only take time
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
	o.attempt.Log("stdout", line)
	o.tail.add(line)
}

// save saves a checkpoint. The log says why if that fails; the command finds out when it reads DTS_CHECKPOINT in the next attempt.
func (o *output) save(checkpoint string) {
	if o.gaveUp || errors.Is(context.Cause(o.ctx), executor.ErrNoGrace) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.ctx), saveTime)
	defer cancel()
	err := o.attempt.Save(ctx, json.RawMessage(checkpoint))
	if err == nil || errors.Is(err, executor.ErrNotCurrent) {
		return
	}
	o.attempt.Log("stderr", task.Cut("::checkpoint: not saved: "+err.Error(), task.LogLineLimit))
	o.gaveUp = o.ctx.Err() != nil && task.CodeOf(err) != task.CodeInvalid
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
