package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dts-sched/dts"
)

// importing puts the schedules of an import, and finds those of earlier ones that are left over.
type importing struct {
	to         *server
	configs    []converted
	labels     map[string]string // of its schedules
	prune      bool              // delete the leftovers
	out, notes io.Writer
	refused    int
}

var errRefused = errors.New("configs were refused")

// run writes a line for each config and each schedule that it deletes: what it is, what became of it, and the id of the schedule or why it was
// refused. Schedules that are left over are named in the notes.
func (i *importing) run(ctx context.Context) error {
	for n, c := range i.configs {
		what := fmt.Sprintf("config %d", n+1)
		change, err := "", c.err
		if err == nil {
			change, err = i.to.put(ctx, c.id, c.definition)
		}
		if dts.CodeOf(err) == dts.CodeUnavailable {
			return fmt.Errorf("%s and those after it: %w", what, err)
		}
		if err != nil {
			i.refused++
			i.tell(what, "refused", err.Error())
			continue
		}
		i.tell(what, change, c.id)
	}
	left, err := i.leftovers(ctx)
	if err != nil {
		return fmt.Errorf("looking for schedules that are left over: %w", err)
	}
	if err := i.handle(ctx, left); err != nil {
		return err
	}
	if i.refused > 0 {
		return fmt.Errorf("%d of %d: %w", i.refused, len(i.configs), errRefused)
	}
	return nil
}

func (i *importing) tell(what, change, detail string) {
	_, _ = fmt.Fprintf(i.out, "%s\t%s\t%s\n", what, change, detail)
}

// leftovers are the schedules that earlier imports made and that are of no config any more.
func (i *importing) leftovers(ctx context.Context) (ids []string, err error) {
	kept := make(map[string]bool)
	for _, c := range i.configs {
		kept[c.id] = true
	}
	imported, err := i.to.imported(ctx, i.labels)
	for _, id := range imported {
		if !kept[id] {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// handle deletes the leftovers, or names them.
func (i *importing) handle(ctx context.Context, left []string) error {
	why := i.whyNotPrune()
	if len(left) == 0 {
		return nil
	}
	if why != "" {
		_, _ = fmt.Fprintf(i.notes, "from-asynq: of no config any more: %s; %s\n", strings.Join(left, ", "), why)
		return nil
	}
	for _, id := range left {
		if err := i.to.remove(ctx, id); err != nil {
			return fmt.Errorf("pruning %s: %w", id, err)
		}
		i.tell("schedule", "pruned", id)
	}
	return nil
}

// whyNotPrune says why nothing is deleted, or "". A config that is refused may be one that has a schedule, and no configs at all
// are a provider that failed rather than the wish to have nothing.
func (i *importing) whyNotPrune() string {
	switch {
	case !i.prune:
		return "-prune deletes them"
	case i.refused > 0:
		return "nothing is pruned, because a config was refused"
	case len(i.configs) == 0:
		return "nothing is pruned, because there is no config"
	}
	return ""
}
