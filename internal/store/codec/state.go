package codec

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// DecodeState reads a state, as lua/include/state.lua writes it, into a task; "" changes nothing. Error: it does not
// begin with a state and an attempt.
func DecodeState(t *task.Task, text string) error {
	if text == "" {
		return nil
	}
	f := strings.Fields(text)
	if len(f) < 2 || !task.State(f[0]).Valid() || !isNumber(f[1]) {
		return fmt.Errorf("its state %q cannot be read", task.CutMiddle(text, damageLimit))
	}
	field := func(i int) string {
		if i < len(f) && f[i] != "0" {
			return f[i]
		}
		return ""
	}
	at := func(i int) time.Time { return FromMS(Number(field(i))) }
	t.State, t.Attempt = task.State(f[0]), int(Number(f[1]))
	attempts, limits, _ := strings.Cut(field(2), limitsMark)
	attempts, node, _ := strings.Cut(attempts, nodeMark)
	t.Placed = node
	if n := int(Number(strings.TrimSuffix(attempts, followUpMark))); n > 0 {
		t.MaxAttempts = n
	}
	if limits != "" {
		t.Limits, _ = task.SplitLimits(limits)
	}
	t.FirstDueAt, t.QueuedAt, t.StartedAt = at(3), at(5), at(6)
	if due := at(4); !due.IsZero() {
		t.DueAt = due
	}
	if t.FirstDueAt.IsZero() && t.State != task.Scheduled { // the newest attempt is the first one
		t.FirstDueAt = t.DueAt
	}
	t.Run, t.CancelRequested = field(7), at(9)
	t.Progress, t.ProgressNote = decodeProgress(field(8))
	t.FinishedAt, t.Outcome = at(10), task.Outcome(field(11))
	decodeMove(t, field(12))
	t.Node = NodeOf(t.Run)
	return nil
}

// moveSeparator is between the parts of the field moving of a state.
const moveSeparator = ":"

// decodeMove reads the field moving of a state: when and to which node the task was asked to move, who asked, and which
// node has given it up.
func decodeMove(t *task.Task, field string) {
	at, rest, _ := strings.Cut(field, moveSeparator)
	to, rest, _ := strings.Cut(rest, moveSeparator)
	by, from, _ := strings.Cut(rest, moveSeparator)
	by, _ = url.QueryUnescape(by)
	t.MoveRequested, t.MoveTo, t.MoveBy, t.MovedFrom = FromMS(Number(at)), to, by, from
}

// FormatAsker returns who asks for a move as it is in a state.
func FormatAsker(by string) string { return url.QueryEscape(by) }

// formatMove returns the text that decodeMove reads.
func formatMove(t task.Task) string {
	if t.MoveRequested.IsZero() && t.MovedFrom == "" {
		return "0"
	}
	parts := []string{msText(t.MoveRequested), t.MoveTo, FormatAsker(t.MoveBy)}
	if t.MovedFrom != "" {
		parts = append(parts, t.MovedFrom)
	}
	return strings.Join(parts, moveSeparator)
}

// isNumber reports whether a text is a number from 0 on, in decimal.
func isNumber(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 0
}

// NodeOf returns the node that made a run token; "" for none.
func NodeOf(run string) string { return run[:max(strings.LastIndexByte(run, '#'), 0)] }

// decodeProgress reads the progress in a state: a percentage, and a colon and a note behind it if there is one. What
// cannot be read is left out.
func decodeProgress(field string) (percent int, note string) {
	number, encoded, _ := strings.Cut(field, ":")
	note, _ = url.PathUnescape(encoded)
	if percent = int(Number(number)); percent < 0 || percent > 100 {
		percent = 0
	}
	return percent, note
}

// followUpMark is behind the number of attempts if the leader must act on the end of the task.
const followUpMark = ">"

// nodeMark is behind that, and before the node to which alone the task was handed over.
const nodeMark = "@"

// limitsMark is behind that, and before the limits of a task.
const limitsMark = "+"

// FormatState writes a state as lua/include/state.lua does, of a task that has ended as one that owes no follow-up.
// The number of attempts and the time of the first one are 0 if the definition, or the due time, says them.
func FormatState(t task.Task) string {
	attempts := strconv.Itoa(t.MaxAttempts)
	_, _, isStep := t.Definition.Run()
	if (t.OnEnd != nil || t.Once != nil || isStep) && (t.State == task.Queued || t.State == task.Running) {
		attempts += followUpMark
	}
	if t.Placed != "" {
		attempts += nodeMark + t.Placed
	}
	if len(t.Limits) > 0 && !t.State.Final() {
		attempts += limitsMark + task.JoinLimits(t.Limits, t.Cost)
	}
	fields := []string{
		string(t.State), strconv.Itoa(t.Attempt), attempts, msText(t.FirstDueAt), msText(t.DueAt),
		msText(t.QueuedAt), msText(t.StartedAt), cmp.Or(t.Run, "0"), strconv.Itoa(t.Progress), msText(t.CancelRequested),
		msText(t.FinishedAt), cmp.Or(string(t.Outcome), "0"), formatMove(t),
	}
	for len(fields) > 2 && fields[len(fields)-1] == "0" {
		fields = fields[:len(fields)-1]
	}
	return strings.Join(fields, " ")
}

func msText(t time.Time) string { return strconv.FormatInt(toMS(t), 10) }
