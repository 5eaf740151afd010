package store

import (
	"fmt"
	"strconv"

	"github.com/dts-sched/dts/internal/task"
)

// keys makes the name of every key and channel. All keys of a partition share the hash tag {p}, so that one
// script may touch them in a Redis Cluster. Two scripts meet keys they are not given and make them from the
// prefix they get: claim ("task:") and sweep ("task:", "attempts:", "log:", "state:").
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
