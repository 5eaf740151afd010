package apply

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/manifest"
)

// tasksPerRequest is few enough that a small or busy Redis answers soon.
const tasksPerRequest = 100

// submission is one task to submit.
type submission struct {
	entry *manifest.Entry
	id    string
	body  json.RawMessage

	standsIn bool // it is checked in another form, so that the server cannot compare it with a task that it has
}

func (s *submission) result(r wire.BatchResult) result {
	if s.standsIn && r.Error != nil && r.Error.Code == wire.TaskConflict {
		r.Error = nil
	}
	res := result{Kind: manifest.KindTask, Namespace: s.entry.Namespace, ID: s.id, Outcome: outcomeUnchanged, Error: r.Error}
	switch {
	case r.Error != nil:
		res.Outcome = outcomeRefused
	case r.Status == http.StatusCreated:
		res.Outcome = outcomeCreated
	}
	if r.Task != nil {
		res.Warnings = rest.Troubles(*r.Task)
	}
	return res
}

// applyTasks applies the tasks of all entries, batch by batch.
func (a *applier) applyTasks(ctx context.Context, entries []manifest.Entry) error {
	var (
		batch []submission
		size  int
	)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		results, err := a.submit(ctx, batch)
		err = a.finish(batch, results, err)
		batch, size = nil, 0
		return err
	}
	for i := range entries {
		e, err := a.checkable(&entries[i])
		if err != nil {
			return err
		}
		for _, id := range e.IDs() {
			next := submission{e, id, e.Submission(id), a.checking && e != &entries[i]}
			if len(batch) == tasksPerRequest || size+len(next.body) > rest.BatchBytes {
				if err := flush(); err != nil {
					return err
				}
			}
			batch, size = append(batch, next), size+len(next.body)
		}
	}
	return flush()
}

// checkable returns an entry in a form that the server can check although a workflow that it runs would be created
// before, if this is a dry run. A check before entries are put does so for a workflow that would be changed, too. A dry
// run that is shown does not: it tells whether the server has the task already.
func (a *applier) checkable(e *manifest.Entry) (*manifest.Entry, error) {
	workflow, is := a.pendingOf(e)
	if !is || !workflow.isNew && !a.checking {
		return e, nil
	}
	var err error
	changed := *e
	changed.Body, err = e.WithParamsOf(workflow.entry)
	return &changed, err
}

// finish adds the results of a batch, those of one entry together. If the batch failed, it adds those of the entry that
// was begun before.
func (a *applier) finish(batch []submission, results []result, err error) error {
	if err != nil {
		return errors.Join(err, a.addTasks(a.partial))
	}
	for i, r := range results {
		a.warn(r.Warnings)
		e := batch[i].entry
		a.partial = append(a.partial, r)
		if len(a.partial) < max(1, e.Count) {
			continue
		}
		a.refuseTasks(e, a.partial)
		if err := a.addTasks(a.partial); err != nil {
			return err
		}
		a.partial = nil
	}
	return nil
}

// refuseTasks tells the user why tasks of an entry were refused, each reason once.
func (a *applier) refuseTasks(e *manifest.Entry, results []result) {
	type reason struct {
		count int
		first *wire.Problem
	}
	var (
		order   []string
		reasons = make(map[string]*reason)
	)
	for _, r := range results {
		if r.Error == nil {
			continue
		}
		key := strings.ReplaceAll(r.Error.Detail, r.ID, e.ID)
		if reasons[key] == nil {
			reasons[key] = &reason{first: r.Error}
			order = append(order, key)
		}
		reasons[key].count++
	}
	for _, key := range order {
		a.refuse(e, reasons[key].count, &rest.Refusal{Problem: *reasons[key].first})
	}
}

// submit submits tasks, or previews that, and returns their results. If one of them keeps the server from reading the request, it repeats
// the request without the tasks of that entry.
func (a *applier) submit(ctx context.Context, batch []submission) ([]result, error) {
	results := make([]result, len(batch))
	open := make([]int, len(batch)) // the indexes of the tasks without a result
	for i := range batch {
		open[i] = i
	}
	for len(open) > 0 {
		bodies := make([]json.RawMessage, len(open))
		for i, index := range open {
			bodies[i] = batch[index].body
		}
		send := a.client.SubmitBatch
		if a.dryRun {
			send = a.client.PreviewBatch
		}
		answer, err := send(ctx, nil, bodies)
		refusal := rest.RefusalIn(err)
		switch {
		case err == nil:
			for i, index := range open {
				results[index] = batch[index].result(answer.Value.Results[i])
			}
			return results, nil
		case refusal == nil:
			return nil, err
		}
		open = refuseUnreadable(batch, results, open, refusal)
	}
	return results, nil
}

var taskInBatch = regexp.MustCompile(`^tasks\[(\d+)\]\.?`)

// refuseUnreadable sets the results of the tasks that a refusal of the whole request is about: those of one entry or,
// if it names none, all. It returns the indexes of the tasks that are still open.
func refuseUnreadable(batch []submission, results []result, open []int, refusal *rest.Refusal) (left []int) {
	var guilty *manifest.Entry
	if match := taskInBatch.FindStringSubmatch(printer.Deref(refusal.Field)); match != nil {
		if i, err := strconv.Atoi(match[1]); err == nil && i < len(open) {
			guilty = batch[open[i]].entry
			refusal.Field = new(strings.TrimPrefix(*refusal.Field, match[0]))
			refusal.Detail = strings.TrimPrefix(refusal.Detail, match[0])
			refusal.Errors = nil // they may be about other tasks
		}
	}
	for _, index := range open {
		if guilty != nil && batch[index].entry != guilty {
			left = append(left, index)
			continue
		}
		results[index] = batch[index].result(wire.BatchResult{Status: refusal.Status, Error: &refusal.Problem})
	}
	return left
}
