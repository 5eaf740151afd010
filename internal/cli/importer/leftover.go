package importer

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
)

const pruned = "pruned"

// findLeftovers finds the schedules that earlier imports of the crontab made and that are of none of its lines any more.
func (i *importing) findLeftovers(ctx context.Context) error {
	kept := make(map[string]bool)
	for _, line := range i.lines {
		kept[line.id] = true
	}
	found, err := i.ownSchedules(ctx)
	for _, id := range found {
		if !kept[id] {
			i.leftovers = append(i.leftovers, imported{id: id})
		}
	}
	return err
}

// ownSchedules returns the ids of the schedules that imports of this crontab made. It checks the labels of what the server
// answers: no schedule may be deleted because a label was lost on the way.
func (i *importing) ownSchedules(ctx context.Context) (ids []string, err error) {
	limit := 500 // the most that the server takes
	params := client.ListSchedulesParams{Namespace: i.client.Namespace, Limit: &limit}
	for _, name := range slices.Sorted(maps.Keys(i.labels)) {
		params.Label = append(params.Label, name+"="+i.labels[name])
	}
	for {
		page, err := rest.Read[wire.ScheduleList](i.client.ListSchedulesWithResponse(ctx, &params))
		if err != nil {
			return ids, err
		}
		i.printer.Warn(page.Value.Warnings)
		for _, s := range page.Value.Schedules {
			if isOwn(s, i.labels) {
				ids = append(ids, s.ID)
			}
		}
		if params.Cursor = page.Value.NextCursor; params.Cursor == nil {
			return ids, nil
		}
	}
}

// isOwn says whether a schedule has the labels of an import. Those of an import with a prefix do not belong to the one without.
func isOwn(s wire.Schedule, labels wire.Labels) bool {
	if s.Labels == nil {
		return false
	}
	for _, name := range []string{labelFrom, labelSource, labelPrefix} {
		if (*s.Labels)[name] != labels[name] {
			return false
		}
	}
	return true
}

// whyNotPrune says why nothing may be deleted, or "". A line that is refused may be one that has a schedule, and a crontab
// without lines is the output of a command that failed rather than the wish to have nothing.
func (i *importing) whyNotPrune() string {
	if !slices.ContainsFunc(i.lines, func(line imported) bool { return line.outcome != refused }) {
		return "no line was imported"
	}
	if slices.ContainsFunc(i.lines, func(line imported) bool { return line.outcome == refused && !line.isReboot }) {
		return "a line was refused"
	}
	return ""
}

// pruneLeftovers deletes the leftovers. One that is gone already counts as pruned.
func (i *importing) pruneLeftovers(ctx context.Context) error {
	for n := range i.leftovers {
		left := &i.leftovers[n]
		params := &client.DeleteScheduleParams{Namespace: i.client.Namespace}
		_, err := rest.Read[wire.ScheduleDeletion](i.client.DeleteScheduleWithResponse(ctx, left.id, params))
		refusal := rest.RefusalIn(err)
		switch {
		case err == nil, refusal != nil && refusal.Code == wire.ScheduleNotFound:
			left.outcome = pruned
		case refusal == nil:
			return err
		default:
			left.outcome, left.reason = refused, refusal.Error()
		}
	}
	return nil
}

// tellLeftovers names the schedules that are left over.
func (i *importing) tellLeftovers() {
	var ids []string
	for _, left := range i.leftovers {
		switch left.outcome {
		case "":
			ids = append(ids, left.id)
		case refused:
			i.printer.Errorf("schedule %s is not pruned: %s", left.id, left.reason)
		}
	}
	if len(ids) == 0 {
		return
	}
	advice := "--prune deletes them"
	if i.prune {
		advice = "they are not pruned"
		if why := i.whyNotPrune(); why != "" {
			advice = "nothing is pruned, because " + why
		}
	}
	i.printer.Errorf("%s not in the file any more: %s; %s", schedules(len(ids)), strings.Join(ids, ", "), advice)
}

func schedules(n int) string {
	if n == 1 {
		return "1 schedule is"
	}
	return strconv.Itoa(n) + " schedules are"
}
