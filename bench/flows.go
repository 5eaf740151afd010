package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/lua"
)

const (
	chainLength = 20   // steps of each of many chains
	wideFlow    = 10   // steps that each step of the next layer needs
	longFlow    = 1000 // steps, the most that a workflow may have
)

// flowOf is a run of a workflow whose steps are tasks of a type. needs are those of step i, by their numbers.
func flowOf(id string, steps int, taskType string, needs func(i int) []int) submission {
	type stepTask struct {
		Type string `json:"type"`
	}
	type step struct {
		ID    string   `json:"id"`
		Needs []string `json:"needs,omitempty"`
		Task  stepTask `json:"task"`
	}
	all := make([]step, steps)
	for i := range all {
		all[i] = step{ID: fmt.Sprint("s", i), Task: stepTask{taskType}}
		for _, need := range needs(i) {
			all[i].Needs = append(all[i].Needs, fmt.Sprint("s", need))
		}
	}
	payload, err := json.Marshal(map[string]any{"definition": map[string]any{"steps": all}})
	if err != nil {
		panic(err) // it consists of texts
	}
	return submission{ID: id, Type: "workflow", Payload: payload}
}

// inChain has each step need the one before.
func inChain(i int) []int {
	if i == 0 {
		return nil
	}
	return []int{i - 1}
}

// inLayers has each step need all of the layer before.
func inLayers(i int) (needs []int) {
	for j := range wideFlow {
		if before := (i/wideFlow-1)*wideFlow + j; before >= 0 {
			needs = append(needs, before)
		}
	}
	return needs
}

// awaitEnd waits until a run has succeeded.
func (n *node) awaitEnd(ctx context.Context, id string) error {
	ended := func(ctx context.Context) (bool, error) {
		answer, err := n.client.GetTaskWithResponse(ctx, id, nil)
		switch {
		case err != nil:
			return false, err
		case answer.StatusCode() != http.StatusOK:
			return false, fmt.Errorf("reading the run: %s: %.300s", answer.Status(), answer.Body)
		case answer.JSON200.State == "failed":
			return false, fmt.Errorf("the run has failed: %.300s", answer.Body)
		}
		return answer.JSON200.State == "succeeded", nil
	}
	return poll(ctx, 20*time.Millisecond, time.Minute, "the end of "+id, ended)
}

func flowChainRow() row {
	return row{
		name: "flow-chain", title: "One run of a workflow: a chain of 400 no-op steps",
		method: "One full node with nothing else to do runs one chain (in the short form one of 100). A step: " +
			"from the start of the handler of a step to that of the next one. So a step has its end recorded, the next one " +
			"is planned and released, handed over and taken.",
		goals: []goal{atMost("p50 of a step", 3)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			var mu sync.Mutex
			var begun []time.Time
			n, err := b.startNode(ctx, nodeOptions{roles: fullNode, handle: func(executor.Attempt) {
				mu.Lock()
				defer mu.Unlock()
				begun = append(begun, clock.Now())
			}})
			if err != nil {
				return nil, err
			}
			spent, err := b.startCosts(ctx)
			if err != nil {
				return nil, err
			}
			run := flowOf("chain", b.size.chain, benchType, inChain)
			if err := submitBatch(ctx, n.url(), []submission{run}); err != nil {
				return nil, err
			}
			if err := n.awaitEnd(ctx, run.ID); err != nil {
				return nil, err
			}
			used, err := spent.perTask(ctx, b.size.chain)
			if len(begun) != b.size.chain {
				return nil, fmt.Errorf("%d of %d steps began", len(begun), b.size.chain)
			}
			took := make([]float64, len(begun)-1)
			for i := range took {
				took[i] = milliseconds(begun[i+1].Sub(begun[i]))
			}
			var f figures
			f.add("p50 of a step", percentile(took, 50), "ms")
			f.add("p99 of a step", percentile(took, 99), "ms")
			f.add("CPU of Redis", used.redis, "µs/step")
			f.add("CPU of this process", used.self, "µs/step")
			f.add("commands of Redis", used.commands, "a step")
			return f, err
		},
	}
}

func flowManyRow() row {
	return row{
		name: "flow-many", title: "Many runs of workflows side by side: 500 chains of 20 no-op steps",
		method: "One full node with 64 slots and nothing else to do. Steps: 500 runs are submitted in batches (in the " +
			"short form 50). Plain: as many tasks as there are steps are submitted in batches. Both from the first " +
			"submission to the last write.",
		goals: []goal{atLeast("steps / plain tasks", 0.6)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			var steps, plainTasks drained
			err := b.alternate(
				func() error {
					return b.apart(ctx, func() (err error) {
						steps, err = b.streamInto(ctx, b.size.chains, func(i int) submission {
							return flowOf(fmt.Sprint("chain-", i), chainLength, benchType, inChain)
						})
						return err
					})
				},
				func() error {
					return b.apart(ctx, func() (err error) {
						n := b.size.chains * chainLength
						plainTasks, err = b.streamInto(ctx, n, func(int) submission { return plain() })
						return err
					})
				},
			)
			var f figures
			f.add("steps / plain tasks", steps.rate/plainTasks.rate, "x")
			f.add("steps", steps.rate, "steps/s")
			f.add("plain tasks", plainTasks.rate, "tasks/s")
			f.add("CPU of Redis, steps", steps.redis, "µs/step")
			f.add("CPU of Redis, plain", plainTasks.redis, "µs/task")
			f.add("CPU of this process, steps", steps.self, "µs/step")
			f.add("CPU of this process, plain", plainTasks.self, "µs/task")
			f.add("commands of Redis, steps", steps.commands, "a step")
			f.add("commands of Redis, plain", plainTasks.commands, "a task")
			return f, err
		},
	}
}

// streamInto submits n tasks to a node that has nothing else to do, and measures until as many tasks have run as there
// are steps of all chains.
func (b *bench) streamInto(ctx context.Context, n int, task func(i int) submission) (d drained, err error) {
	handled := b.size.chains * chainLength
	seen := newCounter(handled)
	node, err := b.startNode(ctx, nodeOptions{roles: fullNode, handle: func(executor.Attempt) { seen.hit() }})
	if err != nil {
		return d, err
	}
	spent, err := b.startCosts(ctx)
	if err != nil {
		return d, err
	}
	begin := clock.Now()
	if err := stow(ctx, node.url(), n, task); err != nil {
		return d, err
	}
	if err := seen.wait(ctx); err != nil {
		return d, err
	}
	if err := b.awaitProcessed(ctx, handled); err != nil {
		return d, err
	}
	d.rate = float64(handled) / clock.Since(begin).Seconds()
	d.taskCosts, err = spent.perTask(ctx, handled)
	return d, err
}

func flowBlockedRow() row {
	return row{
		name: "flow-blocked", title: "Memory of steps that are blocked",
		method: "20 runs of 1,000 steps in layers of 10. Each step needs all of the layer before. Their tasks are in " +
			"a queue that nobody serves. State: the text that says what became of the steps. All: growth of Redis's " +
			"used_memory, with the definition, which is in the payload of the run and beside its state. Both divided by " +
			"the number of steps.",
		goals: []goal{atMost("state of a step", 40)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			const runs, benchTask, unservedTask = 20, `"type":"bench"`, `"type":"bench","queue":"unserved"`
			node, err := b.startNode(ctx, nodeOptions{roles: fullNode})
			if err != nil {
				return nil, err
			}
			state := 0
			begun := func(ctx context.Context) (_ bool, err error) {
				var n int
				n, state, err = b.redis.runTexts(ctx)
				return n == runs, err
			}
			grown, err := b.growth(ctx, runs*longFlow, func() error {
				err := stow(ctx, node.url(), runs, func(i int) submission {
					s := flowOf(fmt.Sprint("long-", i), longFlow, benchType, inLayers)
					s.Payload = json.RawMessage(strings.ReplaceAll(string(s.Payload), benchTask, unservedTask))
					return s
				})
				if err != nil {
					return err
				}
				return poll(ctx, 100*time.Millisecond, time.Minute, "the begin of all runs", begun)
			})
			var f figures
			f.add("state of a step", float64(state)/(runs*longFlow), "B")
			f.add("all of a step", grown, "B")
			return f, err
		},
	}
}

// runTexts returns how many runs of workflows have begun, and how long the texts are of what became of their steps.
func (s *redisServer) runTexts(ctx context.Context) (runs, bytes int, _ error) {
	keys := lua.NewKeyspace("", 0)
	for i := range layout.DefaultPartitions {
		texts, err := s.db.HVals(ctx, string(keys.Partition(i).Runs())).Result()
		if err != nil {
			return 0, 0, err
		}
		for _, text := range texts {
			runs, bytes = runs+1, bytes+len(text)
		}
	}
	return runs, bytes, nil
}

func flowLateRow() row {
	return row{
		name: "flow-late", title: "Lateness, due to started, beside runs of workflows of 1,000 steps",
		method: latenessMethod + " All tasks and runs are in one partition. Beside: one run of 1,000 steps after the " +
			"other, in layers of 10. Each step needs all of the layer before. Later than alone: the most beside runs less " +
			"the most without them, in the same round.",
		goals: []goal{atMost("most at 200/s, later than alone", 20), atLeast("earliest at 200/s", 0)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			m := &punctuality{partitions: 1}
			if err := m.start(ctx, b); err != nil {
				return nil, err
			}
			var alone, f figures
			if err := m.at(ctx, b, 200, &alone, nil); err != nil {
				return nil, err
			}
			ran := 0
			err := m.at(ctx, b, 200, &f, func(ctx context.Context) error {
				for ; ctx.Err() == nil; ran++ {
					run := flowOf(fmt.Sprintf("long-%d-%d", b.round, ran), longFlow, "noop", inLayers)
					if err := submitBatch(ctx, m.node.url(), []submission{run}); err != nil && ctx.Err() == nil {
						return err
					}
					if err := m.node.awaitEnd(ctx, run.ID); err != nil && ctx.Err() == nil {
						return err
					}
				}
				return nil
			})
			most := "most at 200/s"
			f.add(most+", later than alone", f.value(most)-alone.value(most), "ms")
			for _, one := range alone {
				f.add(one.name+", alone", one.value, one.unit)
			}
			f.add("runs", float64(ran), "runs")
			return slices.Clip(f), err
		},
	}
}
