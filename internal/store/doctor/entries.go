package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/limits"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/rules"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/store/workflows"
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
	lua.OfPartition + "schedule:":  func(e entryOf) error { return codec.CheckTrackField(e.name, e.value) },
	lua.OfPartition + "waiting:":   func(e entryOf) error { return codec.CheckWaiting(e.value) },
	lua.OfPartition + "revisions:": func(e entryOf) error { return workflows.CheckRevision(e.value) },
	lua.OfPartition + "outbox":     func(e entryOf) error { return partition.CheckOwed(e.name) },
	lua.OfPartition + "caps":       func(e entryOf) error { return partition.CheckCap(e.name, e.value) },
	lua.OfPartition + "use:":       func(e entryOf) error { return partition.CheckUse(e.name, e.value) },
	lua.OfPartition + "backlog": func(e entryOf) error {
		return checkBacklogName(e.name)
	},
	lua.OfInstallation + "limits": func(e entryOf) error {
		return cmp.Or(task.ValidateQueue(e.name), second(limits.Parse(e.value)))
	},
	lua.OfInstallation + "rules":      func(e entryOf) error { return second(rules.Parse(e.name, e.value)) },
	lua.OfInstallation + "cordons":    func(e entryOf) error { return cluster.CheckCordon(e.value) },
	lua.OfInstallation + "nodes":      func(e entryOf) error { return cluster.CheckEntry(e.name, e.value) },
	lua.OfInstallation + "namespaces": func(e entryOf) error { return task.ValidateName("namespace", e.name) },
}

// checkBacklogName says whether a name is one of those under which tasks wait.
func checkBacklogName(name string) error {
	if name == lua.Unnamed {
		return nil
	}
	queueName, taskType := lua.SplitLane(name)
	valid := task.Definition{Type: task.WorkflowType, Queue: queueName}.ValidateQueue()
	if taskType != "" {
		valid = cmp.Or(valid, task.ValidateType(taskType))
	}
	if valid == nil && lua.ParseLane(name).Name() != name {
		return fmt.Errorf("%q is not the name of a queue or a lane", name)
	}
	return valid
}

// second returns the error of a call.
func second[T any](_ T, err error) error { return err }

// How much of keys is read at once.
const (
	keysAtOnce = 100 // keys of one SCAN, of which one pipeline reads the first entries
	entryPage  = 100 // entries of a hash, a set or a sorted set
	firstLines = 20  // lines of a log, together with those of others
	linesPage  = 200 // further lines of one log
	quoted     = 100 // bytes of what cannot be read
)

// entryPages is the entries of all keys of a server. Each key is a collection of its own, as it may have many. It
// comes after the keys, among which those of the wrong type are found.
func (e *examination) entryPages(server redis.Cmdable) collection {
	checks := []string{entryUnreadable}
	look := func(ctx context.Context, from uint64) ([]collection, uint64, error) {
		keys, next, err := server.Scan(ctx, from, "", keysAtOnce).Result()
		if err != nil {
			return nil, 0, err
		}
		keys = slices.DeleteFunc(keys, func(key string) bool {
			pattern := e.patternOf(key)
			return readable[pattern] == nil || pattern == checkpointsOf
		})
		slices.Sort(keys)
		return e.entriesOf(ctx, slices.Compact(keys)), next, nil
	}
	return collection{name: "keys' entries", checks: checks, look: look}
}

// entriesOf returns the entries of keys, each key as a collection. One pipeline reads the first page of each: most
// keys have no other.
func (e *examination) entriesOf(ctx context.Context, keys []string) (all []collection) {
	pipe := e.o.Layout.DB.Pipeline()
	firsts := make([]readPage, len(keys))
	for i, key := range keys {
		firsts[i] = queuePage(ctx, pipe, key, e.wantedType(key), 0)
	}
	_, _ = pipe.Exec(ctx) // each page has its own error
	for i, key := range keys {
		look := func(ctx context.Context, from uint64) ([]collection, uint64, error) {
			read := firsts[i]
			if from > 0 {
				pipe := e.o.Layout.DB.Pipeline()
				read = queuePage(ctx, pipe, key, e.wantedType(key), from)
				_, _ = pipe.Exec(ctx) // the page has the error
			}
			entries, next, err := read()
			if err == nil {
				err = e.examineEntries(ctx, key, entries)
			}
			if next == unreachable {
				what := "what follows line " + entries[len(entries)-1].name + " in " + key
				e.notLooked(what+" was not looked at: the numbers of such lines are too large", entryUnreadable)
				next = 0
			}
			return nil, next, err
		}
		all = append(all, collection{name: key, checks: []string{entryUnreadable}, look: look})
	}
	return all
}

// examineEntries examines entries of a key.
func (e *examination) examineEntries(ctx context.Context, key string, entries []entryOf) error {
	e.entries += len(entries)
	for _, entry := range entries {
		if err := e.examineEntry(ctx, key, entry); err != nil {
			return err
		}
	}
	return nil
}

// readPage returns entries of a key, and the cursor of the next page; 0 after the last one.
type readPage func() ([]entryOf, uint64, error)

// queuePage adds the command to a pipeline that reads a page of a key of that type, from a cursor on. It returns what
// decodes the reply. A list is one page: the lists that have entries are short.
func queuePage(ctx context.Context, pipe redis.Pipeliner, key, kind string, from uint64) readPage {
	switch kind {
	case "list":
		cmd := pipe.LRange(ctx, key, 0, -1)
		return func() (all []entryOf, _ uint64, _ error) {
			for i, value := range cmd.Val() {
				all = append(all, entryOf{name: strconv.Itoa(i), value: value})
			}
			return all, 0, cmd.Err()
		}
	case "set":
		cmd := pipe.SScan(ctx, key, from, "", entryPage)
		return func() (all []entryOf, _ uint64, _ error) {
			names, next, err := cmd.Result()
			for _, name := range names {
				all = append(all, entryOf{name: name})
			}
			return all, next, err
		}
	case "zset":
		return pairsOf(pipe.ZScan(ctx, key, from, "", entryPage), func(score string) string {
			at, _ := strconv.ParseFloat(score, 64) // Redis wrote it
			return strconv.FormatInt(int64(at), 10)
		})
	case "stream":
		return queueLines(ctx, pipe, key, from)
	}
	return pairsOf(pipe.HScan(ctx, key, from, "", entryPage), func(value string) string { return value })
}

// pairsOf reads names and values, which valueOf writes as an entry has them.
func pairsOf(cmd *redis.ScanCmd, valueOf func(string) string) readPage {
	return func() (all []entryOf, _ uint64, _ error) {
		pairs, next, err := cmd.Result()
		for pair := range slices.Chunk(pairs, 2) {
			all = append(all, entryOf{name: pair[0], value: valueOf(pair[1])})
		}
		return all, next, err
	}
}

// lineBits are those of a cursor that have the number of a line; the others have that of its attempt.
const lineBits = 34

// queueLines is queuePage for a log. The cursor is the id of the last line that was read.
func queueLines(ctx context.Context, pipe redis.Pipeliner, key string, from uint64) readPage {
	start, count := "-", firstLines
	if from > 0 {
		start, count = fmt.Sprintf("(%d-%d", from>>lineBits, from&(1<<lineBits-1)), linesPage
	}
	cmd := pipe.XRangeN(ctx, key, start, "+", int64(count))
	return func() ([]entryOf, uint64, error) {
		lines, err := cmd.Result()
		if err != nil || len(lines) < count {
			return streamEntries(lines), 0, err
		}
		return streamEntries(lines), lineCursor(lines[count-1].ID), nil
	}
}

// unreachable is the cursor of what follows a line with numbers that are too large for a cursor. No worker writes
// such.
const unreachable = math.MaxUint64

// lineCursor returns the cursor of what follows a line.
func lineCursor(id string) uint64 {
	var attempt, line uint64
	n, _ := fmt.Sscanf(id, "%d-%d", &attempt, &line)
	if n < 2 || attempt >= 1<<(64-lineBits) || line >= 1<<lineBits {
		return unreachable
	}
	return attempt<<lineBits | line
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
		moved, err := e.putEntryAside(ctx, key, to, entry)
		if err != nil || !moved {
			return err
		}
		words += "; it is in " + to + " now"
	}
	e.found(entryUnreadable, key, words)
	return nil
}

// putEntryAside moves an entry to a hash, as its name and its value. It returns false if somebody has replaced the
// value of a field meanwhile. Entries of other keys cannot change: what is removed is what was read.
func (e *examination) putEntryAside(ctx context.Context, key, to string, entry entryOf) (moved bool, _ error) {
	if e.wantedType(key) == "hash" {
		reply, err := redisx.Run(ctx, e.o.Layout.DB, lua.MoveField{
			Hash: lua.HashKey(key), Kept: to, Field: entry.name, Value: entry.value,
		})
		return reply.Moved, errors.Join(err, e.rest(ctx))
	}
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
		}
		return nil
	})
	return err == nil, errors.Join(err, e.rest(ctx))
}
