package usage

import (
	"strings"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// key is a key of which a partition has one, or one for each queue or namespace, so that its name is known.
type key struct {
	name      string
	kind      Kind
	partition int    // -1: it belongs to none
	namespace string // whose tasks it lists; "" for several ones
}

// hashes are the hashes of a partition that have an entry for a task, by kind. Entries of some belong to the tasks that
// wait or have ended: their kind is Waiting.
func hashes(p lua.Partition) []key {
	return []key{
		{name: string(p.Defs()), kind: Waiting}, {name: string(p.Payloads()), kind: Waiting},
		{name: string(p.Originals()), kind: Waiting}, {name: string(p.States()), kind: States},
		{name: string(p.Results()), kind: Results}, {name: string(p.Errors()), kind: Errors},
		{name: string(p.Checkpoints()), kind: Checkpoints}, {name: string(p.Remembered()), kind: Remembered},
		{name: string(p.Runs()), kind: Runs}, {name: string(p.Plans()), kind: Runs}, {name: string(p.Asks()), kind: Runs},
	}
}

// others are the other keys of a partition with a known name.
func others(p lua.Partition, number int) []key {
	all := []key{
		{name: string(p.Wheel()), kind: Waiting}, {name: string(p.Backlog()), kind: Waiting},
		{name: string(p.Queued()), kind: Waiting}, {name: string(p.Running()), kind: Waiting},
		{name: string(p.Held()), kind: Waiting}, {name: string(p.Expiry()), kind: Ended},
		{name: string(p.RememberedOrder()), kind: Remembered}, {name: string(p.Deleted()), kind: Remembered},
		{name: string(p.Schedules()), kind: Schedules}, {name: string(p.Ticks()), kind: Schedules},
		{name: string(p.Workflows()), kind: Workflows},
		{name: string(p.Locks()), kind: Administration}, {name: string(p.Status()), kind: Administration},
		{name: string(p.Minutes()), kind: Administration}, {name: string(p.Hours()), kind: Administration},
	}
	for i := range all {
		all[i].partition = number
	}
	return all
}

// queueKeys are the keys of a queue of asynq that can be large.
func queueKeys(q lua.AsynqQueue) []key {
	var all []key
	for _, name := range []string{
		string(q.Pending()), string(q.Active()), string(q.Deadline()), string(q.Scheduled()), string(q.Retry()),
		string(q.Archived()), string(q.Completed()),
	} {
		all = append(all, key{name: name, kind: Deliveries, partition: -1})
	}
	return all
}

// indexes are the keys that list the ended tasks of namespaces.
func indexes(p lua.Partition, number int, namespaces []string) []key {
	var all []key
	for _, n := range namespaces {
		for _, s := range task.States {
			if s.Final() {
				all = append(all, key{string(p.Index(n, s)), Ended, number, n})
			}
		}
	}
	return all
}

// ofSchedule are the words in keys of which each schedule has one.
var ofSchedule = map[string]bool{"schedule": true, "history": true, "ledger": true, "live": true, "waiting": true}

// ofWorkflow are the words in keys that each workflow has for itself.
var ofWorkflow = map[string]bool{"workflow": true, "revisions": true, "line": true}

// class says to which kind a sampled key belongs, and to which task or namespace, "" if to none. ok is false for keys
// of schedules, which are measured with their schedule. prefix is that of the installation, with a colon.
func class(name, prefix string) (kind Kind, of string, ok bool) {
	if rest, isAsynq := strings.CutPrefix(name, "asynq:"); isAsynq {
		_, delivery, isDelivery := strings.Cut(rest, "}:t:")
		if !isDelivery {
			return Deliveries, "", true
		}
		return Deliveries, delivery[:max(0, strings.LastIndexByte(delivery, ':'))], true
	}
	rest, own := strings.CutPrefix(name, prefix)
	if !own {
		return Foreign, "", true
	}
	_, rest, inPartition := strings.Cut(rest, "}:")
	word, of, _ := strings.Cut(rest, ":")
	switch {
	case !inPartition:
		return Administration, "", true
	case ofSchedule[word] && of != "":
		return "", "", false
	case ofWorkflow[word] && of != "":
		return Workflows, "", true
	case word == "attempts":
		return Attempts, of, true
	case word == "log":
		return Logs, of, true
	case word == "task":
		return Waiting, of, true
	case word == "state":
		namespace, _, _ := strings.Cut(of, ":")
		return Ended, namespace, true
	case word == "ready":
		return Waiting, "", true
	}
	return Administration, "", true
}
