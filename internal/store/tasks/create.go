package tasks

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const (
	createBytes  = 512 << 10       // of definitions, after which no further task is added to a run of create
	createShared = 256             // single submissions that share a round trip
	createTime   = 5 * time.Second // for such a round trip
)

// Create creates tasks and returns a result for each, in the order of defs. Definitions must be valid and have an id.
// If a task with the same content exists, the result is that task as it is now. A refused task does not affect the
// others. A single task shares its round trip with others that are submitted at the same time. Errors of a result:
// CodeTaskConflict, CodeUnavailable; CodeNotReplicated if the task was created or existed, and a failover of Redis may
// lose it, or has lost it.
func (s *Tasks) Create(ctx context.Context, defs []task.Definition) []Created {
	results := s.create(ctx, defs)
	s.confirmCreated(ctx, results)
	return results
}

// create is Create without the wait for replicas.
func (s *Tasks) create(ctx context.Context, defs []task.Definition) []Created {
	if len(defs) != 1 {
		return s.createEach(ctx, defs, false)
	}
	c := s.creation(defs[0])
	if c.err == nil {
		if _, err := s.creates.Do(ctx, c); err != nil {
			c.err = layout.Unavailable(err)
		}
	}
	return []Created{c.result()}
}

// Preview returns what Create would, and creates nothing.
func (s *Tasks) Preview(ctx context.Context, defs []task.Definition) []Created {
	return s.createEach(ctx, defs, true)
}

// createEach is create in one call for each partition.
func (s *Tasks) createEach(ctx context.Context, defs []task.Definition, dry bool) []Created {
	all, valid := make([]*creation, len(defs)), make([]*creation, 0, len(defs))
	for i, d := range defs {
		if all[i] = s.creation(d); all[i].err == nil {
			valid = append(valid, all[i])
		}
	}
	s.createOrAgain(ctx, valid, dry)
	results := make([]Created, len(defs))
	for i, c := range all {
		results[i] = c.result()
	}
	return results
}

// creation is a task to create, and then what came of it. Callers who share a call each make their own one: all that
// can be done before the call is done for many at once.
type creation struct {
	d         task.Definition // normalized
	def       string          // as EncodeDefinition writes it
	partition int

	now   time.Time // of the creation
	known *Created  // the result, nil for a new task without a key
	err   error
}

// creation prepares the creation of a task. Its err says why it cannot be stored.
func (s *Tasks) creation(d task.Definition) *creation {
	c := &creation{d: d.Normalize()}
	c.partition = s.l.PartitionOf(c.d.Ref)
	c.def, c.err = codec.EncodeDefinition(c.d)
	return c
}

// result is what came of it.
func (c *creation) result() Created {
	switch {
	case c.err != nil:
		return Created{Err: c.err}
	case c.known != nil:
		return *c.known
	}
	return Created{Task: newTask(c.d, c.now)}
}

// newTask is a task that was created at that time.
func newTask(d task.Definition, at time.Time) task.Task {
	t := task.Task{Definition: d, State: task.Scheduled, CreatedAt: at}
	t.MaxAttempts = t.Policy().MaxAttempts
	t.DueAt = d.FirstDue(t.CreatedAt)
	return t
}

// createOrAgain makes creations. A task that existed may be gone when it is read: somebody has deleted it, or a
// failover has lost it. Then it is created again.
func (s *Tasks) createOrAgain(ctx context.Context, all []*creation, dry bool) {
	s.createOnce(ctx, all, dry)
	again := gone(all)
	if len(again) == 0 {
		return
	}
	s.createOnce(ctx, again, dry)
	for _, c := range gone(again) {
		message := "the task was deleted meanwhile: try again"
		c.err = &task.Error{Code: task.CodeUnavailable, Message: message, Err: c.known.Err}
	}
}

// gone returns the creations of tasks that existed and were gone when they were read.
func gone(all []*creation) (lost []*creation) {
	for _, c := range all {
		if c.known != nil && task.CodeOf(c.known.Err) == task.CodeTaskNotFound {
			lost = append(lost, c)
		}
	}
	return lost
}

// createOnce makes creations, those without a key in one call for each partition.
func (s *Tasks) createOnce(ctx context.Context, all []*creation, dry bool) {
	b := createCalls{l: s.l, dry: dry}
	var keyed, existed []*creation
	for _, c := range all {
		c.known = nil
		if c.d.Once != nil {
			keyed = append(keyed, c)
			continue
		}
		b.add(c)
	}
	if len(keyed) > 0 {
		existed = s.submitOnce(ctx, keyed, dry)
	}
	for n, r := range redisx.RunEach[lua.CreateReply](ctx, s.l.DB, b.calls) {
		for _, c := range b.creations[n] {
			c.now = r.Reply.Now
			if r.Err != nil {
				c.err = layout.Unavailable(r.Err)
			}
		}
		for _, taken := range r.Reply.Taken {
			c := b.creations[n][taken.Place]
			if c.known = s.taken(c.d, taken.Answer); c.known.isToRead() {
				existed = append(existed, c)
			}
		}
	}
	if len(existed) > 0 {
		s.readExisting(ctx, existed)
	}
}

// isToRead reports whether it is about a task that existed before, and that is to be read.
func (c *Created) isToRead() bool { return c.Err == nil && c.Existed && !c.Deleted }

// readExisting replaces what is known by the tasks as they are now.
func (s *Tasks) readExisting(ctx context.Context, all []*creation) {
	refs := make([]task.Ref, len(all))
	for k, c := range all {
		refs[k] = c.known.Task.Ref
	}
	records, err := s.read(ctx, s.l.DB, refs, false)
	for k, c := range all {
		c.known = &Created{Existed: true, Once: c.known.Once, Err: err}
		if err == nil {
			c.known.Task, c.known.Err = s.decodeFound(refs[k], records[k])
		}
	}
}

// createCalls groups tasks by partition into calls of create.
type createCalls struct {
	l         *layout.Layout
	dry       bool
	calls     []lua.Create
	creations [][]*creation // of the tasks of each call
	bytes     []int         // of the definitions of each call
	open      map[int]int   // the call to which a partition's next task is added
}

func (b *createCalls) add(c *creation) {
	n := b.callOf(c.partition)
	def := c.def
	if c.d.Trace != "" && !b.dry {
		def, b.calls[n].Traced = codec.WithTrace(def, c.d.Trace), true
	}
	one := lua.CreateTask{Member: c.d.Ref, Def: def, RunAt: c.d.RunAt, Delay: c.d.Delay}
	b.calls[n].Tasks = append(b.calls[n].Tasks, one)
	b.creations[n] = append(b.creations[n], c)
	b.bytes[n] += len(def)
}

// callOf returns the call that takes the next task of a partition.
func (b *createCalls) callOf(p int) int {
	n, ok := b.open[p]
	if ok && len(b.calls[n].Tasks) < batchLimit && b.bytes[n] < createBytes {
		return n
	}
	if b.open == nil {
		b.open = make(map[int]int)
	}
	n = len(b.calls)
	b.open[p] = n
	b.calls = append(b.calls, lua.Create{
		Defs: b.l.Keys.Partition(p).Defs(), Events: b.l.Keys.Events(), Wake: b.l.Keys.Wake(p),
		Dry: b.dry, Traced: false, Tasks: nil,
	})
	b.creations, b.bytes = append(b.creations, nil), append(b.bytes, 0)
	return n
}

// taken is the result for a task whose name is taken, with the answer of the script.
func (s *Tasks) taken(d task.Definition, answer string) *Created {
	stored, other := strings.CutPrefix(answer, "other ")
	switch {
	case answer == "existed", other && codec.SameContent(stored, d):
		return &Created{Task: task.Task{Definition: d}, Existed: true}
	case answer == "conflict", other:
		return &Created{Err: &task.Error{Code: task.CodeTaskConflict, Message: sentence(task.CodeTaskConflict, d.Ref, "")}}
	}
	deleted := s.deleted(d, answer)
	return &deleted
}

// deleted is the result for a task that has ended and was deleted; answer is its final state and the times of its
// creation and its end.
func (s *Tasks) deleted(d task.Definition, answer string) Created {
	fields := strings.Fields(answer)
	if len(fields) != 3 {
		return Created{Err: fmt.Errorf("task %s: what is remembered of it, %q, cannot be read", d.Ref, answer)}
	}
	t := task.Task{
		Definition: d, State: task.State(fields[0]),
		CreatedAt: codec.FromMS(codec.Number(fields[1])), FinishedAt: codec.FromMS(codec.Number(fields[2])),
	}
	t.Earlier = t.CreatedAt.Before(s.l.RetriesSince())
	t.MaxAttempts = t.Policy().MaxAttempts
	t.DueAt = d.FirstDue(t.CreatedAt)
	return Created{Task: t, Existed: true, Deleted: true}
}
