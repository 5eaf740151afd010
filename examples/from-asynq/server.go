package main

import (
	"context"

	"github.com/dts-sched/dts"
)

// server is where the schedules go.
type server struct {
	client *dts.Client
	dryRun bool
}

func dial(address string, dryRun bool) (*server, error) {
	client, err := dts.Dial(address)
	return &server{client, dryRun}, err
}

// put puts a schedule in force, and says what that changes. A schedule that is in force already keeps its revision.
func (s *server) put(ctx context.Context, id string, d dts.ScheduleDefinition) (change string, err error) {
	before, err := s.client.GetSchedule(ctx, id)
	if err != nil && dts.CodeOf(err) != dts.CodeScheduleNotFound {
		return "", err
	}
	var options []dts.PutOption
	if s.dryRun {
		options = append(options, dts.DryRun())
	}
	after, err := s.client.PutSchedule(ctx, id, d, options...)
	switch {
	case err != nil:
		return "", err
	case before == nil:
		return "created", nil
	case before.Revision == after.Revision:
		return "unchanged", nil
	}
	return "changed", nil
}
