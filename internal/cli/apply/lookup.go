package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// lookUp returns the results that submit would have, as far as the tasks on the server show it.
func (a *applier) lookUp(ctx context.Context, batch []submission) ([]result, error) {
	results := make([]result, len(batch))
	for i := range batch {
		found, err := a.lookUpOne(ctx, &batch[i])
		if err != nil {
			return nil, err
		}
		results[i] = batch[i].result(found)
	}
	return results, nil
}

func (a *applier) lookUpOne(ctx context.Context, s *submission) (client.BatchResult, error) {
	params := &client.GetTaskParams{Namespace: &s.entry.namespace}
	found, err := rest.Read[client.Task](a.client.GetTaskWithResponse(ctx, s.id, params))
	switch {
	case isNotFound(err, client.TaskNotFound):
		return client.BatchResult{Status: http.StatusCreated}, nil
	case rest.IsRefusal(err):
		problem := rest.RefusalIn(err).Problem
		return client.BatchResult{Status: problem.Status, Error: &problem}, nil
	case err != nil:
		return client.BatchResult{}, err
	}
	problem, err := conflict(s, found.Value)
	return client.BatchResult{Status: http.StatusOK, Error: problem}, err
}

// conflict returns the problem that the server will answer if the existing task differs from the submitted one, nil if
// no difference shows.
func conflict(s *submission, existing client.Task) (*client.Problem, error) {
	var submitted client.Submission
	if err := json.Unmarshal(s.body, &submitted); err != nil {
		return nil, fmt.Errorf("reading the submission of task %s: %w", s.id, err)
	}
	var different []string
	for _, field := range []struct {
		name string
		same bool
	}{
		{"type", submitted.Type == existing.Type},
		{"queue", submitted.Queue == nil || *submitted.Queue == existing.Queue},
		{"payload", len(submitted.Payload) == 0 || equalJSON(submitted.Payload, existing.Payload)},
		{"timeout", submitted.Timeout == nil || equalDurations(*submitted.Timeout, existing.Timeout)},
		{"owner", printer.Deref(submitted.Owner) == printer.Deref(existing.Owner)},
		{"labels", equalLabels(submitted.Labels, existing.Labels)},
	} {
		if !field.same {
			different = append(different, field.name)
		}
	}
	if different == nil {
		return nil, nil
	}
	return &client.Problem{
		Type: "about:blank", Title: "Another task has this id", Status: http.StatusConflict, Code: client.TaskConflict,
		Detail: fmt.Sprintf("task %q is there already, with another %s", s.id, strings.Join(different, ", ")),
	}, nil
}

func equalJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func equalDurations(a, b string) bool {
	x, errX := time.ParseDuration(a)
	y, errY := time.ParseDuration(b)
	return errX == nil && errY == nil && x == y
}

func equalLabels(a, b *client.Labels) bool {
	if a == nil || b == nil {
		return (a == nil || len(*a) == 0) && (b == nil || len(*b) == 0)
	}
	return reflect.DeepEqual(*a, *b)
}
