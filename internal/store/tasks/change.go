package tasks

import (
	"context"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

var changeCodes = map[lua.Code]task.Code{
	lua.CodeNotFound: task.CodeTaskNotFound, lua.CodeState: task.CodeNotWaiting, lua.CodeChanged: task.CodeChanged,
}

// Change replaces the definition of a task, and its due time as due says. The task must be scheduled, or queued for the
// attempt recalled (0 for none): that attempt is then scheduled again, and the caller deletes its delivery. before is the
// definition that the caller read; after must be valid. Errors: CodeTaskNotFound, CodeNotWaiting, CodeUnavailable;
// CodeChanged if the task's definition is neither before nor after.
func (s *Tasks) Change(ctx context.Context, before, after task.Definition, due NewDue, recalled int) (task.Task, error) {
	ref := before.Ref
	read, err := codec.EncodeDefinition(before)
	if err != nil {
		return task.Task{}, err
	}
	wanted, err := codec.EncodeDefinition(after)
	if err != nil {
		return task.Task{}, err
	}
	old, oldPayload := codec.SplitPayload(codec.WithTrace(read, before.Trace))
	def, payload := codec.SplitPayload(codec.WithTrace(wanted, after.Trace))
	if payload == oldPayload {
		payload = "" // Redis has it
	}
	var runAt time.Time
	if due.RunAt != nil {
		runAt = *due.RunAt
	}
	k := s.l.KeysOf(ref)
	call := lua.Change{
		Defs: k.Defs(), Member: ref, Before: old, Original: codec.Digest(read), Def: def, Payload: payload,
		RunAt: runAt, Delay: due.Delay, Recalled: recalled, Events: s.l.Keys.Events(), Wake: s.l.WakeOf(ref),
	}
	reply, err := redisx.Run(ctx, s.l.DB, call)
	if redisx.RefusedWith(err, lua.CodeChanged) { // or another release writes the same definition in another way
		record, errRead := s.l.DB.HGet(ctx, string(k.Defs()), ref.String()).Result()
		if _, stored, ok := codec.Split(record); errRead == nil && ok && asStored(&call, stored, read, wanted, before) {
			reply, err = redisx.Run(ctx, s.l.DB, call)
		}
	}
	if err != nil {
		return task.Task{}, publicError(err, changeCodes, ref)
	}
	return s.decode(ref, codec.Record{
		Definition: reply.Record, Payload: string(after.Payload), State: reply.State, Due: reply.Due, Result: reply.Result, Error: reply.Reason,
	}), nil
}

// asStored changes a call so that it finds the definition as another release has stored it, and keeps what this one does
// not know of it. It returns false if that is not the definition that the caller read. read and wanted are encoded.
func asStored(call *lua.Change, stored, read, wanted string, before task.Definition) bool {
	read, errRead := codec.WithUnknown(read, stored)
	wanted, errWanted := codec.WithUnknown(wanted, stored)
	if errRead != nil || errWanted != nil || !codec.SameStored(withoutLost(stored, before), read) {
		return false
	}
	call.Before, call.Original = stored, codec.Digest(read)
	call.Def, _ = codec.SplitPayload(codec.WithTrace(wanted, before.Trace))
	return true
}

// withoutLost returns a stored definition without the payload if that could not be read, so that before has none.
func withoutLost(stored string, before task.Definition) string {
	if before.Payload != nil {
		return stored
	}
	head, _, _ := strings.Cut(stored, "\n")
	return head + "\n"
}
