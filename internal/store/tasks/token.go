package tasks

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
)

// tokenSeparator separates the parts of a token. Ids of nodes cannot contain it.
const tokenSeparator = "~"

// Token returns the text with which somebody who does not reach Redis reports on the run, through any node: the run token, when the
// attempt was claimed and begun, the limit, the lease, and the signature of these and the name of the attempt. So a node needs no other record of
// the run, and nobody can make one up.
func (r *Run) Token() string {
	t := r.Task
	body := strings.Join([]string{
		t.Run, encodeTime(t.QueuedAt), encodeTime(t.StartedAt), encodeTime(r.Limit), encodeNumber(r.Lease.Milliseconds()),
	}, tokenSeparator)
	return body + tokenSeparator + r.s.l.Sign(signedText(t.Ref, t.Attempt, body))
}

// RunWith returns the run of a task's attempt whose token that is, without a call to Redis: Task has what the token says.
// Error: CodeInvalid if it is none of that attempt.
func (s *Tasks) RunWith(ref task.Ref, attempt int, token string) (*Run, error) {
	invalid := task.Invalid("token", "is not the token of attempt %d of task %q", attempt, ref.ID)
	i := strings.LastIndex(token, tokenSeparator)
	if i < 0 || !s.l.Signed(signedText(ref, attempt, token[:i]), token[i+1:]) {
		return nil, invalid
	}
	parts := strings.Split(token[:i], tokenSeparator)
	if len(parts) != 5 {
		return nil, invalid
	}
	t := task.Task{
		Definition: task.Definition{Ref: ref}, State: task.Running, Attempt: attempt, Run: parts[0],
		QueuedAt: decodeTime(parts[1]), StartedAt: decodeTime(parts[2]),
	}
	run := s.RunOf(t)
	run.Limit, run.Lease = decodeTime(parts[3]), time.Duration(decodeNumber(parts[4]))*time.Millisecond
	return run, nil
}

func signedText(ref task.Ref, attempt int, body string) string {
	return fmt.Sprintf("%s:%d %s", ref, attempt, body)
}

// encodeTime writes a time in few characters; "0" for none.
func encodeTime(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return encodeNumber(t.UnixMilli())
}

func decodeTime(text string) time.Time { return codec.FromMS(decodeNumber(text)) }

func encodeNumber(n int64) string { return strconv.FormatInt(n, 36) }

func decodeNumber(text string) int64 {
	n, _ := strconv.ParseInt(text, 36, 64) // what was signed can be read
	return n
}
