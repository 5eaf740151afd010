package storetest

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// Older is data that an older version wrote, with what that version's API answered about it.
type Older struct {
	Keys    []OlderKey   `json:"keys"`
	Answers OlderAnswers `json:"answers"`
}

// OlderKey is one key of Redis.
type OlderKey struct {
	Key     string          `json:"key"`
	Type    string          `json:"type"` // as the command TYPE calls it
	Content json.RawMessage `json:"content"`
	TTL     int64           `json:"ttl"` // ms that the key had left to live; 0 if it did not expire
}

// OlderAnswers are answers of GET requests.
type OlderAnswers struct {
	Tasks []struct {
		Task     map[string]any `json:"task"`
		Attempts []any          `json:"attempts"`
		Log      []any          `json:"log"` // lines
	} `json:"tasks"`
	Schedules []struct {
		Schedule map[string]any `json:"schedule"`
		Ledger   []any          `json:"ledger"`  // entries
		History  []any          `json:"history"` // revisions
	} `json:"schedules"`
}

// ReadOlder reads data from a file.
func ReadOlder(t testing.TB, path string) Older {
	t.Helper()
	raw, err := os.ReadFile(path)
	testkit.Must(t, err)
	var o Older
	testkit.Must(t, json.Unmarshal(raw, &o))
	return o
}

// Restore writes the keys into an empty Redis. Those that expire live for an hour. The secret, which older versions do not have, is
// the same each time, so that two installations can be compared.
func (o Older) Restore(t testing.TB, db *redisx.DB) {
	t.Helper()
	testkit.Must(t, db.FlushDB(t.Context()).Err())
	pipe := db.Pipeline()
	for _, k := range o.Keys {
		k.restore(t, pipe)
		if k.TTL > 0 {
			pipe.PExpire(t.Context(), k.Key, time.Hour)
		}
	}
	pipe.HSet(t.Context(), string(lua.NewKeyspace("", 0).Meta()), "secret", "tester")
	_, err := pipe.Exec(t.Context())
	testkit.Must(t, err)
}

func (k OlderKey) restore(t testing.TB, pipe redis.Pipeliner) {
	t.Helper()
	ctx := t.Context()
	switch k.Type {
	case "string":
		pipe.Set(ctx, k.Key, string(content[blob](t, k)), 0)
	case "hash":
		for field, value := range content[map[string]blob](t, k) {
			pipe.HSet(ctx, k.Key, field, string(value))
		}
	case "list":
		for _, value := range content[[]blob](t, k) {
			pipe.RPush(ctx, k.Key, string(value))
		}
	case "set":
		for _, value := range content[[]blob](t, k) {
			pipe.SAdd(ctx, k.Key, string(value))
		}
	case "zset":
		for member, score := range content[map[string]float64](t, k) {
			pipe.ZAdd(ctx, k.Key, redis.Z{Member: member, Score: score})
		}
	case "stream":
		for _, e := range content[[]streamEntry](t, k) {
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: k.Key, ID: e.ID, Values: e.Fields})
		}
	default:
		t.Fatalf("%s has the type %q", k.Key, k.Type)
	}
}

type streamEntry struct {
	ID     string            `json:"id"`
	Fields map[string]string `json:"fields"`
}

// blob is text, or bytes that are none, as an object with the field base64.
type blob string

// UnmarshalJSON reads both forms.
func (b *blob) UnmarshalJSON(raw []byte) error {
	if !strings.HasPrefix(string(raw), "{") {
		return json.Unmarshal(raw, (*string)(b))
	}
	var encoded struct {
		Base64 string `json:"base64"`
	}
	if err := json.Unmarshal(raw, &encoded); err != nil {
		return err
	}
	decoded, err := base64.StdEncoding.DecodeString(encoded.Base64)
	*b = blob(decoded)
	return err
}

// content reads the content of a key.
func content[T any](t testing.TB, k OlderKey) T {
	t.Helper()
	var v T
	testkit.Must(t, json.Unmarshal(k.Content, &v))
	return v
}
