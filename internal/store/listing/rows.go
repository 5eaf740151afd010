package listing

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// rowsOf returns the rows of tasks that exist. Error: CodeUnavailable.
func rowsOf(ctx context.Context, l *layout.Layout, t *tasks.Tasks, refs []task.Ref) ([]index.Row, error) {
	found, unsure := readPlain(ctx, l, refs)
	if len(unsure) > 0 {
		rest, err := t.Briefs(ctx, unsure)
		if err != nil {
			return nil, err
		}
		found = append(found, rest...)
	}
	causes, err := readCauses(ctx, l, found)
	if err != nil {
		return nil, err
	}
	rows := make([]index.Row, 0, len(found))
	for _, listed := range found {
		rows = append(rows, index.NewRow(listed, causes[listed.Ref]))
	}
	return rows, nil
}

// plain are the plain commands that read tasks of a partition: they cost Redis a fifth of a script that does the same.
type plain struct {
	keys    lua.Partition
	refs    []task.Ref
	members []string

	defs, states *redis.SliceCmd
	wheel        *redis.FloatSliceCmd
}

// readPlain reads tasks as far as plain commands tell what they are. unsure are those that wait, and not on the wheel,
// and those of a partition that cannot be read in this way.
func readPlain(ctx context.Context, l *layout.Layout, refs []task.Ref) (found []task.Task, unsure []task.Ref) {
	parts := make(map[int]*plain)
	for _, ref := range refs {
		number := l.PartitionOf(ref)
		p := parts[number]
		if p == nil {
			p = &plain{keys: l.Keys.Partition(number)}
			parts[number] = p
		}
		p.refs, p.members = append(p.refs, ref), append(p.members, ref.String())
	}
	if len(parts) == 0 {
		return nil, nil
	}
	pipe := l.DB.Pipeline()
	for _, p := range parts {
		p.defs = pipe.HMGet(ctx, string(p.keys.Defs()), p.members...)
		p.states = pipe.HMGet(ctx, string(p.keys.States()), p.members...)
		p.wheel = pipe.ZMScore(ctx, string(p.keys.Wheel()), p.members...)
	}
	_, _ = pipe.Exec(ctx) // each reply has its error
	var waiting []task.Task
	for _, p := range parts {
		if p.defs.Err() != nil || p.states.Err() != nil || p.wheel.Err() != nil {
			unsure = append(unsure, p.refs...)
			continue
		}
		some, offWheel := p.decode(l)
		found, waiting = append(found, some...), append(waiting, offWheel...)
	}
	ready, rest := readReady(ctx, l, waiting)
	return append(found, ready...), append(unsure, rest...)
}

// decode returns the tasks. Those of waiting are not on the wheel.
func (p *plain) decode(l *layout.Layout) (found, waiting []task.Task) {
	for i, ref := range p.refs {
		record, state, due := codec.Text(p.defs.Val()[i]), codec.Text(p.states.Val()[i]), p.wheel.Val()[i]
		if record == "" {
			continue
		}
		head, _, _ := strings.Cut(record, "\n")
		r := codec.Record{Definition: head + "\n", State: state, RetriesSince: l.RetriesSince()}
		if due != 0 {
			r.Due = codec.FromMS(int64(due))
		}
		t := codec.DecodeTask(ref, r)
		if t.State == task.Scheduled && due == 0 {
			waiting = append(waiting, t)
			continue
		}
		found = append(found, t)
	}
	return found, waiting
}

// readReady reads when tasks are due that wait in the set of their queue. rest are those that do not.
func readReady(ctx context.Context, l *layout.Layout, waiting []task.Task) (found []task.Task, rest []task.Ref) {
	type set struct {
		tasks   []task.Task
		members []string
		scores  *redis.FloatSliceCmd
	}
	sets := make(map[lua.ReadyKey]*set)
	for _, t := range waiting {
		key := l.KeysOf(t.Ref).Ready(t.Queue)
		if sets[key] == nil {
			sets[key] = &set{}
		}
		sets[key].tasks = append(sets[key].tasks, t)
		sets[key].members = append(sets[key].members, t.Ref.String())
	}
	if len(sets) == 0 {
		return nil, nil
	}
	pipe := l.DB.Pipeline()
	for key, s := range sets {
		s.scores = pipe.ZMScore(ctx, string(key), s.members...)
	}
	_, _ = pipe.Exec(ctx) // each reply has its error
	for _, s := range sets {
		for i, t := range s.tasks {
			if s.scores.Err() != nil || s.scores.Val()[i] == 0 {
				rest = append(rest, t.Ref)
				continue
			}
			t.DueAt = codec.FromMS(int64(s.scores.Val()[i]))
			found = append(found, t)
		}
	}
	return found, rest
}

// readCauses returns the causes of the tasks that have failed, by their names. Error: CodeUnavailable.
func readCauses(ctx context.Context, l *layout.Layout, found []task.Task) (map[task.Ref]string, error) {
	pipe := l.DB.Pipeline()
	asked := make(map[task.Ref]*redis.StringCmd)
	for _, t := range found {
		if t.State == task.Failed {
			asked[t.Ref] = pipe.HGet(ctx, string(l.KeysOf(t.Ref).Errors()), t.Ref.String())
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, layout.Unavailable(err)
	}
	causes := make(map[task.Ref]string, len(asked))
	for ref, text := range asked {
		causes[ref] = rollup.Shape(text.Val())
	}
	return causes, nil
}
