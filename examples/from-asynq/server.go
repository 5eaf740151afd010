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

// imported returns the ids of the schedules that imports with these labels made. It checks the labels itself: those of an import with a prefix do
// not belong to the one without.
func (s *server) imported(ctx context.Context, labels map[string]string) (ids []string, err error) {
	for found, err := range s.client.ListSchedules(ctx, dts.ScheduleFilter{Labels: labels}) {
		if err != nil {
			return nil, err
		}
		if found.Definition.Labels[labelFrom] == labels[labelFrom] && found.Definition.Labels[labelPrefix] == labels[labelPrefix] {
			ids = append(ids, found.ID)
		}
	}
	return ids, nil
}

// remove deletes a schedule, and cancels those of its tasks that do not run. One that is gone already counts as removed.
func (s *server) remove(ctx context.Context, id string) error {
	if s.dryRun {
		return nil
	}
	_, err := s.client.DeleteSchedule(ctx, id, dts.CancelWaiting)
	if dts.CodeOf(err) == dts.CodeScheduleNotFound {
		return nil
	}
	return err
}
