package partition

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// waitingPause is for how long the outbox keeps an entry that nobody can follow up, until the next look.
const waitingPause = time.Minute

// Followed is what became of entries of the outbox.
type Followed struct {
	Now     time.Time       // of Redis, when they were read
	Next    time.Time       // when the next entry is due; zero if there is none
	Created []task.Ref      // follow-ups
	Expired []task.Delivery // of tasks that nobody has begun in time; attempt 0: the task was not in its queue
	Unread  []string        // entries that wait, as this release cannot read them
	Missing []string        // ends that wait, as their tasks are not there

	Runs map[task.Ref]Touched // runs of workflows to carry on, whose entries are still there
}

// Touched is why a run of a workflow is to be planned.
type Touched struct {
	Entries []string        // of the outbox
	Steps   map[string]bool // ids of steps that may have ended
	Look    bool            // any of its steps may have ended, or somebody has asked something of it
}

// Follow deals with up to limit entries of the outbox, and removes them: it creates the tasks that follow ends, and
// ends those that nobody has begun in time. Errors: ErrFenced, CodeUnavailable, or one of Redis.
func (l *Leader) Follow(ctx context.Context, limit int) (f Followed, _ error) {
	outbox, err := redisx.Run(ctx, l.o.Layout.DB, lua.ReadOutbox{Outbox: l.keys.Outbox(), Limit: limit})
	f.Now, f.Next = outbox.Now, outbox.Next
	if err != nil || len(outbox.Entries) == 0 {
		return f, err
	}
	var ends, waiting, unread []owed
	var refs []task.Ref
	for _, entry := range outbox.Entries {
		o := parseOwed(entry)
		switch o.kind {
		case anEnd:
			ends, refs = append(ends, o), append(refs, o.ref)
		case aStart:
			waiting, refs = append(waiting, o), append(refs, o.ref)
		case aStep, aRun:
			f.touch(o)
		default:
			unread = append(unread, o)
		}
	}
	tasks, err := l.tasksOf(ctx, refs)
	if err != nil {
		return f, err
	}
	if err := l.endLate(ctx, &f, waiting, tasks); err != nil {
		return f, err
	}
	return f, l.createFollowUps(ctx, &f, append(ends, unread...), tasks)
}

// touch notes that a run is to be planned.
func (f *Followed) touch(o owed) {
	run, step, ofStep := o.ref.Run()
	if !ofStep || o.kind == aRun {
		run = o.ref
	}
	if f.Runs == nil {
		f.Runs = make(map[task.Ref]Touched)
	}
	t := f.Runs[run]
	t.Entries = append(t.Entries, o.entry)
	if o.kind == aRun {
		t.Look = true
	} else {
		if t.Steps == nil {
			t.Steps = make(map[string]bool)
		}
		t.Steps[step] = true
	}
	f.Runs[run] = t
}

// endLate ends the tasks that nobody has begun in time. Errors: as for Follow.
func (l *Leader) endLate(ctx context.Context, f *Followed, waiting []owed, tasks map[task.Ref]task.Task) error {
	if len(waiting) == 0 {
		return nil
	}
	keys := l.o.Layout.Keys
	call := lua.EndLate{
		Lease: l.keys.Lease(), Defs: l.keys.Defs(), Outbox: l.keys.Outbox(), Fence: l.fence, Events: keys.Events(),
		Control: keys.Control(), Wake: keys.Wake(l.number), Items: nil,
	}
	for _, o := range waiting {
		t := tasks[o.ref]
		why, later := t.Late(f.Now)
		call.Items = append(call.Items, lua.EndLateItem{
			Entry: o.entry, Member: o.ref, Due: t.DueAt, Reason: why, Later: later,
		})
	}
	reply, err := redisx.Run(ctx, l.o.Layout.DB, call)
	if err != nil {
		return fenced(err)
	}
	for i, answer := range reply.Answers {
		switch answer {
		case "expired":
			t := tasks[waiting[i].ref]
			f.Expired = append(f.Expired, task.Delivery{Ref: t.Ref, Attempt: t.Attempt, Queue: t.Queue})
		case "changed":
			f.Next = f.Now
		case "later":
			if later := call.Items[i].Later; f.Next.IsZero() || later.Before(f.Next) {
				f.Next = later
			}
		}
	}
	return nil
}

// createFollowUps creates the tasks that follow ends, and puts off what waits. Errors: as for Follow.
func (l *Leader) createFollowUps(ctx context.Context, f *Followed, ends []owed, tasks map[task.Ref]task.Task) error {
	if len(ends) == 0 {
		return nil
	}
	keys := l.o.Layout.Keys
	call := lua.Follow{
		Lease: l.keys.Lease(), Defs: l.keys.Defs(), Outbox: l.keys.Outbox(), Fence: l.fence, Events: keys.Events(),
		Wake: keys.Wake(l.number), Items: nil,
	}
	for _, o := range ends {
		item := lua.FollowItem{
			Entry: o.entry, Parent: o.ref, Child: "", Def: "", Traced: "", Due: time.Time{}, Later: time.Time{},
		}
		// The task of an end is there, unless a failover has just lost both. Then the same end may come again.
		switch parent, found := tasks[o.ref]; {
		case found:
			l.addFollowUp(ctx, &item, parent, o)
		case o.kind == anEnd:
			f.Missing, item.Later = append(f.Missing, o.entry), f.Now.Add(waitingPause)
		default:
			f.Unread, item.Later = append(f.Unread, o.entry), f.Now.Add(waitingPause)
		}
		call.Items = append(call.Items, item)
	}
	reply, err := redisx.Run(ctx, l.o.Layout.DB, call)
	if err != nil {
		return fenced(err)
	}
	for i, answer := range reply.Answers {
		if answer == "new" {
			ref, _ := task.ParseRef(call.Items[i].Child)
			f.Created = append(f.Created, ref)
		}
	}
	return nil
}

// tasksOf reads tasks. Those that do not exist are left out. Error: CodeUnavailable.
func (p *Partition) tasksOf(ctx context.Context, refs []task.Ref) (map[task.Ref]task.Task, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	found, err := p.o.Tasks.GetEach(ctx, refs)
	tasks := make(map[task.Ref]task.Task, len(found))
	for _, t := range found {
		tasks[t.Ref] = t
	}
	return tasks, err
}

// addFollowUp adds the task that follows an end, if one does. t is the task that ended; it has no type if it cannot be
// read.
func (l *Leader) addFollowUp(ctx context.Context, item *lua.FollowItem, t task.Task, e owed) {
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
	item.Child, item.Def, item.Due = d.Ref.String(), def, e.at.Add(d.Delay)
	if d.Trace != "" {
		item.Traced = codec.WithTrace(def, d.Trace)
	}
}

// What an entry of the outbox is about. Those of later releases are about something else.
const (
	anEnd  = "end"  // of a task, which a follow-up may follow: `end <ref> <attempt> <state>`
	aStart = "late" // of a task, by which somebody must have begun it: `late <ref>`
	aRun   = "plan" // of a run of a workflow, which is planned then at the latest: `plan <ref>`
	aStep  = "step" // an end of a step of a run
)

// owed is an entry of the outbox.
type owed struct {
	entry   string
	at      time.Time
	kind    string // "" if this release cannot read the entry
	ref     task.Ref
	attempt int        // of an end
	state   task.State // of an end
}

// CheckOwed says why this release cannot read an entry of the outbox; nil if it can.
func CheckOwed(entry string) error {
	if parseOwed(lua.ReadOutboxEntry{Entry: entry, At: time.Time{}}).kind == "" {
		return fmt.Errorf("%q says nothing that a leader can follow", task.CutMiddle(entry, 100))
	}
	return nil
}

// parseOwed reads an entry.
func parseOwed(entry lua.ReadOutboxEntry) owed {
	o := owed{entry: entry.Entry, at: entry.At}
	f := strings.Fields(entry.Entry)
	if len(f) < 2 {
		return o
	}
	ref, err := task.ParseRef(f[1])
	switch {
	case err != nil:
	case f[0] == anEnd && len(f) == 4 && task.State(f[3]).Valid():
		if attempt, err := strconv.Atoi(f[2]); err == nil {
			o.kind, o.ref, o.attempt, o.state = anEnd, ref, attempt, task.State(f[3])
			if _, _, isStep := ref.Run(); isStep {
				o.kind = aStep
			}
		}
	case (f[0] == aStart || f[0] == aRun) && len(f) == 2:
		o.kind, o.ref = f[0], ref
	}
	return o
}
