package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
)

// besideBulk measures the lateness at 1,000/s while a bulk action moves tasks that wait, an eighth of all.
func (m *punctuality) besideBulk(ctx context.Context, b *bench, f *figures) error {
	request := wire.BulkRequest{
		Action: wire.BulkActionRequeue, ToQueue: new(fmt.Sprint("moved-", b.round)),
		Filter: &wire.TaskSelection{Queue: new(fmt.Sprint("queue-", b.round%8)), State: []wire.State{wire.StateScheduled}},
	}
	started, err := m.node.client.StartBulkWithResponse(ctx, &client.StartBulkParams{Namespace: new("waiting")}, request)
	switch {
	case err != nil:
		return err
	case started.StatusCode() != http.StatusCreated:
		return fmt.Errorf("start a bulk action: %s: %.300s", started.Status(), started.Body)
	}
	id := started.JSON201.ID
	var late figures
	if err := m.at(ctx, b, 1000, &late, nil); err != nil {
		return err
	}
	for _, l := range late {
		if strings.HasPrefix(l.name, "p99 ") || strings.HasPrefix(l.name, "most ") {
			f.add(l.name+" beside a bulk action", l.value, l.unit)
		}
	}
	reached, err := m.node.client.GetBulkWithResponse(ctx, id)
	if err != nil {
		return err
	}
	if reached.JSON200 == nil || reached.JSON200.Changed == 0 || reached.JSON200.Failed > 0 {
		return fmt.Errorf("the bulk action: %s: %.300s", reached.Status(), reached.Body)
	}
	took := clock.Since(reached.JSON200.StartedAt.Time)
	if ended := reached.JSON200.EndedAt; ended != nil {
		took = ended.Sub(reached.JSON200.StartedAt.Time)
	}
	f.add("tasks of the bulk action", float64(reached.JSON200.Changed)/took.Seconds(), "tasks/s")
	_, err = m.node.client.StopBulkWithResponse(ctx, id)
	return err
}
