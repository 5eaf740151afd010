package web

import (
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Tries is how many attempts of a task have begun or are to begin next. An attempt that no worker had begun when the
// task was cancelled does not count.
func (v *visit) Tries(t task.Task) int {
	if t.State == task.Cancelled && t.StartedAt.IsZero() {
		return max(t.Attempt-1, 0)
	}
	return t.Attempt
}

// Lasted is how long an attempt took, or has taken so far.
func (v *visit) Lasted(a task.Attempt) string {
	end := a.FinishedAt
	if end.IsZero() {
		end = v.now
	}
	if a.StartedAt.IsZero() {
		return ""
	}
	return v.Took(max(end.Sub(a.StartedAt), time.Duration(0)))
}

// isLong reports whether a row shows only the beginning of an error.
func isLong(reason string) bool { return len(reason) > shownReason || strings.Contains(reason, "\n") }

// wholeErrors are the errors that are longer than their rows show, by the numbers of their attempts. It has as many of
// the newest ones as fit into room, in bytes of HTML. more: there are others.
func wholeErrors(newestFirst []task.Attempt, room int) (whole map[int]string, more bool) {
	whole = make(map[int]string)
	for _, a := range newestFirst {
		if !isLong(a.Error) {
			continue
		}
		text := cutHTML(a.Error, shownError)
		if room -= htmlBytes(text) + errorMarkup; room < 0 {
			return whole, true
		}
		whole[a.Number] = text
	}
	return whole, false
}
