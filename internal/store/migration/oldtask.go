package migration

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// oldTask is a task as the layouts 1 and 2 hold it.
type oldTask struct {
	member, key string
	fields      map[string]string
	last        string // the newest entry of the list of attempts
	unreadable  error  // what Redis answered instead
}

// read reads tasks. Those that have no hash, because they are converted, are left out.
func (p *partition) read(ctx context.Context, members []string) ([]oldTask, error) {
	pipe := p.DB.Pipeline()
	keys := make([]string, len(members))
	hashes, attempts := make([]*redis.MapStringStringCmd, len(members)), make([]*redis.StringCmd, len(members))
	for i, member := range members {
		ref := refOf(member)
		keys[i] = string(p.keys.OldTask(ref))
		hashes[i], attempts[i] = pipe.HGetAll(ctx, keys[i]), pipe.LIndex(ctx, string(p.keys.Attempts(ref)), -1)
	}
	if len(members) == 0 {
		return nil, nil
	}
	if _, err := pipe.Exec(ctx); err != nil && !isReplyFor(err) {
		return nil, err
	}
	var found []oldTask
	for i, member := range members {
		o := oldTask{member: member, key: keys[i], fields: hashes[i].Val(), last: attempts[i].Val(), unreadable: hashes[i].Err()}
		for _, err := range []error{hashes[i].Err(), attempts[i].Err()} {
			if err != nil && !isReplyFor(err) {
				return nil, err
			}
		}
		if len(o.fields) > 0 || o.unreadable != nil {
			found = append(found, o)
		}
	}
	return found, nil
}

// refOf is the name of a task that may be invalid.
func refOf(member string) task.Ref {
	namespace, id, _ := strings.Cut(member, ":")
	return task.Ref{Namespace: namespace, ID: id}
}

// isReplyFor reports whether err is Redis's answer for one key: it does not exist, or is of another type.
func isReplyFor(err error) bool {
	return errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "WRONGTYPE")
}

// convert returns the task in the new form. Error: it cannot be read.
func (o oldTask) convert() (lua.ConvertTask, error) {
	t, err := o.decode()
	if err != nil {
		return lua.ConvertTask{}, err
	}
	state, held := "", time.Time{}
	if t.State != task.Scheduled || t.Attempt > 0 || t.MaxAttempts > 0 {
		state = codec.FormatState(t)
	}
	if t.State == task.Running {
		held = t.StartedAt // its worker is stopped, so the lease of the run is over
	}
	c := lua.ConvertTask{
		Member: t.Ref, Created: int(t.CreatedAt.UnixMilli()), Def: o.fields["def"], State: state, Original: o.fields["original"],
		Result: o.fields["result"], Reason: o.fields["error"], Held: held, Ended: t.Outcome != "",
	}
	return c, o.check(t, c)
}

// decode reads the fields. Error: one of them cannot be read.
func (o oldTask) decode() (task.Task, error) {
	ref, err := task.ParseRef(o.member)
	if err := errors.Join(o.unreadable, err); err != nil {
		return task.Task{}, err
	}
	f := fields{of: o.fields}
	t := task.Task{
		Definition: task.Definition{Ref: ref}, State: task.State(o.fields["state"]), Attempt: f.number("attempt"),
		MaxAttempts: max(f.number("max_attempts"), f.number("allowed")), // layout 1 calls it allowed
		CreatedAt:   f.time("created"), FirstDueAt: f.time("first_due"), DueAt: f.time("due"), QueuedAt: f.time("queued"),
		StartedAt: f.time("started"), Progress: f.number("progress"), CancelRequested: f.time("cancel"),
		FinishedAt: f.time("finished"), Node: o.fields["node"], Run: o.fields["run"],
	}
	if node := nodeOf(t.Run); node != t.Node { // a leader ended the attempt, and deleted the token
		t.Run = t.Node + "#"
	}
	t.Outcome = o.endedWith(t)
	return t, errors.Join(f.err, complete(t))
}

// complete returns an error if a task lacks something that the scripts rely on in its state.
func complete(t task.Task) error {
	queued := t.State == task.Queued && !t.QueuedAt.IsZero() && t.StartedAt.IsZero() && t.Run == "" && t.Progress == 0 && t.CancelRequested.IsZero()
	running := t.State == task.Running && !t.StartedAt.IsZero() && t.Run != ""
	if queued || running || t.State == task.Scheduled || t.State.Final() && !t.FinishedAt.IsZero() {
		return nil
	}
	return fmt.Errorf("its state is %q, and something that belongs to it is missing, or something else is there", t.State)
}

// nodeOf is the node that made a run token.
func nodeOf(run string) string { return run[:max(0, strings.LastIndexByte(run, '#'))] }

// endedWith is the outcome of the newest attempt if the task ended with it. The record of that attempt is the last one of the
// list, and says nothing that the task does not say too. A task that was cancelled while it waited did not end with an
// attempt.
func (o oldTask) endedWith(t task.Task) task.Outcome {
	if !t.State.Final() || t.State == task.Cancelled && t.CancelRequested.IsZero() {
		return ""
	}
	last, err := codec.DecodeAttempt(o.last)
	if err != nil || len(strings.Fields(string(last.Outcome))) != 1 {
		return ""
	}
	same := task.Attempt{
		Number: t.Attempt, Node: t.Node, StartedAt: t.StartedAt, FinishedAt: t.FinishedAt, Outcome: last.Outcome, Error: o.fields["error"],
	}
	if last != same {
		return ""
	}
	return last.Outcome
}

// check returns an error if the new form would not be read as the task that it was.
func (o oldTask) check(t task.Task, c lua.ConvertTask) error {
	if !strings.Contains(c.Def, "\n") {
		return errors.New("its definition has no first line")
	}
	created := strconv.Itoa(c.Created)
	if len(created) != 13 {
		return fmt.Errorf("the time of its creation, %s, is not one", created)
	}
	got := codec.DecodeTask(t.Ref, codec.Record{Definition: created + c.Def, State: c.State})
	switch {
	case got.Type == "", got.State == task.Unreadable:
		return errors.New(got.Damage)
	case got.Run != t.Run || got.State != t.State || !got.FinishedAt.Equal(t.FinishedAt):
		return fmt.Errorf("its state would be %q", c.State)
	}
	return nil
}

// fields reads numbers, and keeps the first error.
type fields struct {
	of  map[string]string
	err error
}

func (f *fields) integer(name string) int64 {
	text := f.of[name]
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if (err != nil || n < 0) && f.err == nil {
		f.err = fmt.Errorf("%s is %q", name, text)
	}
	return n
}

func (f *fields) number(name string) int { return int(f.integer(name)) }

func (f *fields) time(name string) time.Time { return codec.FromMS(f.integer(name)) }
