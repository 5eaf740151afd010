package queue

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Standing is how a queue stands, and one of its deliveries.
type Standing struct {
	Known    bool // it is on asynq's list of queues
	Paused   bool
	PausedAt time.Time // zero if it is not paused, or that cannot be read
	PausedBy string    // "" if nobody knows
	Note     string    // why it is paused; "" if nobody said
	Pending  int       // deliveries that wait for a worker
	OfAsynq  bool      // the next one to be taken is of another asynq client: workers of DTS would archive it
	State    string    // of the delivery, as asynq says it; "" if it is not there
	Before   int       // deliveries that are taken before it; below 0 if that is not known
}

// searchedLimit is how many deliveries that wait are searched for one of them.
const searchedLimit = 5000

// Standing reads it in one round trip; delivery is the id of one, "" for none. Error: CodeUnavailable.
func (q *Queues) Standing(ctx context.Context, name, delivery string) (Standing, error) {
	k := lua.AsynqQueue(q.names.asynq(name))
	pipe := q.db.Pipeline()
	listed := pipe.SIsMember(ctx, string(lua.AsynqQueues), q.names.asynq(name))
	read := q.readStanding(ctx, pipe, name)
	var state *redis.StringCmd
	var place *redis.IntCmd
	if delivery != "" {
		state = pipe.HGet(ctx, string(k.Delivery(delivery)), "state")
		// The next one to be taken is the last of the list.
		place = pipe.LPos(ctx, string(k.Pending()), delivery, redis.LPosArgs{Rank: -1, MaxLen: searchedLimit})
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return Standing{}, unavailable(err)
	}
	s := read.standing()
	s.Known = listed.Val()
	if state != nil {
		s.State = state.Val()
		if place.Err() == nil {
			s.Before = max(s.Pending-1-int(place.Val()), 0)
		}
	}
	return s, nil
}

// Named is a queue that asynq lists, and how it stands. It may be the queue of one node.
type Named struct {
	Name string
	Standing
}

// StandingOfAll is Standing for a queue together with those that nodes have for themselves. all counts what waits in
// each of them, and says of the rest what Standing does; nodes are those of nodes. It takes one round trip more if
// there are any. Error: CodeUnavailable.
func (q *Queues) StandingOfAll(ctx context.Context, name string) (all Standing, nodes []Named, _ error) {
	pipe := q.db.Pipeline()
	listed := pipe.SMembers(ctx, string(lua.AsynqQueues))
	read := q.readStanding(ctx, pipe, name)
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return all, nil, unavailable(err)
	}
	all = read.standing()
	all.Known = slices.Contains(listed.Val(), q.names.asynq(name))
	nodes, err := q.Standings(ctx, q.ofNodes(name, listed.Val()))
	for _, n := range nodes {
		all.Known, all.Pending, all.OfAsynq = true, all.Pending+n.Pending, all.OfAsynq && n.Pending == 0
	}
	return all, nodes, err
}

// standingReads are what Redis is asked about a queue.
type standingReads struct {
	paused, next *redis.StringCmd
	pending      *redis.IntCmd
}

func (q *Queues) readStanding(ctx context.Context, pipe redis.Pipeliner, name string) standingReads {
	k := lua.AsynqQueue(q.names.asynq(name))
	return standingReads{
		paused: pipe.Get(ctx, string(k.Paused())), pending: pipe.LLen(ctx, string(k.Pending())),
		next: pipe.LIndex(ctx, string(k.Pending()), -1),
	}
}

// standing returns what the replies say.
func (r standingReads) standing() Standing {
	s := Standing{Pending: int(r.pending.Val()), OfAsynq: ofAsynq(r.next.Val()), Before: -1}
	s.Paused = !errors.Is(r.paused.Err(), redis.Nil) && !redisx.IsPassedOver(r.paused.Err())
	s.PausedAt, s.PausedBy, s.Note = pauseOf(r.paused.Val())
	return s
}

// PendingKeys returns the keys in which deliveries of some queues wait.
func (q *Queues) PendingKeys(names []string) []string {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = string(lua.AsynqQueue(q.names.asynq(name)).Pending())
	}
	return keys
}

// Standings reads how some queues stand, in one round trip. Error: CodeUnavailable.
func (q *Queues) Standings(ctx context.Context, names []string) ([]Named, error) {
	if len(names) == 0 {
		return nil, nil
	}
	pipe := q.db.Pipeline()
	reads := make([]standingReads, len(names))
	for i, name := range names {
		reads[i] = q.readStanding(ctx, pipe, name)
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, unavailable(err)
	}
	found := make([]Named, len(names))
	for i, name := range names {
		found[i] = Named{name, reads[i].standing()}
		found[i].Known = true
	}
	return found, nil
}

// ofAsynq reports whether a delivery with that id is of another asynq client; "" is none.
func ofAsynq(id string) bool {
	_, _, err := task.ParseDelivery(id)
	return id != "" && err != nil
}

// noteMark stands between who paused a queue and why. Nodes of earlier releases take both for who it was.
const noteMark = "\n"

// pauseOf reads what the key of a paused queue has: since when, in s, who paused it, and why.
func pauseOf(text string) (at time.Time, by, note string) {
	since, by, _ := strings.Cut(text, " ")
	by, note, _ = strings.Cut(by, noteMark)
	if s, err := strconv.ParseInt(since, 10, 64); err == nil && s > 0 {
		at = time.Unix(s, 0).UTC()
	}
	return at, by, note
}
