package redisx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/lua"
)

// Refusal is the error of a script that found a change not allowed and wrote nothing. The header of a script's file
// lists the codes of its refusals.
type Refusal struct {
	Script string // name of the script
	Code   lua.Code
	Detail string // the rest of the error reply, for people
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%s refused: %s %s", r.Script, r.Code, r.Detail)
}

// RefusedWith reports whether err is a *Refusal with one of the codes.
func RefusedWith(err error, codes ...lua.Code) bool {
	var r *Refusal
	return errors.As(err, &r) && slices.Contains(codes, r.Code)
}

// Run runs a script. Errors: *Refusal if the script refused, an error of lua.Decode if the reply differs from the
// script's header, else an error of go-redis.
func Run[R any](ctx context.Context, db *DB, call lua.Call[R]) (R, error) {
	script := call.Script()
	start := clock.Now()
	reply, err := prepared(script).Run(ctx, db.UniversalClient, db.keysOf(call.Keys()), call.Args()...).Result()
	return decode(call, reply, db.observeRun(script, clock.Since(start), err))
}

// Result is the reply or the error of one of several calls.
type Result[R any] struct {
	Reply R
	Err   error
}

// pipelineLimit is the most script runs in one pipeline. A pipeline of thousands could take longer than the read
// timeout of the client, which would then send all of them again.
const pipelineLimit = 250

// RunEach runs several calls, up to 250 in one round trip, and returns their results in the same order. Each call is
// atomic, but not all of them together. In a cluster, the calls of each server are made whether or not the others answer; RunEach returns when all
// have answered, or ctx ends. The errors are those of Run.
func RunEach[R any, C lua.Call[R]](ctx context.Context, db *DB, calls []C) []Result[R] {
	if !db.Sharded() {
		return runInTurn[R](ctx, db, calls)
	}
	results := make([]Result[R], len(calls))
	err := db.EachServer(ctx, firstKeys[R](calls), func(_ redis.Cmdable, places []int) {
		for k, r := range runInTurn[R](ctx, db, at(calls, places)) {
			results[places[k]] = r
		}
	})
	if err != nil {
		return runInTurn[R](ctx, db, calls) // the calls find out why
	}
	return results
}

// firstKeys are the first keys of calls, by which they have their servers.
func firstKeys[R any, C lua.Call[R]](calls []C) []string {
	keys := make([]string, len(calls))
	for i, c := range calls {
		keys[i] = c.Keys()[0]
	}
	return keys
}

// at returns the items at those places.
func at[T any](items []T, places []int) []T {
	some := make([]T, len(places))
	for k, i := range places {
		some[k] = items[i]
	}
	return some
}

// runInTurn runs calls, as many at once as go into a pipeline.
func runInTurn[R any, C lua.Call[R]](ctx context.Context, db *DB, calls []C) []Result[R] {
	results := make([]Result[R], 0, len(calls))
	for chunk := range slices.Chunk(calls, pipelineLimit) {
		results = append(results, runTogether[R](ctx, db, chunk)...)
	}
	return results
}

// runTogether runs calls in one pipeline.
func runTogether[R any, C lua.Call[R]](ctx context.Context, db *DB, calls []C) []Result[R] {
	start := clock.Now()
	cmds := make([]*redis.Cmd, len(calls))
	pipeline := db.Pipeline()
	for i, c := range calls {
		cmds[i] = prepared(c.Script()).EvalSha(ctx, pipeline, db.keysOf(c.Keys()), c.Args()...)
	}
	_, _ = pipeline.Exec(ctx) // each command holds its own error
	each := clock.Since(start) / time.Duration(len(calls))

	results := make([]Result[R], len(calls))
	for i, cmd := range cmds {
		c := calls[i]
		reply, err := cmd.Result()
		if redis.HasErrorPrefix(err, "NOSCRIPT") { // Redis does not have the script yet, as after a restart
			reply, err = prepared(c.Script()).Run(ctx, db.UniversalClient, db.keysOf(c.Keys()), c.Args()...).Result()
		}
		results[i].Reply, results[i].Err = decode[R](c, reply, db.observeRun(c.Script(), each, err))
	}
	return results
}

// keysOf returns the keys with which a script is called. In a cluster, one more is declared that never exists. While a slot moves from one
// server to another, a cluster runs a script with several keys only where all of them are; so it runs none in that slot, and answers
// TRYAGAIN. Otherwise a script could find only a part of the keys that it makes by itself, and break off in the middle or write a key for
// the second time.
func (db *DB) keysOf(keys []string) []string {
	if _, cluster := db.UniversalClient.(*redis.ClusterClient); !cluster {
		return keys
	}
	return append(slices.Clip(keys), absentKey(keys[0]))
}

// absentKey returns a key that never exists, in the slot of another one.
func absentKey(key string) string {
	if end := strings.IndexByte(key, '}'); end > 0 {
		return key[:end+1] + ":absent"
	}
	return key[:strings.LastIndexByte(key, ':')+1] + "absent:{" + key + "}"
}

// decode returns err if it is not nil, else the decoded reply.
func decode[R any](call lua.Call[R], reply any, err error) (R, error) {
	if err != nil {
		var zero R
		return zero, err
	}
	return lua.Decode(call, reply)
}

// prepared returns the script with its hash, which is computed once.
func prepared(s *lua.Script) *redis.Script {
	if script, ok := hashed.Load(s); ok {
		return script.(*redis.Script)
	}
	script := redis.NewScript(s.Source)
	hashed.Store(s, script)
	return script
}

var hashed sync.Map // *lua.Script -> *redis.Script

// observeRun calls Options.Observe for one run, which took took and returned err. It returns err as a *Refusal if it
// is one, else err with the name of the script, worded as newer versions of Redis do.
func (db *DB) observeRun(s *lua.Script, took time.Duration, err error) error {
	err = unwrapped(err)
	refusal := refusalOf(s, err)
	if db.observe != nil {
		code := ""
		if refusal != nil {
			code = string(refusal.Code)
		}
		db.observe(s.Name, took, code)
	}
	switch {
	case refusal != nil:
		return refusal
	case err != nil:
		return fmt.Errorf("script %s: %w", s.Name, err)
	}
	return nil
}

// scriptFailed is how Redis before 7.0 begins the error of a command in a script. It goes on with the name and the line of the script, and only then
// says what the command was answered: "ERR Error running script (call to f_<hash>): @user_script:1: @user_script: 1: -READONLY You can't write ...".
const scriptFailed = "ERR Error running script"

// reply is an error reply of Redis.
type reply string

func (r reply) Error() string { return string(r) }

// RedisError implements redis.Error.
func (reply) RedisError() {}

// unwrapped returns what the command in a script was answered if err is an error that Redis before 7.0 has put around that, else err.
func unwrapped(err error) error {
	var whole redis.Error
	if !errors.As(err, &whole) || !strings.HasPrefix(whole.Error(), scriptFailed) {
		return err
	}
	if _, said, found := strings.Cut(whole.Error(), ": -"); found {
		return reply(strings.TrimSpace(said))
	}
	return err
}

// refusalOf returns err as a *Refusal, or nil if err is not a refusal that the script's header lists.
func refusalOf(s *lua.Script, err error) *Refusal {
	var replyErr redis.Error
	if !errors.As(err, &replyErr) {
		return nil
	}
	word, detail, _ := strings.Cut(replyErr.Error(), " ")
	if code := lua.Code(word); slices.Contains(s.Refusals, code) {
		return &Refusal{Script: s.Name, Code: code, Detail: detail}
	}
	return nil
}
