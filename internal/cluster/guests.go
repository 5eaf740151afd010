package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// beatForGuests sends the heartbeats of the guests of this node.
func (r *Registry) beatForGuests(ctx context.Context) error {
	guests := r.o.Guests()
	if len(guests) == 0 {
		return nil
	}
	call := lua.BeatFor{Nodes: r.o.Key, Dead: missedLimit * r.o.Beat, Members: r.o.Channel, Guests: nil}
	for _, n := range guests {
		n.State, n.Via, n.StartedAt = StateAlive, r.o.ID, n.StartedAt.UTC()
		text, err := json.Marshal(entry{Node: n, BeatMS: r.o.Beat.Milliseconds()})
		if err != nil {
			return fmt.Errorf("encoding the entry of worker %s: %w", n.ID, err)
		}
		call.Guests = append(call.Guests, lua.BeatForGuest{ID: lua.NodeID(n.ID), Entry: string(text)})
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.Beat/2)
	defer cancel()
	_, err := redisx.Run(ctx, r.o.DB, call)
	return err
}

// RemoveGuest removes a worker that stops from the list. Error: *task.Error with CodeUnavailable.
func (r *Registry) RemoveGuest(ctx context.Context, id string) error {
	if _, err := redisx.Run(ctx, r.o.DB, lua.Leave{Nodes: r.o.Key, ID: lua.NodeID(id), Members: r.o.Channel}); err != nil {
		return &task.Error{Code: task.CodeUnavailable, Message: "cannot remove the worker from the list of nodes", Err: err}
	}
	return nil
}
