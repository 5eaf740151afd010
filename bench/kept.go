package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

const (
	keptTasks = 1000 // that go through the scripts in each repetition of the row kept
	keptCall  = 10   // of them in a call
	keptSlice = 20   // calls between two looks at the CPU time of Redis

	keptSet = 8 // repetitions whose 25th percentile is the CPU time
)

// kept is what a task costs Redis, as it was measured. After an intended change, write here what `go run . -rows kept`
// prints.
var kept = struct {
	commands map[string]float64 // a task, by script
	cpu      float64            // for all scripts, in multiples of what the fixed script takes
}{
	commands: map[string]float64{
		"create": 0.81, "claim": 1.60, "enqueue": 1.71, "take": 3.00, "begin": 1.00, "finish": 1.12, "done": 1.70,
		"pack": 0.27,
	},
	cpu: 0.71,
}

const (
	// keptCommand is by how many commands a task the scripts may differ from kept: one more in a call of 10 tasks is seen.
	keptCommand = 0.05
	// keptMore and keptLess are the shares by which the CPU time may differ. Equal runs gave 0.68 to 0.74 with little
	// beside them. So a change of +25 % gives 0.85 and more, and is found; one of +15 % may pass. A set that is too high
	// counts only if a second one is, too.
	keptMore, keptLess = 0.20, 0.25

	keptMissed = "If this change is meant, write what was measured into the variable kept of bench/kept.go"
)

func commandsOf(script string) string { return "commands: " + script }

const keptCPUFigure = "CPU of Redis / that of the fixed script"

// keptGoals are the bounds of the row kept.
func keptGoals() []goal {
	var goals []goal
	for script, n := range kept.commands {
		goals = append(goals, goal{commandsOf(script), n - keptCommand, n + keptCommand, keptMissed})
	}
	return append(goals, goal{keptCPUFigure, kept.cpu * (1 - keptLess), kept.cpu * (1 + keptMore), keptMissed})
}

func keptRow() row {
	return row{
		name: "kept", title: "What a task costs Redis, against what it cost before",
		method: "Tasks go through the scripts as in the row `budget`, 10 in a call. Commands: those that Redis runs for a " +
			"task by INFO commandstats, with those inside scripts. CPU: that of Redis for all scripts together, " +
			"divided by what a fixed script takes for as many items; their calls take turns, 20 at a time. It is the " +
			"25th percentile of 8 repetitions. If that is too high, they are made once more, and only these count.",
		goals: keptGoals(), smoke: keptGoals(),
		run: func(ctx context.Context, b *bench) (figures, error) {
			var f figures
			if err := b.onPath(ctx, func(p *path) error { f = nil; return p.keptCommands(ctx, &f) }); err != nil {
				return nil, err
			}
			err := b.keptRatio(ctx, &f)
			return f, err
		},
	}
}

// keptRatio adds the CPU time of Redis.
func (b *bench) keptRatio(ctx context.Context, f *figures) error {
	ratio, cpu, err := settledRatio(kept.cpu*(1+keptMore), func() (own, fixed float64, err error) {
		err = b.onPath(ctx, func(p *path) (err error) { own, fixed, err = p.keptCPU(ctx); return err })
		return own, fixed, err
	})
	f.add(keptCPUFigure, ratio, "x")
	f.add("CPU of Redis", cpu*1e6/keptTasks, "µs/task")
	return err
}

// settledRatio returns the 25th percentiles of the ratio of what measure returns, and of its first value, in a set of
// repetitions. If the ratio is above the bound, it makes a second set and returns its figures: others may have used the
// machine.
func settledRatio(bound float64, measure func() (own, fixed float64, err error)) (ratio, own float64, err error) {
	for range 2 {
		var ratios, owns []float64
		for range keptSet {
			own, fixed, err := measure()
			if err != nil {
				return 0, 0, err
			}
			ratios, owns = append(ratios, own/fixed), append(owns, own)
		}
		if ratio, own = percentile(ratios, 25), percentile(owns, 25); ratio <= bound {
			break
		}
	}
	return ratio, own, nil
}

// onPath calls f with a path of its own, and again if the machine was too slow.
func (b *bench) onPath(ctx context.Context, f func(*path) error) (err error) {
	const tries = 10
	for range tries {
		err = b.apart(ctx, func() error {
			p, err := b.newPath(ctx, keptCall)
			if err != nil {
				return err
			}
			return f(p)
		})
		if !errors.Is(err, errBehind) {
			return err
		}
	}
	return err
}

// inSlices calls f for each script and slice of the tasks. A slice goes through all scripts before the next one, so its
// tasks are claimed soon after they are due.
func (p *path) inSlices(f func(s stage, from, to int) error) error {
	const step = keptSlice * keptCall
	for from := 0; from < keptTasks; from += step {
		p.startWorker()
		for _, s := range p.stages() {
			if err := f(s, from, from+step); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	return nil
}

// keptCommands adds how many commands Redis runs for a task in each script.
func (p *path) keptCommands(ctx context.Context, f *figures) error {
	calls := make(map[string]float64)
	err := p.inSlices(func(s stage, from, to int) error {
		if err := p.b.redis.db.ConfigResetStat(ctx).Err(); err != nil {
			return err
		}
		if err := p.through(ctx, s, from, to); err != nil {
			return err
		}
		n, err := p.b.redis.commandCalls(ctx)
		calls[s.name] += n
		return err
	})
	if err != nil {
		return err
	}
	p.addCommands(f, calls)
	return nil
}

// addCommands adds how many commands Redis ran for a task, from how many it ran for all of them, by script.
func (p *path) addCommands(f *figures, calls map[string]float64) {
	total := 0.0
	for _, s := range p.stages() {
		f.add(commandsOf(s.name), calls[s.name]/keptTasks, "a task")
		total += calls[s.name] / keptTasks
	}
	f.add(commandsOf("all"), total, "a task")
}

// commandCalls is the number of commands since CONFIG RESETSTAT, but for what the bench asks.
func (s *redisServer) commandCalls(ctx context.Context) (float64, error) {
	stats, err := s.info(ctx, "commandstats")
	if err != nil {
		return 0, err
	}
	total := 0.0
	for name, stat := range stats {
		text, ok := strings.CutPrefix(stat, "calls=")
		switch strings.TrimPrefix(name, "cmdstat_") {
		case "info", "config|resetstat":
			continue
		}
		text, _, _ = strings.Cut(text, ",")
		calls, err := strconv.ParseFloat(text, 64)
		if !ok || err != nil {
			continue
		}
		total += calls
	}
	return total, nil
}

// through sends the tasks from one number up to another through a script.
func (p *path) through(ctx context.Context, s stage, from, to int) error {
	for ; from < to; from += p.n {
		if err := s.call(ctx, from, from+p.n); err != nil {
			return err
		}
	}
	return nil
}

// keptCPU is the CPU time of Redis for tasks that go through all scripts, and for as many calls of the fixed script.
func (p *path) keptCPU(ctx context.Context) (own, fixed float64, err error) {
	if err := p.b.fixedCalls(ctx, 0); err != nil { // loads the script
		return 0, 0, err
	}
	err = p.inSlices(func(s stage, from, to int) error {
		before, err := p.b.redis.cpu(ctx)
		if err != nil {
			return err
		}
		if err := p.through(ctx, s, from, to); err != nil {
			return err
		}
		between, err := p.b.redis.cpu(ctx)
		if err != nil {
			return err
		}
		if err := p.b.fixedCalls(ctx, from); err != nil {
			return err
		}
		after, err := p.b.redis.cpu(ctx)
		own, fixed = own+between-before, fixed+after-between
		return err
	})
	return own, fixed, err
}

// fixedScript does about as much for an item as a script of DTS does for a task, with the same kinds of commands. It
// never changes: a bound of the row kept is a multiple of what it takes.
var fixedScript = redis.NewScript(`
local hash, set, list = KEYS[1], KEYS[2], KEYS[3]
local out = {}
for i = 1, #ARGV, 2 do
  local id, text = ARGV[i], ARGV[i + 1]
  redis.call('HSET', hash, id, text)
  redis.call('ZADD', set, i, id)
  local fields = {}
  for word in string.gmatch(redis.call('HGET', hash, id), '%S+') do
    fields[#fields + 1] = tonumber(word) or word
  end
  redis.call('LPUSH', list, id)
  redis.call('HSET', hash, id, table.concat(fields, ' '))
  out[#out + 1] = id .. ' ' .. #fields
end
redis.call('LTRIM', list, 0, 999)
return out`)

// fixedCalls calls the fixed script as often as a slice has calls. n distinguishes their items.
func (b *bench) fixedCalls(ctx context.Context, n int) error {
	text := "1 0 3 1764300000000 0 1764300000001 1764300000002 bench#1 0 0 0 default " + strings.Repeat("x", payloadSize)
	for call := range keptSlice {
		args := make([]any, 0, 2*keptCall)
		for i := range keptCall {
			args = append(args, fmt.Sprintf("item-%08d", n+call*keptCall+i), text)
		}
		keys := []string{"bench:{fixed}:hash", "bench:{fixed}:set", "bench:{fixed}:list"}
		if err := fixedScript.Run(ctx, b.redis.db, keys, args...).Err(); err != nil {
			return err
		}
	}
	return nil
}
