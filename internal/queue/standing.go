package queue

import (
	"context"
	"errors"
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
	paused, pending := pipe.Get(ctx, string(k.Paused())), pipe.LLen(ctx, string(k.Pending()))
	next := pipe.LIndex(ctx, string(k.Pending()), -1)
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
	s := Standing{Known: listed.Val(), Pending: int(pending.Val()), OfAsynq: ofAsynq(next.Val()), Before: -1}
	s.Paused = !errors.Is(paused.Err(), redis.Nil)
	s.PausedAt, s.PausedBy, s.Note = pauseOf(paused.Val())
	if state != nil {
		s.State = state.Val()
		if place.Err() == nil {
			s.Before = max(s.Pending-1-int(place.Val()), 0)
		}
	}
	return s, nil
}

// Named is a queue that asynq lists, and how it stands.
type Named struct {
	Name string
	Standing
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
	paused, pending := make([]*redis.StringCmd, len(names)), make([]*redis.IntCmd, len(names))
	nexts := make([]*redis.StringCmd, len(names))
	for i, name := range names {
		k := lua.AsynqQueue(q.names.asynq(name))
		paused[i], pending[i] = pipe.Get(ctx, string(k.Paused())), pipe.LLen(ctx, string(k.Pending()))
		nexts[i] = pipe.LIndex(ctx, string(k.Pending()), -1)
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, unavailable(err)
	}
	found := make([]Named, len(names))
	for i, name := range names {
		s := Standing{Known: true, Pending: int(pending[i].Val()), OfAsynq: ofAsynq(nexts[i].Val()), Before: -1}
		s.Paused = !errors.Is(paused[i].Err(), redis.Nil) && !redisx.IsPassedOver(paused[i].Err())
		s.PausedAt, s.PausedBy, s.Note = pauseOf(paused[i].Val())
		found[i] = Named{name, s}
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
