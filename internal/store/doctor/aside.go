package doctor

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const keyType = "key-type"

// wantedType returns the type that a key must have, as TYPE says it; "" if that is not known.
func (e *examination) wantedType(key string) string {
	return lua.KeyTypes[e.patternOf(key)]
}

// patternOf returns the pattern in lua.KeyTypes of a key of this installation, or of asynq; "" for any other key.
func (e *examination) patternOf(key string) string {
	begins := lua.OfAsynqQueue
	rest, ours := strings.CutPrefix(key, "asynq:")
	if !ours {
		begins = lua.OfPartition
		if rest, ours = strings.CutPrefix(key, e.prefix()); !ours {
			return ""
		}
	}
	pattern := strings.SplitAfterN(begins, ":", 2)[0] + rest
	if tag, inside, ok := strings.Cut(rest, "}:"); ok && strings.HasPrefix(tag, "{") {
		pattern = begins + inside
	}
	for i := len(pattern) - 1; i > 0; i = strings.LastIndexByte(pattern[:i], ':') {
		if _, known := lua.KeyTypes[pattern[:i+1]]; known {
			return pattern[:i+1]
		}
	}
	return ""
}

// prefix is what all keys of the installation begin with.
func (e *examination) prefix() string {
	return strings.TrimSuffix(string(e.o.Layout.Keys.Partition(0).Defs()), "{0}:defs")
}

// fixedKeys are the keys of a partition, or of the installation, that have no parameters.
func (e *examination) fixedKeys(begins, at string) (keys []string) {
	for pattern := range lua.KeyTypes {
		rest, ok := strings.CutPrefix(pattern, begins)
		if ok && !strings.HasSuffix(rest, ":") && !strings.HasPrefix(rest, "{") {
			keys = append(keys, at+rest)
		}
	}
	return keys
}

// isFixed reports whether a key has no parameters, and belongs to the installation or to one of its partitions.
func (e *examination) isFixed(key string) bool {
	pattern := e.patternOf(key)
	if pattern == "" || strings.HasSuffix(pattern, ":") || !strings.HasPrefix(pattern, lua.OfInstallation) {
		return false
	}
	number, _, inPartition := strings.Cut(strings.TrimPrefix(key, e.prefix()+"{"), "}:")
	p, err := strconv.Atoi(number)
	return !inPartition || err == nil && p < e.o.Layout.Partitions()
}

// examineTypes finds the keys that have the wrong type, and puts them aside.
func (e *examination) examineTypes(ctx context.Context, keys []string) error {
	if !e.wants(keyType) {
		return nil
	}
	pipe := e.o.Layout.DB.Pipeline()
	types := make(map[string]*redis.StatusCmd)
	for _, key := range keys {
		if e.wantedType(key) != "" {
			types[key] = pipe.Type(ctx, key)
		}
	}
	if len(types) == 0 {
		return nil
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	e.looked(len(types), keyType)
	for key, found := range types {
		want := e.wantedType(key)
		if got := found.Val(); got == want || got == "none" {
			continue
		}
		words := fmt.Sprintf("is a %s, and must be a %s", found.Val(), want)
		if e.Repair {
			to, err := e.putKeyAside(ctx, key, want)
			if err != nil {
				return err
			}
			words += "; it is " + to + " now"
		}
		e.found(keyType, key, words)
	}
	return nil
}

// putAsideTries is how often doctor looks at a key again that somebody else, as another repair, changes meanwhile.
const putAsideTries = 10

// putKeyAside renames a key, unless it has the right type by now, and returns its new name.
func (e *examination) putKeyAside(ctx context.Context, key, want string) (to string, err error) {
	for range putAsideTries {
		to, err = e.tryPutAside(ctx, key, want)
		if want == "" || !errors.Is(err, redis.TxFailedErr) { // of a key of the right type, somebody else has mended the rest
			break
		}
	}
	return to, err
}

// tryPutAside is putKeyAside. Error: redis.TxFailedErr if somebody changes the key meanwhile.
func (e *examination) tryPutAside(ctx context.Context, key, want string) (string, error) {
	to := e.asideOf(key)
	return to, e.o.Layout.DB.Watch(ctx, func(tx *redis.Tx) error {
		if now, err := tx.Type(ctx, key).Result(); err != nil || now == want || now == "none" {
			return err
		}
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Rename(ctx, key, to)
			pipe.PExpire(ctx, to, task.AsideKept)
			return nil
		})
		return err
	}, key)
}

// inPartition is a key of a partition: the tag, and the rest.
var inPartition = regexp.MustCompile(`^(.*\{\d+\}:)(.*)$`)

// asideOf is where a key is put: on the same server of a cluster. A key without a tag is the tag of its new name.
func (e *examination) asideOf(key string) string {
	at := strconv.FormatInt(clock.Now().UnixMilli(), 10)
	switch m := inPartition.FindStringSubmatch(key); {
	case m != nil && strings.HasPrefix(key, e.prefix()):
		return m[1] + "aside:" + at + ":" + m[2]
	case strings.Contains(key, "{"): // a queue of asynq
		return e.prefix() + "aside:" + at + ":" + key
	}
	return e.prefix() + "aside:" + at + ":{" + key + "}"
}
