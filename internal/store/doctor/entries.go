package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/limits"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const entryUnreadable = "entry-unreadable"

// entryOf is an entry of a key: an element of a list with its index as the name, a member of a set, a field of a hash,
// a member of a sorted set with its score as the value, or an entry of a stream with its id as the name.
type entryOf struct {
	name, value string
	fields      map[string]any // of an entry of a stream; value has them as JSON
}

// checkpointsOf is the pattern of keys whose entries are read page by page, as they are large: see checkpoints.
const checkpointsOf = lua.OfPartition + "checkpoints"

// readable says by the pattern of keys whether an entry can be read, as its readers do. What is in other keys is
// examined together with its task or schedule, or may be anything.
var readable = map[string]func(entryOf) error{
	checkpointsOf: func(e entryOf) error { return codec.CheckCheckpoint(e.value) },
	lua.OfPartition + "attempts:": func(e entryOf) error {
		return second(codec.DecodeAttempt(e.value))
	},
	lua.OfPartition + "log:": func(e entryOf) error {
		return tasks.CheckLine(redis.XMessage{ID: e.name, Values: e.fields})
	},
	lua.OfPartition + "history:": func(e entryOf) error {
		return second(codec.DecodeRevision(task.Ref{}, e.value))
	},
	lua.OfPartition + "ledger:": func(e entryOf) error {
		return second(codec.DecodeLedger(e.name, codec.Number(e.value)))
	},
	lua.OfPartition + "waiting:": func(e entryOf) error { return codec.CheckWaiting(e.value) },
	lua.OfPartition + "backlog": func(e entryOf) error {
		queueName, taskType := lua.SplitLane(e.name)
		switch {
		case e.name == lua.Unnamed:
			return nil
		case taskType == "":
			return task.ValidateQueue(e.name)
		}
		return cmp.Or(task.ValidateQueue(queueName), task.ValidateType(taskType))
	},
	lua.OfInstallation + "limits": func(e entryOf) error {
		return cmp.Or(task.ValidateQueue(e.name), second(limits.Parse(e.value)))
	},
	lua.OfInstallation + "nodes":      func(e entryOf) error { return cluster.CheckEntry(e.name, e.value) },
	lua.OfInstallation + "namespaces": func(e entryOf) error { return task.ValidateName("namespace", e.name) },
}

// second returns the error of a call.
func second[T any](_ T, err error) error { return err }

const (
	entryChunk = 50  // keys of which one pipeline reads the entries
	streamPage = 20  // entries of each stream that it reads, and that are read at once of one that has more
	quoted     = 100 // bytes of what cannot be read
)

// examineEntries finds entries that cannot be read, and puts them aside.
func (e *examination) examineEntries(ctx context.Context, keys []string) error {
	if !e.wants(entryUnreadable) {
		return nil
	}
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		pattern := e.patternOf(key)
		return readable[pattern] == nil || pattern == checkpointsOf
	})
	_, err := e.inTurn(ctx, keys, entryChunk, []string{entryUnreadable}, func(some []string) error {
		all, err := e.readEntries(ctx, some)
		if err != nil {
			return err
		}
		for i, key := range some {
			for _, entry := range all[i] {
				if err := e.examineEntry(ctx, key, entry); err != nil {
					return err
				}
			}
			if err := e.examineStream(ctx, key, all[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// examineStream examines the entries of a stream after those of its first page.
func (e *examination) examineStream(ctx context.Context, key string, page []entryOf) error {
	for e.wantedType(key) == "stream" && len(page) == streamPage {
		next, err := e.o.Layout.DB.XRangeN(ctx, key, "("+page[len(page)-1].name, "+", streamPage).Result()
		if err != nil {
			return err
		}
		page = streamEntries(next)
		for _, entry := range page {
			if err := e.examineEntry(ctx, key, entry); err != nil {
				return err
			}
		}
		if err := e.rest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// readEntries reads the entries of keys; of a stream, the first ones.
func (e *examination) readEntries(ctx context.Context, keys []string) ([][]entryOf, error) {
	pipe := e.o.Layout.DB.Pipeline()
	reads := make([]func() []entryOf, len(keys))
	for i, key := range keys {
		reads[i] = queueRead(ctx, pipe, key, e.wantedType(key))
	}
	_, err := pipe.Exec(ctx)
	all := make([][]entryOf, len(keys))
	for i, read := range reads {
		all[i] = read()
	}
	return all, err
}

// queueRead adds the command to a pipeline that reads the entries of a key of that type. It returns what decodes the
// reply.
func queueRead(ctx context.Context, pipe redis.Pipeliner, key, kind string) func() []entryOf {
	switch kind {
	case "list":
		cmd := pipe.LRange(ctx, key, 0, -1)
		return func() (all []entryOf) {
			for i, value := range cmd.Val() {
				all = append(all, entryOf{name: strconv.Itoa(i), value: value})
			}
			return all
		}
	case "zset":
		cmd := pipe.ZRangeWithScores(ctx, key, 0, -1)
		return func() (all []entryOf) {
			for _, z := range cmd.Val() {
				all = append(all, entryOf{name: codec.Text(z.Member), value: strconv.FormatInt(int64(z.Score), 10)})
			}
			return all
		}
	case "set":
		cmd := pipe.SMembers(ctx, key)
		return func() (all []entryOf) {
			for _, name := range cmd.Val() {
				all = append(all, entryOf{name: name})
			}
			return all
		}
	case "stream":
		cmd := pipe.XRangeN(ctx, key, "-", "+", streamPage)
		return func() []entryOf { return streamEntries(cmd.Val()) }
	}
	cmd := pipe.HGetAll(ctx, key)
	return func() (all []entryOf) {
		for name, value := range cmd.Val() {
			all = append(all, entryOf{name: name, value: value})
		}
		return all
	}
}

// streamEntries are messages of a stream as entries.
func streamEntries(messages []redis.XMessage) []entryOf {
	all := make([]entryOf, len(messages))
	for i, m := range messages {
		value, _ := json.Marshal(m.Values) // texts only
		all[i] = entryOf{name: m.ID, value: string(value), fields: m.Values}
	}
	return all
}

// examineEntry finds an entry that cannot be read.
func (e *examination) examineEntry(ctx context.Context, key string, entry entryOf) error {
	if !e.wants(entryUnreadable) {
		return nil
	}
	e.looked(1, entryUnreadable)
	if readable[e.patternOf(key)](entry) == nil {
		return nil
	}
	words := fmt.Sprintf("has an entry that cannot be read: %q %q",
		task.CutMiddle(entry.name, quoted), task.CutMiddle(entry.value, quoted))
	if e.Repair {
		to := e.asideOf(key)
		if err := e.putEntryAside(ctx, key, to, entry); err != nil {
			return err
		}
		words += "; it is in " + to + " now"
	}
	e.found(entryUnreadable, key, words)
	return nil
}

// putEntryAside moves an entry to a hash, as its name and its value.
func (e *examination) putEntryAside(ctx context.Context, key, to string, entry entryOf) error {
	_, err := e.o.Layout.DB.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.HSet(ctx, to, entry.name, entry.value)
		pipe.PExpire(ctx, to, task.AsideKept)
		switch e.wantedType(key) {
		case "list":
			pipe.LRem(ctx, key, 1, entry.value)
		case "zset":
			pipe.ZRem(ctx, key, entry.name)
		case "set":
			pipe.SRem(ctx, key, entry.name)
		case "stream":
			pipe.XDel(ctx, key, entry.name)
		default:
			pipe.HDel(ctx, key, entry.name)
		}
		return nil
	})
	return errors.Join(err, e.rest(ctx))
}
