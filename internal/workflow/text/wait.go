package text

import (
	"encoding/json"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/words"
)

// ParseWait reads what a step waits for. Error: CodeInvalid for durations, in fields such as "timeout".
func ParseWait(in words.Wait) (*workflow.Wait, error) {
	var r reader
	out := &workflow.Wait{
		For: r.span("for", in.For), Until: in.Until, Signal: in.Signal, Timeout: r.span("timeout", in.Timeout),
		OnTimeout: workflow.OnTimeout(in.OnTimeout),
	}
	if a := in.Approval; a != nil {
		out.Approval = &workflow.Approval{By: a.By, Form: paramsOf(a.Form)}
	}
	return out, task.Join(r.errs...)
}

// EncodeWait writes what a step waits for as JSON; nil for nothing.
func EncodeWait(w *workflow.Wait) (json.RawMessage, error) {
	if w == nil {
		return nil, nil
	}
	return json.Marshal(textOfWait(w))
}

// textOfWait writes what a step waits for; nil for nothing.
func textOfWait(w *workflow.Wait) *words.Wait {
	if w == nil {
		return nil
	}
	out := &words.Wait{
		For: span(w.For), Until: w.Until, Signal: w.Signal, Timeout: span(w.Timeout), OnTimeout: string(w.OnTimeout),
	}
	if a := w.Approval; a != nil {
		out.Approval = &words.Approval{By: a.By, Form: textsOfParams(a.Form)}
	}
	return out
}
