package doctor

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/task"
)

const queueUnlisted = "queue-unlisted"

// keysPage is how many keys one SCAN goes over.
const keysPage = 1000

// keyCollections is all keys of one server of Redis: what belongs to something that does not exist is found by its key alone.
func (e *examination) keyCollections(ctx context.Context, number int) ([]collection, error) {
	servers, err := e.redisServers(ctx)
	if e.servers = len(servers); err != nil || number >= len(servers) {
		return nil, err
	}
	checks := slices.Concat([]string{keyType, "backlog-unlisted", queueUnlisted}, lossChecks, scheduleChecks, workflowChecks,
		lockChecks, slotChecks, deliveryChecks)
	return []collection{e.entryPages(servers[number]), {name: "keys", checks: checks, look: func(ctx context.Context, from uint64) ([]collection, uint64, error) {
		keys, next, err := servers[number].Scan(ctx, from, "", keysPage).Result()
		if err != nil {
			return nil, 0, err
		}
		e.entries += len(keys)
		others := slices.DeleteFunc(slices.Clone(keys), e.isFixed) // earlier stages have looked at the types of those
		if err := e.examineTypes(ctx, others); err != nil {
			return nil, 0, err
		}
		inner, err := e.lookAtKeys(ctx, keys)
		return inner, next, err
	}}}, nil
}

// redisServers returns the servers of Redis that have partitions.
func (e *examination) redisServers(ctx context.Context) ([]redis.Cmdable, error) {
	byName := make(map[string]redis.Cmdable)
	var names []string
	for p := range e.o.Layout.Partitions() {
		server, name, err := e.o.Layout.DB.ServerOf(ctx, string(e.o.Layout.Keys.Partition(p).Defs()))
		if err != nil {
			return nil, err
		}
		if byName[name] == nil {
			byName[name], names = server, append(names, name)
		}
	}
	slices.Sort(names)
	servers := make([]redis.Cmdable, len(names))
	for i, name := range names {
		servers[i] = byName[name]
	}
	return servers, nil
}

// sorted is the owners of keys, by partition or queue.
type sorted struct {
	tasks, schedules, workflows, lines, locks, ready, holds map[int][]string
	deliveries                                              map[string][]string
	queues                                                  map[string]bool
}

// lookAtKeys looks at what keys belong to. It returns the sets of ready tasks and the holders of slots that leaders do
// not know, and the lines of workflows.
func (e *examination) lookAtKeys(ctx context.Context, keys []string) ([]collection, error) {
	s := e.sort(keys)
	for p, members := range s.tasks {
		err := e.lookForOrphans(ctx, p, members)
		if err := e.passOver("logs and attempts in "+partitionName(p), err, lossChecks...); err != nil {
			return nil, err
		}
	}
	for p, members := range s.schedules {
		_, err := e.examineSchedules(ctx, p, ofOwnKeys, members)
		if err := e.passOver("schedules in "+partitionName(p), err, scheduleChecks...); err != nil {
			return nil, err
		}
	}
	for p, members := range s.locks {
		err := e.examineLocks(ctx, p, members)
		if err := e.passOver("locks in "+partitionName(p), err, lockChecks...); err != nil {
			return nil, err
		}
	}
	unknown, err := e.lookAtWorkflows(ctx, s)
	if err != nil {
		return nil, err
	}
	for p, names := range s.ready {
		more, err := e.unlisted(ctx, p, names)
		if err := e.passOver("ready tasks in "+partitionName(p), err, readyChecks...); err != nil {
			return nil, err
		}
		unknown = append(unknown, more...)
	}
	for p, names := range s.holds {
		more, err := e.uncapped(ctx, p, names)
		if err != nil {
			return nil, err
		}
		unknown = append(unknown, more...)
	}
	return unknown, e.lookAtQueues(ctx, s)
}

// lookAtWorkflows looks at the workflows to which keys belong. It returns their lines.
func (e *examination) lookAtWorkflows(ctx context.Context, s sorted) (lines []collection, _ error) {
	for p, members := range s.workflows {
		err := e.unlistedWorkflows(ctx, p, members)
		if err := e.passOver("workflows in "+partitionName(p), err, workflowChecks...); err != nil {
			return nil, err
		}
		for _, name := range s.lines[p] {
			if ref, err := task.ParseRef(name); err == nil {
				lines = append(lines, e.line(p, ref))
			}
		}
	}
	return lines, nil
}

// sort sorts keys by what they belong to. Keys that are not of this installation are left out.
func (e *examination) sort(keys []string) sorted {
	s := sorted{
		tasks: map[int][]string{}, schedules: map[int][]string{}, workflows: map[int][]string{},
		lines: map[int][]string{}, locks: map[int][]string{}, ready: map[int][]string{}, holds: map[int][]string{},
		deliveries: map[string][]string{}, queues: map[string]bool{},
	}
	prefix := strings.TrimSuffix(string(e.o.Layout.Keys.Partition(0).Defs()), "0}:defs")
	for _, key := range keys {
		if name, id, ok := e.o.Queues.OwnerOf(key); ok {
			s.queues[name] = true
			if id != "" {
				s.deliveries[name] = append(s.deliveries[name], id)
			}
			continue
		}
		rest, ours := strings.CutPrefix(key, prefix)
		number, rest, _ := strings.Cut(rest, "}:")
		p, err := strconv.Atoi(number)
		if kind, owner, ok := strings.Cut(rest, ":"); ours && ok && err == nil && p < e.o.Layout.Partitions() {
			s.add(p, kind, owner)
		}
	}
	return s
}

// add adds the owner of a key of a partition.
func (s sorted) add(p int, kind, owner string) {
	switch kind {
	case "attempts", "log":
		s.tasks[p] = append(s.tasks[p], owner)
	case "schedule", "history", "ledger", "live", "waiting":
		if !slices.Contains(s.schedules[p], owner) {
			s.schedules[p] = append(s.schedules[p], owner)
		}
	case "workflow", "revisions", "line":
		if !slices.Contains(s.workflows[p], owner) {
			s.workflows[p] = append(s.workflows[p], owner)
		}
		if kind == "line" {
			s.lines[p] = append(s.lines[p], owner)
		}
	case "lock":
		s.locks[p] = append(s.locks[p], owner)
	case "ready":
		s.ready[p] = append(s.ready[p], owner)
	case "holds":
		s.holds[p] = append(s.holds[p], owner)
	}
}

// unlisted returns those sets of ready tasks that are not in the backlog, so that no leader looks at them, and the one within which the examination
// goes on: the repair of a task in it has put it there.
func (e *examination) unlisted(ctx context.Context, p int, names []string) ([]collection, error) {
	members := make([]any, len(names))
	for i, name := range names {
		members[i] = name
	}
	inBacklog, err := e.o.Layout.DB.SMIsMember(ctx, string(e.o.Layout.Keys.Partition(p).Backlog()), members...).Result()
	var unknown []collection
	for i, listed := range inBacklog {
		set := e.readyTasks(p, names[i])
		if !listed || slices.ContainsFunc(e.at.Path, func(at place) bool { return at.Collection == set.name }) {
			unknown = append(unknown, set)
		}
	}
	return unknown, err
}

// lookAtQueues looks at deliveries, and whether asynq knows their queues.
func (e *examination) lookAtQueues(ctx context.Context, s sorted) error {
	for name, ids := range s.deliveries {
		err := e.examineDeliveries(ctx, name, ids)
		if err := e.passOver("queue "+name, err, deliveryChecks...); err != nil {
			return err
		}
	}
	if !e.wants(queueUnlisted) {
		return nil
	}
	for name := range s.queues {
		err := e.tryRepair(func() error {
			listed, err := e.o.Queues.IsKnown(ctx, name)
			if err == nil && !listed && e.found(queueUnlisted, name, "is not in asynq's list of queues") && e.Repair {
				err = e.o.Queues.Add(ctx, name)
			}
			return err
		})
		if err == nil {
			e.looked(1, queueUnlisted)
		}
		if err := e.passOver("queue "+name, err, queueUnlisted); err != nil {
			return err
		}
	}
	return nil
}
