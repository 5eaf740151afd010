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

// Create creates tasks and returns a result for each, in the order of defs. Definitions must be valid and have an id. If a
// task with the same content exists, the result is that task as it is now. A refused task does not affect the others.
// A single task shares its round trip with others that are submitted at the same time. Errors of a result: CodeTaskConflict,
// CodeUnavailable; CodeNotReplicated if the task was created or existed, and a failover of Redis may lose it, or has lost it.
func (s *Tasks) Create(ctx context.Context, defs []task.Definition) []Created {
	results := s.create(ctx, defs)
	s.confirmCreated(ctx, results)
	return results
}

// create is Create without the wait for replicas.
func (s *Tasks) create(ctx context.Context, defs []task.Definition) []Created {
	if len(defs) == 1 {
		created, err := s.creates.Do(ctx, defs[0])
		if err != nil {
			created.Err = layout.Unavailable(err)
		}
		return []Created{created}
	}
	return s.createEach(ctx, defs, false)
}

// Preview returns what Create would, and creates nothing.
func (s *Tasks) Preview(ctx context.Context, defs []task.Definition) []Created {
	return s.createEach(ctx, defs, true)
}

// createEach is create in one call for each partition. A task that existed may be gone when it is read: somebody has deleted it, or a failover has
// lost it. Then it is created again.
func (s *Tasks) createEach(ctx context.Context, defs []task.Definition, dry bool) []Created {
	results := s.createOnce(ctx, defs, dry)
	var gone []int
	var again []task.Definition
	for i, r := range results {
		if task.CodeOf(r.Err) == task.CodeTaskNotFound {
			gone, again = append(gone, i), append(again, defs[i])
		}
	}
	if len(gone) == 0 {
		return results
	}
	for k, r := range s.createOnce(ctx, again, dry) {
		if task.CodeOf(r.Err) == task.CodeTaskNotFound {
			r.Err = &task.Error{Code: task.CodeUnavailable, Message: "the task was deleted meanwhile: try again", Err: r.Err}
		}
		results[gone[k]] = r
	}
	return results
}

func (s *Tasks) createOnce(ctx context.Context, defs []task.Definition, dry bool) []Created {
	results := make([]Created, len(defs))
	b := createCalls{l: s.l, dry: dry}
	var once []lua.SubmitOnce
	var oncePlaces []int
	for i := range defs {
		d := defs[i].Normalize()
		results[i].Task.Definition = d
		def, err := codec.EncodeDefinition(d)
		if err != nil {
			results[i].Err = err
			continue
		}
		if d.Once != nil {
			once, oncePlaces = append(once, s.onceCall(d, def, dry)), append(oncePlaces, i)
			continue
		}
		b.add(i, d, def)
	}
	var existed []int
	if len(once) > 0 {
		existed = s.submitOnce(ctx, once, oncePlaces, results)
	}
	for n, reply := range redisx.RunEach[lua.CreateReply](ctx, s.l.DB, b.calls) {
		for k, i := range b.places[n] {
			results[i] = s.created(results[i].Task.Definition, reply, k)
			if results[i].Existed && !results[i].Deleted {
				existed = append(existed, i)
			}
		}
	}
	if len(existed) > 0 {
		s.readExisting(ctx, results, existed)
	}
	return results
}

// readExisting replaces the results at those places by the tasks as they are now.
func (s *Tasks) readExisting(ctx context.Context, results []Created, places []int) {
	refs := make([]task.Ref, len(places))
	for k, i := range places {
		refs[k] = results[i].Task.Ref
	}
	records, err := s.read(ctx, s.l.DB, refs, false)
	for k, i := range places {
		results[i] = Created{Existed: true, Once: results[i].Once, Err: err}
		if err == nil {
			results[i].Task, results[i].Err = s.decodeFound(refs[k], records[k])
		}
	}
}

// createCalls groups tasks by partition into calls of create.
type createCalls struct {
	l      *layout.Layout
	dry    bool
	calls  []lua.Create
	places [][]int     // places[n][k] is the place of the kth task of calls[n] in the submission
	bytes  []int       // of the definitions of each call
	open   map[int]int // the call to which a partition's next task is added
}

func (b *createCalls) add(place int, d task.Definition, def string) {
	if b.open == nil {
		b.open = make(map[int]int)
	}
	p := b.l.PartitionOf(d.Ref)
	n, ok := b.open[p]
	if !ok || len(b.calls[n].Tasks) >= batchLimit || b.bytes[n] >= createBytes {
		n = len(b.calls)
		b.open[p] = n
		b.calls = append(b.calls, lua.Create{
			Defs: b.l.Keys.Partition(p).Defs(), Events: b.l.Keys.Events(), Wake: b.l.Keys.Wake(p), Dry: b.dry, Traced: false, Tasks: nil,
		})
		b.places, b.bytes = append(b.places, nil), append(b.bytes, 0)
	}
	if d.Trace != "" && !b.dry {
		def, b.calls[n].Traced = codec.WithTrace(def, d.Trace), true
	}
	b.calls[n].Tasks = append(b.calls[n].Tasks, lua.CreateTask{Member: d.Ref, Def: def, RunAt: d.RunAt, Delay: d.Delay})
	b.places[n] = append(b.places[n], place)
	b.bytes[n] += len(def)
}

// created is the result for the kth task of a call, which has that definition.
func (s *Tasks) created(d task.Definition, result redisx.Result[lua.CreateReply], k int) Created {
	if result.Err != nil {
		return Created{Err: layout.Unavailable(result.Err)}
	}
	answer := result.Reply.Answers[k]
	stored, other := strings.CutPrefix(answer, "other ")
	switch {
	case answer == "existed", other && codec.SameContent(stored, d):
		return Created{Task: task.Task{Definition: d}, Existed: true}
	case answer == "conflict", other:
		return Created{Err: &task.Error{Code: task.CodeTaskConflict, Message: sentence(task.CodeTaskConflict, d.Ref, "")}}
	case answer != "new":
		return s.deleted(d, answer)
	}
	t := task.Task{Definition: d, State: task.Scheduled, CreatedAt: result.Reply.Now}
	t.MaxAttempts = t.Policy().MaxAttempts
	t.DueAt = d.FirstDue(t.CreatedAt)
	return Created{Task: t}
}

// deleted is the result for a task that has ended and was deleted; answer is its final state and the times of its creation and its end.
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
