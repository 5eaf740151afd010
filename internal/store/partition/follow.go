package partition

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// unreadPause is for how long the outbox keeps an entry that nobody can read, as one of a later release, until the next
// look.
const unreadPause = time.Minute

// Followed is what became of entries of the outbox.
type Followed struct {
	Now     time.Time  // of Redis, when they were read
	Next    time.Time  // when the next entry is due; zero if there is none
	Created []task.Ref // follow-ups
	Unread  []string   // entries that this release cannot read
}

// Follow creates the tasks that follow ends, for up to limit entries of the outbox, and removes these. Errors:
// ErrFenced, CodeUnavailable, or one of Redis.
func (l *Leader) Follow(ctx context.Context, limit int) (f Followed, _ error) {
	outbox, err := redisx.Run(ctx, l.o.Layout.DB, lua.ReadOutbox{Outbox: l.keys.Outbox(), Limit: limit})
	f.Now, f.Next = outbox.Now, outbox.Next
	if err != nil || len(outbox.Entries) == 0 {
		return f, err
	}
	ends := make([]end, len(outbox.Entries)) // without a name for an entry that nobody can read
	var refs []task.Ref
	for i, entry := range outbox.Entries {
		if e, ok := parseEnd(entry.Entry); ok {
			ends[i], refs = e, append(refs, e.ref)
		} else {
			f.Unread = append(f.Unread, entry.Entry)
		}
	}
	parents, err := l.parents(ctx, refs)
	if err != nil {
		return f, err
	}
	call := lua.Follow{
		Lease: l.keys.Lease(), Defs: l.keys.Defs(), Outbox: l.keys.Outbox(), Fence: l.fence,
		Events: l.o.Layout.Keys.Events(), Wake: l.o.Layout.Keys.Wake(l.number), Items: nil,
	}
	for i, entry := range outbox.Entries {
		item := lua.FollowItem{
			Entry: entry.Entry, Parent: ends[i].ref, Child: "", Def: "", Traced: "", Due: time.Time{}, Later: time.Time{},
		}
		if ends[i].ref == (task.Ref{}) {
			item.Later = f.Now.Add(unreadPause)
		} else {
			l.addFollowUp(ctx, &item, entry.At, parents[ends[i].ref], ends[i])
		}
		call.Items = append(call.Items, item)
	}
	reply, err := redisx.Run(ctx, l.o.Layout.DB, call)
	if err != nil {
		return f, fenced(err)
	}
	for i, answer := range reply.Answers {
		if answer == "new" {
			ref, _ := task.ParseRef(call.Items[i].Child)
			f.Created = append(f.Created, ref)
		}
	}
	return f, nil
}

// parents reads the tasks that ended. Error: CodeUnavailable.
func (l *Leader) parents(ctx context.Context, refs []task.Ref) (map[task.Ref]task.Task, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	found, err := l.o.Tasks.GetEach(ctx, refs)
	parents := make(map[task.Ref]task.Task, len(found))
	for _, t := range found {
		parents[t.Ref] = t
	}
	return parents, err
}

// addFollowUp adds the task that follows an end, if one does. t is the task that ended; it has no type if it is gone,
// or cannot be read.
func (l *Leader) addFollowUp(ctx context.Context, item *lua.FollowItem, at time.Time, t task.Task, e end) {
	if t.Type == "" {
		l.o.Layout.Log.ErrorContext(ctx, "nothing follows a task that cannot be read",
			"task", e.ref.String(), "error", t.Damage)
		return
	}
	d, follows := t.Follow(e.attempt, e.state)
	if !follows {
		return
	}
	def, err := codec.EncodeDefinition(d)
	if err != nil {
		l.o.Layout.Log.ErrorContext(ctx, "the follow-up of a task cannot be stored", "task", e.ref.String(), "error", err)
		return
	}
	item.Child, item.Def, item.Due = d.Ref.String(), def, at.Add(d.Delay)
	if d.Trace != "" {
		item.Traced = codec.WithTrace(def, d.Trace)
	}
}

// end is the end of a task.
type end struct {
	ref     task.Ref
	attempt int
	state   task.State
}

// parseEnd reads an entry of the outbox: `end <ref> <attempt> <state>`.
func parseEnd(entry string) (e end, ok bool) {
	f := strings.Fields(entry)
	if len(f) != 4 || f[0] != "end" || !task.State(f[3]).Valid() {
		return end{}, false
	}
	ref, errRef := task.ParseRef(f[1])
	attempt, errNumber := strconv.Atoi(f[2])
	return end{ref, attempt, task.State(f[3])}, errRef == nil && errNumber == nil
}
