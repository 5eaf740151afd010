package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

func groupRow() row {
	const one, many = "one caller, p50: shared / alone", "64 callers: shared / alone"
	return row{
		name: "group", title: "Group commit",
		method: "Tasks are created in Redis without HTTP: by a call of the store, in which callers share round trips, and by a call of the script for each task. " +
			"Begins and ends of attempts share theirs in the same way.",
		goals: []goal{atMost(one, 1.1)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			ways, err := b.creators(ctx)
			if err != nil {
				return nil, err
			}
			var took [2][]float64
			for i := range b.size.pings {
				for k := range ways { // in turns, so that both see the same machine
					start := clock.Now()
					if err := ways[(i+k)%2](ctx); err != nil {
						return nil, err
					}
					took[(i+k)%2] = append(took[(i+k)%2], float64(clock.Since(start).Nanoseconds())/1e3)
				}
			}
			var rates [2]float64
			measure := func(k int) func() error {
				return func() error {
					start := clock.Now()
					err := share(ctx, b.size.single, submitCallers, func(ctx context.Context, _ int) error { return ways[k](ctx) })
					rates[k] = float64(b.size.single) / clock.Since(start).Seconds()
					return err
				}
			}
			if err := b.alternate(measure(0), measure(1)); err != nil {
				return nil, err
			}
			var f figures
			shared, alone := percentile(took[0], 50), percentile(took[1], 50)
			f.add(one, shared/alone, "x")
			f.add("one caller, p50: shared", shared, "µs")
			f.add("one caller, p50: alone", alone, "µs")
			f.add(many, rates[0]/rates[1], "x")
			f.add("64 callers: shared", rates[0], "tasks/s")
			f.add("64 callers: alone", rates[1], "tasks/s")
			return f, nil
		},
	}
}

// creators returns two functions that create a task: in a round trip that callers share, and in one of its own.
func (b *bench) creators(ctx context.Context) ([]func(context.Context) error, error) {
	db, data, err := b.openStore(ctx)
	if err != nil {
		return nil, err
	}
	definition := func() task.Definition {
		return task.Definition{
			Ref: task.Ref{Namespace: task.DefaultNamespace, ID: rand.Text()}, Type: benchType, Payload: plain().Payload, Delay: time.Hour,
		}.Normalize()
	}
	shared := func(ctx context.Context) error { return data.Tasks.Create(ctx, []task.Definition{definition()})[0].Err }
	alone := func(ctx context.Context) error {
		d := definition()
		def, err := codec.EncodeDefinition(d)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // as any call to Redis has a limit
		defer cancel()
		result := redisx.RunEach[lua.CreateReply](ctx, db, []lua.Create{{
			Defs: data.KeysOf(d.Ref).Defs(), Events: data.Keys.Events(), Wake: data.WakeOf(d.Ref), Dry: false, Traced: false,
			Tasks: []lua.CreateTask{{Member: d.Ref, Def: def, RunAt: d.RunAt, Delay: d.Delay}},
		}})[0]
		if result.Err == nil && len(result.Reply.Taken) > 0 {
			return fmt.Errorf("create answered %v", result.Reply.Taken)
		}
		return result.Err
	}
	return []func(context.Context) error{shared, alone}, nil
}
