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
	parents, err := l.parents(ctx, outbox.Entries)
	if err != nil {
		return f, err
	}
	call := lua.Follow{
		Lease: l.keys.Lease(), Defs: l.keys.Defs(), Outbox: l.keys.Outbox(), Fence: l.fence, Events: l.o.Layout.Keys.Events(),
		Wake: l.o.Layout.Keys.Wake(l.number), Items: nil,
	}
	for _, entry := range outbox.Entries {
		item := lua.FollowItem{Entry: entry.Entry}
		if ref, attempt, state, ok := parseEnd(entry.Entry); ok {
			item = l.followUp(ctx, entry, parents[ref], ref, attempt, state)
		} else {
			f.Unread = append(f.Unread, entry.Entry)
			item.Later = f.Now.Add(unreadPause)
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

// parents reads the tasks of entries. Error: CodeUnavailable.
func (l *Leader) parents(ctx context.Context, entries []lua.ReadOutboxEntry) (map[task.Ref]task.Task, error) {
	var refs []task.Ref
	for _, entry := range entries {
		if ref, _, _, ok := parseEnd(entry.Entry); ok {
			refs = append(refs, ref)
		}
	}
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

// followUp is what the script is to do with an entry: create a task, or only remove the entry if none follows. t has no
// type if the task is gone, or cannot be read.
func (l *Leader) followUp(
	ctx context.Context, entry lua.ReadOutboxEntry, t task.Task, ref task.Ref, attempt int, state task.State,
) lua.FollowItem {
	item := lua.FollowItem{Entry: entry.Entry, Parent: ref}
	if t.Type == "" {
		l.o.Layout.Log.ErrorContext(ctx, "nothing follows a task that cannot be read", "task", ref.String(), "error", t.Damage)
		return item
	}
	d, ok := t.Follow(attempt, state)
	if !ok {
		return item
	}
	def, err := codec.EncodeDefinition(d)
	if err != nil {
		l.o.Layout.Log.ErrorContext(ctx, "the follow-up of a task cannot be stored", "task", ref.String(), "error", err)
		return item
	}
	item.Child, item.Def, item.Due = d.Ref.String(), def, entry.At.Add(d.Delay)
	if d.Trace != "" {
		item.Traced = codec.WithTrace(def, d.Trace)
	}
	return item
}

// parseEnd reads an entry of the outbox: `end <ref> <attempt> <state>`.
func parseEnd(entry string) (ref task.Ref, attempt int, state task.State, ok bool) {
	f := strings.Fields(entry)
	if len(f) != 4 || f[0] != "end" || !task.State(f[3]).Valid() {
		return ref, 0, "", false
	}
	ref, errRef := task.ParseRef(f[1])
	attempt, errNumber := strconv.Atoi(f[2])
	return ref, attempt, task.State(f[3]), errRef == nil && errNumber == nil
}
