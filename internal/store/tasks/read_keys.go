package tasks

import (
	"cmp"
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// CheapBriefs is Briefs for a fifth of the time of Redis: it runs plain commands in place of a script. The commands do
// not run at one moment, so it may find a task between two states. Error: CodeUnavailable.
func (s *Tasks) CheapBriefs(ctx context.Context, refs []task.Ref) ([]task.Task, error) {
	parts, err := s.readKeys(ctx, s.l.DB, refs, true)
	if err != nil {
		return nil, err
	}
	found := make([]task.Task, 0, len(refs))
	var waiting []task.Task
	var rest []task.Ref
	for _, p := range parts {
		for k, i := range p.places {
			switch r := p.record(k); {
			case p.err() != nil:
				rest = append(rest, refs[i])
			case r.Definition == "": // there is no such task
			default:
				t := s.decode(refs[i], r)
				if t.State == task.Scheduled && r.Due.IsZero() {
					waiting = append(waiting, t)
				} else {
					found = append(found, t)
				}
			}
		}
	}
	ready, unknown := s.readReady(ctx, waiting)
	found, rest = append(found, ready...), append(rest, unknown...)
	if len(rest) == 0 {
		return found, nil
	}
	others, err := s.Briefs(ctx, rest)
	return append(found, others...), err
}

// readReady returns the tasks that wait in the set of their queue, with their due times. rest are the others.
func (s *Tasks) readReady(ctx context.Context, waiting []task.Task) (found []task.Task, rest []task.Ref) {
	type set struct {
		tasks   []task.Task
		members []string
		scores  *redis.FloatSliceCmd
	}
	sets := make(map[lua.ReadyKey]*set)
	for _, t := range waiting {
		key := s.l.KeysOf(t.Ref).Ready(t.Queue)
		if sets[key] == nil {
			sets[key] = &set{}
		}
		sets[key].tasks = append(sets[key].tasks, t)
		sets[key].members = append(sets[key].members, t.Ref.String())
	}
	if len(sets) == 0 {
		return nil, nil
	}
	pipe := s.l.DB.Pipeline()
	for key, some := range sets {
		some.scores = pipe.ZMScore(ctx, string(key), some.members...)
	}
	_, _ = pipe.Exec(ctx) // each reply has its error
	for _, some := range sets {
		for i, t := range some.tasks {
			if some.scores.Err() != nil || some.scores.Val()[i] == 0 {
				rest = append(rest, t.Ref)
				continue
			}
			t.DueAt = codec.DueOfRank(some.scores.Val()[i])
			found = append(found, t)
		}
	}
	return found, rest
}

// keyReplies are the replies to plain commands that read tasks of one partition, one command for each key.
type keyReplies struct {
	places                     []int // of the tasks, in the list that was asked for
	brief                      bool  // without payloads, results and errors
	definitions, states        *redis.SliceCmd
	payloads, results, reasons *redis.SliceCmd // nil if brief
	dues                       *redis.FloatSliceCmd
}

// readKeys reads tasks with plain commands, and returns the replies by partition. Under redisx.LeavingOut, a reply has
// an error if its key has the wrong type. Error: CodeUnavailable.
func (s *Tasks) readKeys(
	ctx context.Context, db *redisx.DB, refs []task.Ref, brief bool,
) (map[int]*keyReplies, error) {
	pipe, all := db.Pipeline(), make(map[int]*keyReplies)
	for number, places := range s.byPartition(refs) {
		members := make([]string, len(places))
		for k, i := range places {
			members[k] = refs[i].String()
		}
		keys := s.l.Keys.Partition(number)
		r := &keyReplies{
			places: places, brief: brief,
			definitions: pipe.HMGet(ctx, string(keys.Defs()), members...),
			states:      pipe.HMGet(ctx, string(keys.States()), members...),
			dues:        pipe.ZMScore(ctx, string(keys.Wheel()), members...),
		}
		if !brief {
			r.payloads = pipe.HMGet(ctx, string(keys.Payloads()), members...)
			r.results = pipe.HMGet(ctx, string(keys.Results()), members...)
			r.reasons = pipe.HMGet(ctx, string(keys.Errors()), members...)
		}
		all[number] = r
	}
	if len(all) == 0 {
		return nil, nil
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, layout.Unavailable(err)
	}
	return all, nil
}

// err is the error of the first key that could not be read.
func (r *keyReplies) err() error {
	err := cmp.Or(r.definitions.Err(), r.states.Err(), r.dues.Err())
	if err != nil || r.brief {
		return err
	}
	return cmp.Or(r.payloads.Err(), r.results.Err(), r.reasons.Err())
}

// record is what the replies tell of a task. It is empty if there is no such task.
func (r *keyReplies) record(k int) codec.Record {
	record := codec.Record{Definition: textAt(r.definitions, k), State: textAt(r.states, k)}
	if dues := r.dues.Val(); k < len(dues) && dues[k] != 0 {
		record.Due = codec.FromMS(int64(dues[k]))
	}
	if !r.brief {
		record.Payload, record.Result = textAt(r.payloads, k), textAt(r.results, k)
		record.Error = textAt(r.reasons, k)
	} else if record.Definition != "" {
		head, _, _ := strings.Cut(record.Definition, "\n")
		record.Definition = head + "\n"
	}
	return record
}

// textAt is the text at a place of a reply; "" if there is none.
func textAt(reply *redis.SliceCmd, place int) string {
	if values := reply.Val(); place < len(values) {
		return codec.Text(values[place])
	}
	return ""
}
