package store

import (
	"fmt"
	"strconv"

	"github.com/dts-sched/dts/internal/task"
)

// keys makes the name of every key and channel. All keys of a partition share the hash tag {p}, so that one
// script may touch them in a Redis Cluster. Some scripts meet keys they are not given, since which ones depends on what
// they find, and make them of the partition's prefix: those that claim, end or forget tasks, and those of schedules.
type keys struct {
	prefix   string
	database int
}

func (k keys) partition(p int) string { return k.prefix + ":{" + strconv.Itoa(p) + "}:" }

// lease is a STRING "<token>:<node>" that expires: who leads the partition.
func (k keys) lease(p int) string { return k.partition(p) + "lease" }

// epoch is a STRING counter: the newest fencing token of the partition.
func (k keys) epoch(p int) string { return k.partition(p) + "epoch" }

// wheel is a ZSET of "namespace:id", scored by due time in ms: every scheduled task.
func (k keys) wheel(p int) string { return k.partition(p) + "wheel" }

// queued is a ZSET of "namespace:id", scored by the ms of the claim: every queued task.
func (k keys) queued(p int) string { return k.partition(p) + "queued" }

// running is a ZSET of "namespace:id", scored by the ms of the start: every running task.
func (k keys) running(p int) string { return k.partition(p) + "running" }

// inflight is a ZSET of "namespace:id:attempt", scored by the ms of the claim: claimed, perhaps not in asynq.
func (k keys) inflight(p int) string { return k.partition(p) + "inflight" }

// expiry is a ZSET of "namespace:id", scored by the ms at which they are forgotten: every finished task.
func (k keys) expiry(p int) string { return k.partition(p) + "expiry" }

// task is a HASH: def, state, created, and as it goes on attempt, allowed, due, queued, started, finished,
// node, run, cancel, progress, result, error, original.
func (k keys) task(p int, r task.Ref) string { return k.tasks(p) + r.String() }

// tasks is the prefix of the keys of a partition's tasks.
func (k keys) tasks(p int) string { return k.partition(p) + "task:" }

// attempts is a LIST of JSON objects: the attempts of a task that ended, oldest first.
func (k keys) attempts(p int, r task.Ref) string { return k.partition(p) + "attempts:" + r.String() }

// log is a STREAM: the lines a task wrote; ids are "<attempt>-<line>".
func (k keys) log(p int, r task.Ref) string { return k.partition(p) + "log:" + r.String() }

// index is a ZSET of "namespace:id", scored by the ms of the end: the finished tasks of a namespace in a state.
func (k keys) index(p int, namespace string, s task.State) string {
	return fmt.Sprintf("%sstate:%s:%s", k.partition(p), namespace, s)
}

// schedule is a HASH: def, task, revision, created, from, cursor, overlap, max_runs, retention, and as it goes on
// breaker, paused, note, rest, ended, runs, failures, known.
func (k keys) schedule(p int, r task.Ref) string { return k.partition(p) + "schedule:" + r.String() }

// schedules is a ZSET of "namespace:id", all of score 0, so that they are sorted by name: every schedule.
func (k keys) schedules(p int) string { return k.partition(p) + "schedules" }

// ticks is a ZSET of "namespace:id", scored by the ms at which the leader looks at the schedule: its next tick, or now
// if something about it has changed.
func (k keys) ticks(p int) string { return k.partition(p) + "ticks" }

// history is a LIST of JSON objects: the revisions of a schedule before the present one, the newest first.
func (k keys) history(p int, r task.Ref) string { return k.partition(p) + "history:" + r.String() }

// ledger is a ZSET, scored by the ms of the tick: "<name> <outcome> <has a task: 1 or 0> <late ms> <decided ms>
// <revision> <reason>".
func (k keys) ledger(p int, r task.Ref) string { return k.partition(p) + "ledger:" + r.String() }

// live is a ZSET of names of ticks, scored by their ms: those whose task has not ended.
func (k keys) live(p int, r task.Ref) string { return k.partition(p) + "live:" + r.String() }

// waiting is a LIST of "<ms> <name>": ticks that wait until no task of the schedule is live, the oldest first.
func (k keys) waiting(p int, r task.Ref) string { return k.partition(p) + "waiting:" + r.String() }

// meta is a HASH: partitions, layout.
func (k keys) meta() string { return k.prefix + ":meta" }

// nodes is a HASH of the nodes by id.
func (k keys) nodes() string { return k.prefix + ":nodes" }

// channel makes the name of a channel. Unlike keys, Redis does not keep channels apart by database, so one other than 0
// is part of the name.
func (k keys) channel(name string) string {
	if k.database == 0 {
		return k.prefix + ":" + name
	}
	return k.prefix + ":" + name + "@" + strconv.Itoa(k.database)
}

// events is the channel of state changes.
func (k keys) events() string { return k.channel("events") }

// wake is the channel of partitions (their numbers) whose leader must look at the wheel again.
func (k keys) wake() string { return k.channel("wake") }

// control is the channel that tells workers which attempt ("namespace:id:attempt") to stop.
func (k keys) control() string { return k.channel("control") }
