package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// listed returns the queues of this installation that asynq lists, by asynq's names, without those that one node has
// for itself. Error: one of Redis.
func (q *Queues) listed(ctx context.Context) ([]string, error) {
	all, err := q.all(ctx)
	return shared(all), err
}

// all is listed with the queues that one node has for itself. All installations of a Redis share asynq's list.
func (q *Queues) all(ctx context.Context) ([]string, error) {
	all, err := q.db.SMembers(ctx, string(lua.AsynqQueues)).Result()
	if err != nil && !redisx.LeaveOutKey(ctx, string(lua.AsynqQueues), err) {
		return nil, fmt.Errorf("reading asynq's list of queues: %w", err)
	}
	others := q.otherInstallations(ctx, all)
	return slices.DeleteFunc(all, func(asynqName string) bool {
		_, ours := q.names.queue(asynqName)
		return !ours || others[prefixOf(asynqName)]
	}), nil
}

// ofNodes returns which of the queues that asynq lists nodes have for themselves of a queue, by their names in DTS.
func (q *Queues) ofNodes(name string, asynqNames []string) (names []string) {
	for _, asynqName := range asynqNames {
		found, ours := q.names.queue(asynqName)
		if of, node := task.SplitNodeQueue(found); ours && node != "" && of == name {
			names = append(names, found)
		}
	}
	return names
}

// isNodeQueue reports whether one node alone takes from the queue with that name.
func isNodeQueue(name string) bool {
	_, node := task.SplitNodeQueue(name)
	return node != ""
}

// shared returns those of some queues that no node has for itself.
func shared(names []string) []string { return slices.DeleteFunc(names, isNodeQueue) }

// otherInstallations returns which prefixes in asynq's names of queues are those of other installations. With another
// prefix than the default, the names tell, and the result is nil. With the default, a queue may have a dot in its name:
// what is before it is a prefix if Redis has the data of an installation with that prefix. If Redis refuses to tell, it
// counts as no prefix.
func (q *Queues) otherInstallations(ctx context.Context, asynqNames []string) map[string]bool {
	if !q.names.areAsynqs() {
		return nil
	}
	found := make(map[string]*redis.IntCmd)
	pipe := q.db.Pipeline()
	for _, name := range asynqNames {
		prefix := prefixOf(name)
		if prefix == "" || found[prefix] != nil {
			continue
		}
		found[prefix] = pipe.Exists(ctx, string(lua.NewKeyspace(prefix, q.db.Number()).Meta()))
	}
	if len(found) == 0 {
		return nil
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	others := make(map[string]bool, len(found))
	for prefix, exists := range found {
		others[prefix] = exists.Val() > 0
	}
	return others
}

// prefixOf is what is before the first dot of asynq's name of a queue, unless that is the default prefix. It is "" if
// there is no dot. A prefix has no dot.
func prefixOf(asynqName string) string {
	prefix, _, dotted := strings.Cut(asynqName, ".")
	if !dotted || prefix == defaultPrefix {
		return ""
	}
	return prefix
}
