package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/api"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/events"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
)

const (
	submitCallers = 64
	submitBatches = 100 // tasks in a batch
)

func submitRow() row {
	return row{
		name: "submit", title: "Submission over HTTP",
		method: "64 callers on kept connections, in the server's process, tasks with a payload of 200 B due in an hour; where nothing else " +
			"is said without an id. Without a store: the same server (routes, OpenAPI validation, JSON, checks of control), whose Redis " +
			"client sends each kind of script call to Redis once and then answers it from memory.",
		goals: []goal{atLeast("single: with / without a store", 0.65), atLeast("batches of 100: with / without a store", 0.5)},
		smoke: []goal{atLeast("single: with / without a store", 0.3), atLeast("batches of 100: with / without a store", 0.25)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			var f figures
			for _, kind := range []struct {
				name        string
				calls, size int
				named       bool
			}{
				{"single", b.size.single, 1, false},
				{"single with an id of the caller", b.size.single, 1, true},
				{"batches of 100", b.size.batched / submitBatches, submitBatches, false},
			} {
				var with, without submitted
				err := b.alternate(
					func() error {
						return b.apart(ctx, func() (err error) { with, err = b.submitAll(ctx, kind.calls, kind.size, kind.named); return err })
					},
					func() error {
						return b.apart(ctx, func() (err error) {
							without, err = b.submitAll(ctx, kind.calls, kind.size, kind.named, &replay{})
							return err
						})
					},
				)
				if err != nil {
					return nil, err
				}
				f.add(kind.name+": with / without a store", with.rate/without.rate, "x")
				f.add(kind.name+": with", with.rate, "tasks/s")
				f.add(kind.name+": without", without.rate, "tasks/s")
				f.add(kind.name+": CPU of Redis", with.redis, "µs/task")
				f.add(kind.name+": CPU of this process", with.self, "µs/task")
				f.add(kind.name+": commands of Redis", with.commands, "a task")
			}
			return f, nil
		},
	}
}

// submitted is what came of submissions.
type submitted struct {
	taskCosts
	rate float64 // tasks a second
}

// submitAll sends calls of size tasks each, or of one task with an id, to a server of its own, whose Redis client has hooks.
func (b *bench) submitAll(ctx context.Context, calls, size int, named bool, hooks ...redis.Hook) (submitted, error) {
	url, err := b.serveAPI(ctx, hooks...)
	if err != nil {
		return submitted{}, err
	}
	path, want := url+"/v1/tasks", http.StatusCreated
	if size > 1 {
		path, want = url+"/v1/tasks/batch", http.StatusOK
	}
	body, err := submitBody(size)
	if err != nil {
		return submitted{}, err
	}
	send := func(ctx context.Context, i int) error {
		sent := body
		if named {
			sent = fmt.Appendf(nil, `{"id":"call-%d",%s`, i, body[1:])
		}
		answer, err := post(ctx, path, sent, want)
		if accepted := bytes.Count(answer, []byte(acceptedMark)); err == nil && size > 1 && accepted != size {
			return fmt.Errorf("%d of %d tasks were accepted: %.300s", accepted, size, answer)
		}
		return err
	}
	connect := func(ctx context.Context, i int) error { return send(ctx, -1-i) }
	if err := share(ctx, submitCallers, submitCallers, connect); err != nil {
		return submitted{}, err
	}
	spent, err := b.startCosts(ctx)
	if err != nil {
		return submitted{}, err
	}
	start := clock.Now()
	if err := share(ctx, calls, submitCallers, send); err != nil {
		return submitted{}, err
	}
	s := submitted{rate: float64(calls*size) / clock.Since(start).Seconds()}
	s.taskCosts, err = spent.perTask(ctx, calls*size)
	return s, err
}

// submitBody is the body of a call. Its tasks have no id.
func submitBody(size int) ([]byte, error) {
	tasks := make([]submission, size)
	for i := range tasks {
		tasks[i] = plain()
		tasks[i].Delay = "1h"
	}
	if size == 1 {
		return json.Marshal(tasks[0])
	}
	return batchOf(tasks)
}

// openStore opens DTS's data, until the end of the round.
func (b *bench) openStore(ctx context.Context) (*redisx.DB, *store.Store, error) {
	db, err := redisx.Open(ctx, redisx.Options{URL: b.redis.url()})
	if err != nil {
		return nil, nil, err
	}
	b.cleanup(db.Close)
	data, err := store.Open(ctx, store.Options{DB: db, Types: executors(nil).Types(), Log: b.log})
	return db, data, err
}

// serveAPI serves the API until the end of the round, on a Redis client with hooks.
func (b *bench) serveAPI(ctx context.Context, hooks ...redis.Hook) (string, error) {
	db, data, err := b.openStore(ctx)
	if err != nil {
		return "", err
	}
	types := executors(nil).Types()
	for _, h := range hooks {
		db.AddHook(h)
	}
	server, err := edge.New(edge.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return "", err
	}
	err = api.Register(server, api.Options{
		Control: control.New(control.Options{
			Store: data, Queues: queue.New(queue.Options{DB: db}), Types: types, Log: b.log,
			Events: events.New(events.Options{Source: data.Tasks, Log: b.log}),
		}),
		Types: types,
	})
	if err != nil {
		return "", err
	}
	return b.serveHTTP(ctx, server.Echo())
}

// replay is a hook that stands for a Redis that costs nothing: a call of a script with the same name and number of
// arguments gets the reply that the first such call got from Redis. Other commands go to Redis.
type replay struct{ replies sync.Map }

// call is what replay tells calls apart by.
type call struct {
	name, script string
	arguments    int
}

func (*replay) key(cmd redis.Cmder) call {
	args := cmd.Args()
	c := call{name: cmd.Name(), arguments: len(args)}
	if len(args) > 1 {
		c.script, _ = args[1].(string)
	}
	return c
}

// answer gives a command its reply, if the command is the call of a script and has one.
func (r *replay) answer(cmd redis.Cmder) bool {
	call, ok := cmd.(*redis.Cmd)
	if !ok {
		return false
	}
	reply, ok := r.replies.Load(r.key(cmd))
	if ok {
		call.SetVal(reply)
	}
	return ok
}

// learn keeps the reply of a command.
func (r *replay) learn(cmd redis.Cmder) {
	if call, ok := cmd.(*redis.Cmd); ok && call.Err() == nil {
		r.replies.Store(r.key(cmd), call.Val())
	}
}

// DialHook changes nothing.
func (r *replay) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook answers single commands.
func (r *replay) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if r.answer(cmd) {
			return nil
		}
		err := next(ctx, cmd)
		if err == nil {
			r.learn(cmd)
		}
		return err
	}
}

// ProcessPipelineHook answers pipelines all of whose commands it knows.
func (r *replay) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		known := 0
		for _, cmd := range cmds {
			if r.answer(cmd) {
				known++
			}
		}
		if known == len(cmds) {
			return nil
		}
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			r.learn(cmd)
		}
		return err
	}
}
