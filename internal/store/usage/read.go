package usage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// The bounds of a reading. All of it costs Redis some 100 ms, however much data there is.
const (
	entrySamples    = 3000 // entries of all hashes of one kind
	keySamples      = 6000 // keys of a server
	scheduleSamples = 1000 // schedules whose keys are measured
	nameSamples     = 100  // queues, and namespaces, whose keys are measured by name
	usageSamples    = 100  // entries at which MEMORY USAGE looks in a large key
	pipelineLength  = 200  // commands in one round trip
	entryOverhead   = 56   // bytes that Redis takes for an entry of a hash beside its name and value
)

// reader reads what a report needs.
type reader struct {
	ctx context.Context
	l   *layout.Layout
	tally
	named map[string]bool // keys that were measured by name

	mu         sync.Mutex // for the servers, which are asked together
	used       float64
	limit      float64
	unlimited  bool
	keys       int64
	unmeasured float64 // keys that the user of Redis may not measure
	unsaid     error   // why a server does not say what it uses; nil if all do

	schedules []ScheduleUsage
	measured  int // of a random part of the schedules
	existing  int
}

func (r *reader) read() error {
	if err := r.probe(); err != nil {
		return err
	}
	samples, err := r.readHashes()
	if err != nil {
		return err
	}
	if err := r.readNamed(samples); err != nil {
		return err
	}
	if err := r.readServers(); err != nil {
		return err
	}
	return r.readSchedules()
}

// probe finds out whether Redis measures keys.
func (r *reader) probe() error {
	meta := string(r.l.Keys.Meta())
	server, _, err := r.l.DB.ServerOf(r.ctx, meta)
	if err != nil {
		return err
	}
	if err := server.MemoryUsage(r.ctx, meta, 1).Err(); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	return nil
}

// notMeasured says why Redis measures no keys, if that is what an error says.
func notMeasured(err error) string {
	var said redis.Error
	if !errors.As(err, &said) {
		return ""
	}
	if text := said.Error(); isRefusal(err) || strings.Contains(strings.ToLower(text), "unknown") {
		return "Redis does not measure its keys: " + text
	}
	return ""
}

// isRefusal reports whether the user of Redis has no right to do or read something.
func isRefusal(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "NOPERM") }

// ask sends a command for each key to the server that holds it, in short pipelines. A key that the user of Redis may
// not read counts as none, and so does, under redisx.LeavingOut, one of another type. Errors: those of Redis.
func ask[C redis.Cmder](r *reader, keys []string, command func(pipe redis.Pipeliner, i int) C) ([]C, error) {
	asked := make([]C, len(keys))
	var mu sync.Mutex
	var failed error
	err := r.l.DB.EachServer(r.ctx, keys, func(server redis.Cmdable, places []int) {
		err := askServer(r.ctx, server, places, func(pipe redis.Pipeliner, i int) redis.Cmder {
			asked[i] = command(pipe, i)
			return asked[i]
		})
		mu.Lock()
		defer mu.Unlock()
		failed = errors.Join(failed, err)
	})
	return asked, errors.Join(err, failed)
}

// askServer sends a command for each place to one server.
func askServer(
	ctx context.Context, server redis.Cmdable, places []int, command func(pipe redis.Pipeliner, i int) redis.Cmder,
) error {
	for some := range slices.Chunk(places, pipelineLength) {
		pipe := server.Pipeline()
		cmds := make([]redis.Cmder, 0, len(some))
		for _, i := range some {
			cmds = append(cmds, command(pipe, i))
		}
		_, _ = pipe.Exec(ctx)
		for _, cmd := range cmds {
			if err := cmd.Err(); err != nil && !isNothing(ctx, keyOf(cmd), err) {
				return err
			}
		}
	}
	return nil
}

// isNothing reports whether an answer says that there is nothing that can be measured at a key. It notes a key of
// another type as left out.
func isNothing(ctx context.Context, key string, err error) bool {
	return errors.Is(err, redis.Nil) || isRefusal(err) || redisx.LeaveOutKey(ctx, key, err)
}

// keyOf is the key that a command reads which can fail for its type.
func keyOf(cmd redis.Cmder) string {
	if len(cmd.Args()) < 2 {
		return ""
	}
	return fmt.Sprint(cmd.Args()[1])
}

// measure returns the bytes of keys, 0 of those that the user of Redis may not measure. Large ones are extrapolated by
// Redis.
func (r *reader) measure(keys []string) ([]float64, error) {
	asked, err := ask(r, keys, func(pipe redis.Pipeliner, i int) *redis.IntCmd {
		return pipe.MemoryUsage(r.ctx, keys[i], usageSamples)
	})
	if err != nil {
		return nil, err
	}
	bytes := make([]float64, len(keys))
	for i, cmd := range asked {
		bytes[i] = float64(cmd.Val())
		r.named[keys[i]] = !isRefusal(cmd.Err())
	}
	return bytes, nil
}

// counts returns what a command that counts says of each key.
func (r *reader) counts(keys []string, count func(pipe redis.Pipeliner, key string) *redis.IntCmd) ([]int64, error) {
	asked, err := ask(r, keys, func(pipe redis.Pipeliner, i int) *redis.IntCmd { return count(pipe, keys[i]) })
	if err != nil {
		return nil, err
	}
	counts := make([]int64, len(keys))
	for i, cmd := range asked {
		counts[i] = cmd.Val()
	}
	return counts, nil
}

// partitionKeys returns a key of each partition.
func (r *reader) partitionKeys(of func(p lua.Partition) string) []string {
	keys := make([]string, r.l.Partitions())
	for i := range keys {
		keys[i] = of(r.l.Keys.Partition(i))
	}
	return keys
}

// readNamed measures the other keys of known names. samples are of the tasks of each partition.
func (r *reader) readNamed(samples [][]entry) error {
	keys, err := r.namedKeys()
	if err != nil {
		return err
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	bytes, err := r.measure(names)
	if err != nil {
		return err
	}
	for i, k := range keys {
		switch {
		case k.namespace != "":
			r.addTask(k.kind, k.namespace+":", bytes[i])
		case k.kind == Waiting || k.kind == Ended:
			kind := func(bool) Kind { return k.kind }
			r.share(bytes[i], evenly(samples[k.partition], k.kind == Ended), kind)
		default:
			r.kinds[k.kind] += bytes[i]
		}
	}
	return nil
}

// namedKeys are the keys of known names, without the hashes of tasks.
func (r *reader) namedKeys() ([]key, error) {
	keys := []key{
		{name: string(r.l.Keys.Nodes()), kind: Administration}, {name: string(r.l.Keys.Namespaces()), kind: Administration},
	}
	namespaces, err := r.l.DB.ZRevRange(r.ctx, string(r.l.Keys.Namespaces()), 0, nameSamples-1).Result()
	if err != nil && !isNothing(r.ctx, string(r.l.Keys.Namespaces()), err) {
		return nil, err
	}
	queues, err := r.l.DB.SRandMemberN(r.ctx, string(lua.AsynqQueues), nameSamples).Result()
	if err != nil && !isNothing(r.ctx, string(lua.AsynqQueues), err) {
		return nil, err
	}
	for _, q := range queues {
		keys = append(keys, queueKeys(lua.AsynqQueue(q))...)
	}
	backlogs := r.partitionKeys(func(p lua.Partition) string { return string(p.Backlog()) })
	waiting, err := ask(r, backlogs, func(pipe redis.Pipeliner, i int) *redis.StringSliceCmd {
		return pipe.SRandMemberN(r.ctx, backlogs[i], nameSamples)
	})
	if err != nil {
		return nil, err
	}
	for i := range backlogs {
		p := r.l.Keys.Partition(i)
		keys = append(keys, others(p, i)...)
		keys = append(keys, indexes(p, i, namespaces)...)
		for _, queue := range waiting[i].Val() {
			keys = append(keys, key{string(p.Ready(queue)), Waiting, i, ""})
		}
	}
	return keys, nil
}

// readServers asks each server for its memory, and samples its keys.
func (r *reader) readServers() error {
	var failed error
	keys := r.partitionKeys(func(p lua.Partition) string { return string(p.Defs()) })
	err := r.l.DB.EachServer(r.ctx, keys, func(server redis.Cmdable, _ []int) {
		err := r.readServer(server)
		r.mu.Lock()
		defer r.mu.Unlock()
		failed = errors.Join(failed, err)
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if r.unlimited {
		r.limit = 0
	}
	return nil
}

func (r *reader) readServer(server redis.Cmdable) error {
	memory, unsaid := redisx.ReadMemory(r.ctx, server)
	if unsaid != nil && !isRefusal(unsaid) {
		return unsaid
	}
	total, err := server.DBSize(r.ctx).Result()
	if err != nil {
		return err
	}
	names, err := sampleKeys(r.ctx, server, total)
	if err != nil {
		return err
	}
	bytes := make([]*redis.IntCmd, len(names))
	err = askServer(r.ctx, server, places(len(names)), func(pipe redis.Pipeliner, i int) redis.Cmder {
		bytes[i] = pipe.MemoryUsage(r.ctx, names[i], usageSamples)
		return bytes[i]
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used, r.limit, r.keys = r.used+memory.Used, r.limit+memory.Limit, r.keys+total
	r.unlimited = r.unlimited || memory.Limit == 0
	r.unsaid = errors.Join(r.unsaid, unsaid)
	for i, name := range names {
		each := float64(total) / float64(len(names)) // keys for which the sampled one stands
		if isRefusal(bytes[i].Err()) {
			r.unmeasured += each
			continue
		}
		r.addDrawn(name, float64(bytes[i].Val())*each)
	}
	return nil
}

// addDrawn counts a sampled key with the bytes of all keys for which it stands.
func (r *reader) addDrawn(name string, bytes float64) {
	if r.named[name] {
		return
	}
	meta := string(r.l.Keys.Meta())
	kind, of, ok := class(name, strings.TrimSuffix(meta, "meta"))
	switch {
	case !ok:
	case kind == Administration || kind == Foreign || of == "":
		r.kinds[kind] += bytes
	default:
		r.addTask(kind, of, bytes)
	}
}

// sampleKeys returns all keys of a server if they are few, else a random part of them, in which a key may be twice.
func sampleKeys(ctx context.Context, server redis.Cmdable, total int64) ([]string, error) {
	if total > keySamples {
		return randomKeys(ctx, server)
	}
	seen := make(map[string]bool)
	var names []string
	for cursor := uint64(0); ; {
		page, next, err := server.Scan(ctx, cursor, "", pipelineLength).Result()
		if err != nil {
			return nil, err
		}
		for _, name := range page {
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
		if cursor = next; cursor == 0 || len(names) > 2*keySamples {
			return names, nil
		}
	}
}

func randomKeys(ctx context.Context, server redis.Cmdable) ([]string, error) {
	asked := make([]*redis.StringCmd, keySamples)
	err := askServer(ctx, server, places(keySamples), func(pipe redis.Pipeliner, i int) redis.Cmder {
		asked[i] = pipe.RandomKey(ctx)
		return asked[i]
	})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, cmd := range asked {
		if cmd.Val() != "" {
			names = append(names, cmd.Val())
		}
	}
	return names, nil
}

// places are the numbers from 0 to n-1.
func places(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// scheduleParts are the keys of a schedule, by the order in which they are measured.
func (r *reader) scheduleParts(ref task.Ref) []string {
	p := r.l.KeysOf(ref)
	return []string{
		string(p.Schedule(ref)), string(p.Live(ref)), string(p.Waiting(ref)), string(p.History(ref)), string(p.Ledger(ref)),
	}
}
