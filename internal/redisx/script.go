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

// Refusal is a script's "no": it looked, found that the change is not allowed, and wrote nothing.
// The codes a script may refuse with are listed in the header of its file.
type Refusal struct {
	Script string
	Code   lua.Code
	Detail string // the rest of the answer, for people
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%s refused: %s %s", r.Script, r.Code, r.Detail)
}

// RefusedWith says whether err is a script's refusal with one of these codes.
func RefusedWith(err error, codes ...lua.Code) bool {
	var r *Refusal
	return errors.As(err, &r) && slices.Contains(codes, r.Code)
}

// Run runs a script once. Errors: *Refusal where the script said no, a reply that is not what its header says, else what
// go-redis reports.
func Run[R any](ctx context.Context, db *DB, call lua.Call[R]) (R, error) {
	script := call.Script()
	start := clock.Now()
	reply, err := prepared(script).Run(ctx, db.UniversalClient, call.Keys(), call.Args()...).Result()
	return decode(call, reply, db.settle(script, clock.Since(start), err))
}

// Result is what one of several calls came back with.
type Result[R any] struct {
	Reply R
	Err   error
}

// pipelineLimit is how many runs of a script travel together: one that waits for thousands takes longer than a client
// waits for an answer, and the client would send all of them again.
const pipelineLimit = 250

// RunEach runs several calls, many in one round trip, and answers in the same order. The calls are atomic one by one, not
// together. The errors are those of Run.
func RunEach[R any, C lua.Call[R]](ctx context.Context, db *DB, calls []C) []Result[R] {
	results := make([]Result[R], 0, len(calls))
	for chunk := range slices.Chunk(calls, pipelineLimit) {
		results = append(results, runTogether[R](ctx, db, chunk)...)
	}
	return results
}

func runTogether[R any, C lua.Call[R]](ctx context.Context, db *DB, calls []C) []Result[R] {
	start := clock.Now()
	cmds := make([]*redis.Cmd, len(calls))
	pipe := db.Pipeline()
	for i, c := range calls {
		cmds[i] = prepared(c.Script()).EvalSha(ctx, pipe, c.Keys(), c.Args()...)
	}
	_, _ = pipe.Exec(ctx) // each command carries its own error
	each := clock.Since(start) / time.Duration(len(calls))

	results := make([]Result[R], len(calls))
	for i, cmd := range cmds {
		c := calls[i]
		reply, err := cmd.Result()
		if redis.HasErrorPrefix(err, "NOSCRIPT") { // a Redis that has just started does not know it yet
			reply, err = prepared(c.Script()).Run(ctx, db.UniversalClient, c.Keys(), c.Args()...).Result()
		}
		results[i].Reply, results[i].Err = decode[R](c, reply, db.settle(c.Script(), each, err))
	}
	return results
}

func decode[R any](call lua.Call[R], reply any, err error) (R, error) {
	if err != nil {
		var none R
		return none, err
	}
	return lua.Decode(call, reply)
}

// prepared is the script with its hash, which is computed once.
func prepared(s *lua.Script) *redis.Script {
	if known, ok := hashed.Load(s); ok {
		return known.(*redis.Script)
	}
	script := redis.NewScript(s.Source)
	hashed.Store(s, script)
	return script
}

var hashed sync.Map // *lua.Script -> *redis.Script

// settle turns a script's error into a Refusal where it is one, and tells the observer.
func (db *DB) settle(s *lua.Script, took time.Duration, err error) error {
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

func refusalOf(s *lua.Script, err error) *Refusal {
	var answered redis.Error
	if !errors.As(err, &answered) {
		return nil
	}
	word, detail, _ := strings.Cut(answered.Error(), " ")
	if code := lua.Code(word); slices.Contains(s.Refusals, code) {
		return &Refusal{Script: s.Name, Code: code, Detail: detail}
	}
	return nil
}
