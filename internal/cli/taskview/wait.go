package taskview

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// WaitOptions says which task to wait for.
type WaitOptions struct {
	Client  *rest.Client
	Printer *printer.Printer

	ID      string
	Unnamed bool          // DTS chose the id: it is told first, as the user needs it if the wait is interrupted
	Timeout time.Duration // 0 means no limit
}

// errTimeout is the cause of the end of the context when the task takes longer than the timeout.
var errTimeout = errors.New("the timeout of the wait has passed")

// Wait waits for the end of a task and prints how it ended. It returns command.ErrReported if the task did not succeed,
// or not in time. It outlasts a server that goes away after it has answered once.
func Wait(ctx context.Context, opts WaitOptions) error {
	if opts.Unnamed {
		opts.Printer.Notef("submitted %s", opts.ID)
	}
	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opts.Timeout, errTimeout)
		defer cancel()
	}
	line := statusLine{StatusLine: printer.StatusLine{Printer: opts.Printer}, id: opts.ID}
	end, err := opts.Client.Wait(ctx, rest.Wait{ID: opts.ID, Show: line.show, Silent: line.silent})
	line.Clear()
	if err != nil && errors.Is(context.Cause(ctx), errTimeout) {
		opts.Printer.Errorf("%s has not ended within %s", opts.ID, opts.Timeout)
		return command.ErrReported
	}
	if err != nil {
		return err
	}
	if err := Show(opts.Printer, end); err != nil {
		return err
	}
	if err := showResult(opts.Printer, end.Value); err != nil {
		return err
	}
	if end.Value.State == wire.StateSucceeded {
		return nil
	}
	if !opts.Printer.ForPeople() { // who have read the reason above
		opts.Printer.Errorf("%s", Reason(end.Value))
	}
	return command.ErrReported
}

// showResult prints for people what a task returned, below the sentence about its end.
func showResult(p *printer.Printer, t wire.Task) error {
	if t.Result == nil || !p.ForPeople() {
		return nil
	}
	return p.Printf("%s\n", strings.TrimRight(printer.Scrub(*t.Result), "\n"))
}

// statusLine tells about a task until it has ended.
type statusLine struct {
	printer.StatusLine
	id       string
	silences int // reads in a row without an answer
}

// silencesBorne is after how many reads without an answer the user is told. There is one read a second.
const silencesBorne = 3

// show draws the state of the task until it has ended; Wait prints the end.
func (l *statusLine) show(s rest.Sight) {
	l.silences = 0
	if rest.IsEnd(s.State) {
		return
	}
	l.warn(s.Warnings)
	text := fmt.Sprintf("%s %s", l.id, s.State)
	if s.Attempt > 0 {
		text += fmt.Sprintf(", attempt %d", s.Attempt)
	}
	if s.State == wire.StateRunning && s.Progress > 0 {
		text += fmt.Sprintf(", %d %%", s.Progress)
	}
	if s.State == wire.StateRunning && s.Note != "" {
		text += ", " + printer.Flat(s.Note)
	}
	l.Draw(text)
}

// warn says what the wait is for, each thing once.
func (l *statusLine) warn(warnings []string) {
	if len(warnings) > 0 {
		l.Clear()
		l.Printer.Warn(warnings)
	}
}

func (l *statusLine) silent(reason error) {
	if l.silences++; l.silences == silencesBorne {
		l.Clear()
		l.Printer.Notef("waiting for %s: the API does not answer, trying again (%v)", l.id, reason)
	}
	l.Draw(fmt.Sprintf("%s: the server does not answer, trying again", l.id))
}
