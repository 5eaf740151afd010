package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const entryUnreadable = "entry-unreadable"

// entryOf is an entry of a key: an element of a list with its index as the name, a member of a sorted set with its
// score as the value, or a field of a hash.
type entryOf struct{ name, value string }

// readable says by the pattern of keys whether an entry can be read. What is in other keys is examined together with
// its task or schedule, or may be anything.
var readable = map[string]func(entryOf) error{
	lua.OfPartition + "attempts:": func(e entryOf) error { return second(codec.DecodeAttempt(e.value)) },
	lua.OfPartition + "history:": func(e entryOf) error {
		return second(codec.DecodeRevision(task.Ref{}, e.value))
	},
	lua.OfPartition + "ledger:": func(e entryOf) error {
		return second(codec.DecodeLedger(e.name, codec.Number(e.value)))
	},
	lua.OfInstallation + "limits": func(e entryOf) error { return second(strconv.ParseUint(e.value, 10, 31)) },
}

// second returns the error of a call.
func second[T any](_ T, err error) error { return err }

const (
	entryChunk = 50  // keys of which one pipeline reads the entries
	quoted     = 100 // bytes of what cannot be read
)

// examineEntries finds entries that cannot be read, and puts them aside.
func (e *examination) examineEntries(ctx context.Context, keys []string) error {
	if !e.wants(entryUnreadable) {
		return nil
	}
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return readable[e.patternOf(key)] == nil })
	return e.inTurn(ctx, keys, entryChunk, func(some []string) error {
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
		}
		return nil
	})
}

// readEntries reads the entries of keys.
func (e *examination) readEntries(ctx context.Context, keys []string) ([][]entryOf, error) {
	pipe := e.o.Layout.DB.Pipeline()
	reads := make([]func() []entryOf, len(keys))
	for i, key := range keys {
		switch e.wantedType(key) {
		case "list":
			cmd := pipe.LRange(ctx, key, 0, -1)
			reads[i] = func() (all []entryOf) {
				for i, value := range cmd.Val() {
					all = append(all, entryOf{strconv.Itoa(i), value})
				}
				return all
			}
		case "zset":
			cmd := pipe.ZRangeWithScores(ctx, key, 0, -1)
			reads[i] = func() (all []entryOf) {
				for _, z := range cmd.Val() {
					all = append(all, entryOf{codec.Text(z.Member), strconv.FormatInt(int64(z.Score), 10)})
				}
				return all
			}
		default:
			cmd := pipe.HGetAll(ctx, key)
			reads[i] = func() (all []entryOf) {
				for name, value := range cmd.Val() {
					all = append(all, entryOf{name, value})
				}
				return all
			}
		}
	}
	_, err := pipe.Exec(ctx)
	all := make([][]entryOf, len(keys))
	for i, read := range reads {
		all[i] = read()
	}
	return all, err
}

// examineEntry finds an entry that cannot be read.
func (e *examination) examineEntry(ctx context.Context, key string, entry entryOf) error {
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
		default:
			pipe.HDel(ctx, key, entry.name)
		}
		return nil
	})
	return errors.Join(err, e.rest(ctx))
}
