package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
)

// Entry is one key's content in a Dump.
type Entry struct {
	Type string // as the command TYPE calls it
	// Value is, by type: string, map[string]string (hash), []string (list; set, sorted),
	// map[string]float64 (zset), []StreamEntry (stream).
	Value any
	TTL   bool // whether the key expires; when is left out, as it changes by itself
}

// StreamEntry is one entry of a stream.
type StreamEntry struct {
	ID     string
	Fields map[string]any
}

// Dump is everything in the client's database, an Entry for each key, to be compared before and after with
// go-cmp. It is not atomic: nobody may write meanwhile, but keys may expire or be deleted, which are left out
// then. In a cluster it sees one node only.
func Dump(t testing.TB, db *redisx.DB) map[string]any {
	t.Helper()
	ctx := t.Context()
	all := map[string]any{}
	keys := db.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		entry, err := dumpKey(ctx, db, keys.Val())
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			t.Fatalf("dumping %s: %v", keys.Val(), err)
		}
		all[keys.Val()] = entry
	}
	if err := keys.Err(); err != nil {
		t.Fatalf("dumping Redis: %v", err)
	}
	return all
}

// dumpKey reads a key. Error: redis.Nil if it does not exist any more.
func dumpKey(ctx context.Context, db *redisx.DB, key string) (Entry, error) {
	kind, err := db.Type(ctx, key).Result()
	if err != nil {
		return Entry{}, err
	}
	left, err := db.PTTL(ctx, key).Result()
	if err != nil {
		return Entry{}, err
	}
	value, err := dumpValue(ctx, db, key, kind)
	return Entry{Type: kind, Value: value, TTL: left >= 0}, err
}

func dumpValue(ctx context.Context, db *redisx.DB, key, kind string) (any, error) {
	switch kind {
	case "none":
		return nil, redis.Nil
	case "string":
		return db.Get(ctx, key).Result()
	case "hash":
		return db.HGetAll(ctx, key).Result()
	case "list":
		return db.LRange(ctx, key, 0, -1).Result()
	case "set":
		members, err := db.SMembers(ctx, key).Result()
		slices.Sort(members)
		return members, err
	case "zset":
		return dumpSortedSet(ctx, db, key)
	case "stream":
		return dumpStream(ctx, db, key)
	}
	return nil, fmt.Errorf("type %q is not known here", kind)
}

func dumpSortedSet(ctx context.Context, db *redisx.DB, key string) (map[string]float64, error) {
	members, err := db.ZRangeWithScores(ctx, key, 0, -1).Result()
	scores := make(map[string]float64, len(members))
	for _, m := range members {
		scores[fmt.Sprint(m.Member)] = m.Score
	}
	return scores, err
}

func dumpStream(ctx context.Context, db *redisx.DB, key string) ([]StreamEntry, error) {
	messages, err := db.XRange(ctx, key, "-", "+").Result()
	entries := make([]StreamEntry, len(messages))
	for i, m := range messages {
		entries[i] = StreamEntry{ID: m.ID, Fields: m.Values}
	}
	return entries, err
}
