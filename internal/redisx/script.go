package redisx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/lua"
)

// Refusal is a script's "no": it looked, found that the change is not allowed, and wrote nothing.
// The codes a script may refuse with are listed in the header of its file.
type Refusal struct {
	Script string
	Code   string // one upper-case word, such as FENCED
	Detail string // the rest of the answer, for people
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%s refused: %s %s", r.Script, r.Code, r.Detail)
}

// RefusedWith says whether err is a script's refusal with that code.
func RefusedWith(err error, code string) bool {
	var r *Refusal
	return errors.As(err, &r) && r.Code == code
}

// Script is one of the scripts of package lua, ready to run.
type Script struct {
	name     string
	refusals []string
	run      *redis.Script
}

// NewScript prepares the script of that name; it panics if package lua has none.
func NewScript(name string) *Script {
	s := lua.Load(name)
	return &Script{name: name, refusals: s.Refusals, run: redis.NewScript(s.Source)}
}

// Name is the name of the script's file, without ".lua".
func (s *Script) Name() string { return s.name }

// Call is one run of a script among several that travel together.
type Call struct {
	Keys []string
	Args []any
}

// Reply is what one Call came back with.
type Reply struct {
	Value any
	Err   error
}

// Run runs the script once. Errors: *Refusal where the script said no, else what go-redis reports.
func (db *DB) Run(ctx context.Context, s *Script, keys []string, args ...any) (any, error) {
	start := clock.Now()
	v, err := s.run.Run(ctx, db.UniversalClient, keys, args...).Result()
	return v, db.settle(s, clock.Since(start), err)
}

// pipelineLimit is how many runs of a script travel together: one that waits for thousands takes longer than a client
// waits for an answer, and the client would send all of them again.
const pipelineLimit = 250

// RunEach runs the script once for every call, many in one round trip, and answers in the same order.
// The calls are atomic one by one, not together.
func (db *DB) RunEach(ctx context.Context, s *Script, calls []Call) []Reply {
	replies := make([]Reply, 0, len(calls))
	for chunk := range slices.Chunk(calls, pipelineLimit) {
		replies = append(replies, db.runTogether(ctx, s, chunk)...)
	}
	return replies
}

func (db *DB) runTogether(ctx context.Context, s *Script, calls []Call) []Reply {
	start := clock.Now()
	cmds := make([]*redis.Cmd, len(calls))
	pipe := db.Pipeline()
	for i, c := range calls {
		cmds[i] = s.run.EvalSha(ctx, pipe, c.Keys, c.Args...)
	}
	_, _ = pipe.Exec(ctx) // each command carries its own error
	each := clock.Since(start) / time.Duration(len(calls))

	replies := make([]Reply, len(calls))
	for i, cmd := range cmds {
		v, err := cmd.Result()
		if redis.HasErrorPrefix(err, "NOSCRIPT") { // a Redis that has just started does not know it yet
			v, err = s.run.Run(ctx, db.UniversalClient, calls[i].Keys, calls[i].Args...).Result()
		}
		replies[i] = Reply{Value: v, Err: db.settle(s, each, err)}
	}
	return replies
}

// settle turns a script's error into a Refusal where it is one, and tells the observer.
func (db *DB) settle(s *Script, took time.Duration, err error) error {
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	refusal := s.refusal(err)
	if db.observe != nil {
		code := ""
		if refusal != nil {
			code = refusal.Code
		}
		db.observe(s.name, took, code)
	}
	switch {
	case refusal != nil:
		return refusal
	case err != nil:
		return fmt.Errorf("script %s: %w", s.name, err)
	}
	return nil
}

func (s *Script) refusal(err error) *Refusal {
	var answered redis.Error
	if !errors.As(err, &answered) {
		return nil
	}
	code, detail, _ := strings.Cut(answered.Error(), " ")
	if !slices.Contains(s.refusals, code) {
		return nil
	}
	return &Refusal{Script: s.name, Code: code, Detail: detail}
}
