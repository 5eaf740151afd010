package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
)

// applyTasks is how many tasks go into one request: few enough to be answered soon by a small or busy Redis as well.
const applyTasks = 100

// submission is one task that is to be submitted, or looked up.
type submission struct {
	entry *wanted
	id    string
	body  json.RawMessage
}

// tasks applies all tasks, some at a time.
func (a *applying) tasks(ctx context.Context, entries []wanted) error {
	handle := a.submit
	if a.dryRun {
		handle = a.lookUp
	}
	var (
		some []submission
		size int
	)
	for i := range entries {
		for _, id := range entries[i].ids() {
			next := entries[i].submission(id)
			next.entry = &entries[i]
			if len(some) == applyTasks || len(some) > 0 && size+len(next.body) > batchBytes {
				if err := a.finish(some, handle(ctx, some)); err != nil {
					return err
				}
				some, size = nil, 0
			}
			some, size = append(some, next), size+len(next.body)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return a.finish(some, handle(ctx, some))
}

// submission is the entry's task with an id.
func (e wanted) submission(id string) submission {
	head := object([]member{{name: "id", raw: quoted(id)}, {name: "namespace", raw: quoted(e.namespace)}})
	// Both are objects with members: a task has a type.
	return submission{id: id, body: bytes.Join([][]byte{head[:len(head)-1], e.body[1:]}, []byte(","))}
}

func quoted(text string) json.RawMessage {
	raw, _ := rawOf(text) // which always can be written
	return raw
}

// fates is what became of submissions, by their place; an error ends everything.
type fates struct {
	of  []applied
	err error
}

// finish tells what became of submissions, each entry's together. At an error, it tells of those that were handled.
func (a *applying) finish(some []submission, f fates) error {
	if f.err != nil {
		return errors.Join(f.err, a.printTasks(a.half))
	}
	for i, fate := range f.of {
		a.half = append(a.half, fate)
		if len(a.half) < max(1, some[i].entry.count) {
			continue
		}
		a.refuseEach(*some[i].entry, a.half)
		if err := a.printTasks(a.half); err != nil {
			return err
		}
		a.half = nil
	}
	return nil
}

// refuseEach tells why tasks of an entry were refused, each reason once.
func (a *applying) refuseEach(e wanted, all []applied) {
	type reason struct {
		count int
		first *client.Problem
	}
	var order []string
	reasons := make(map[string]reason)
	for _, r := range all {
		if r.Error == nil {
			continue
		}
		key := strings.ReplaceAll(r.Error.Detail, r.ID, e.id)
		was, again := reasons[key]
		if !again {
			was.first = r.Error
			order = append(order, key)
		}
		reasons[key] = reason{was.count + 1, was.first}
	}
	for _, key := range order {
		a.refuse(e, reasons[key].count, &refusal{*reasons[key].first})
	}
}

// submit submits tasks. Where one of them keeps the server from reading the request, it goes on without the tasks of
// that entry.
func (a *applying) submit(ctx context.Context, some []submission) fates {
	f := fates{of: make([]applied, len(some))}
	open := make([]int, len(some)) // the places of those that nothing is known of
	for i := range some {
		open[i] = i
	}
	for len(open) > 0 {
		results, err := a.submitOnce(ctx, some, open)
		no := refusalIn(err)
		if err != nil && no == nil {
			return fates{err: err}
		}
		if err == nil {
			for i, place := range open {
				f.of[place] = fateOf(some[place], results[i])
			}
			return f
		}
		open = f.strike(some, open, no)
	}
	return f
}

// submitOnce submits the tasks at some places.
func (a *applying) submitOnce(ctx context.Context, some []submission, open []int) ([]client.BatchResult, error) {
	bodies := make([]json.RawMessage, len(open))
	for i, place := range open {
		bodies[i] = some[place].body
	}
	body, err := bodyOf(map[string][]json.RawMessage{"tasks": bodies})
	if err != nil {
		return nil, err
	}
	answered, err := ask[client.BatchAnswer](a.calls.SubmitTasksWithBodyWithResponse(ctx, nil, jsonType, body))
	if err == nil && len(answered.value.Results) != len(open) {
		err = misunderstood(fmt.Errorf("it has %d results for %d tasks", len(answered.value.Results), len(open)))
	}
	return answered.value.Results, err
}

var taskInBatch = regexp.MustCompile(`^tasks\[(\d+)\]\.?`)

// strike takes off what a refusal of the whole request is about: the tasks of one entry or, if none is named, all.
// It returns what is left open.
func (f *fates) strike(some []submission, open []int, no *refusal) (left []int) {
	at := taskInBatch.FindStringSubmatch(orNothing(no.Field))
	var guilty *wanted
	if at != nil {
		if i, err := strconv.Atoi(at[1]); err == nil && i < len(open) {
			guilty = some[open[i]].entry
			no.Field = new(strings.TrimPrefix(*no.Field, at[0]))
			no.Detail = strings.TrimPrefix(no.Detail, at[0])
		}
	}
	for _, place := range open {
		if guilty != nil && some[place].entry != guilty {
			left = append(left, place)
			continue
		}
		f.of[place] = fateOf(some[place], client.BatchResult{Status: no.Status, Error: &no.Problem})
	}
	return left
}

func fateOf(of submission, r client.BatchResult) applied {
	fate := applied{Kind: kindTask, Namespace: of.entry.namespace, ID: of.id, Outcome: outcomeUnchanged, Error: r.Error}
	switch {
	case r.Error != nil:
		fate.Outcome = outcomeRefused
	case r.Status == http.StatusCreated:
		fate.Outcome = outcomeCreated
	}
	return fate
}

// lookUp says what submit would do, as far as what the API tells of a task shows it.
func (a *applying) lookUp(ctx context.Context, some []submission) fates {
	f := fates{of: make([]applied, len(some))}
	for i, one := range some {
		result := client.BatchResult{Status: http.StatusOK}
		found, err := ask[client.Task](a.calls.GetTaskWithResponse(ctx, one.id, &client.GetTaskParams{Namespace: &one.entry.namespace}))
		no := refusalIn(err)
		switch {
		case no != nil && no.Code == client.TaskNotFound:
			result.Status = http.StatusCreated
		case no != nil:
			result.Error = &no.Problem
		case err != nil:
			return fates{err: err}
		default:
			result.Error, err = conflict(one, found.value)
		}
		if err != nil && no == nil {
			return fates{err: err}
		}
		f.of[i] = fateOf(one, result)
	}
	return f
}

// conflict is what the server will say if the task that is there is another one than the one wanted; nil if nothing
// shows that it is.
func conflict(one submission, is client.Task) (*client.Problem, error) {
	var want client.Submission
	if err := json.Unmarshal(one.body, &want); err != nil {
		return nil, errors.Join(errors.New("reading a task again"), err)
	}
	var other []string
	for _, part := range []struct {
		name string
		same bool
	}{
		{"type", want.Type == is.Type},
		{"queue", want.Queue == nil || *want.Queue == is.Queue},
		{"payload", len(want.Payload) == 0 || sameJSON(want.Payload, is.Payload)},
		{"timeout", want.Timeout == nil || sameSpan(*want.Timeout, is.Timeout)},
		{"owner", orNothing(want.Owner) == orNothing(is.Owner)},
		{"labels", sameLabels(want.Labels, is.Labels)},
	} {
		if !part.same {
			other = append(other, part.name)
		}
	}
	if other == nil {
		return nil, nil
	}
	return &client.Problem{
		Type: "about:blank", Title: "Another task has this id", Status: http.StatusConflict, Code: client.TaskConflict,
		Detail: fmt.Sprintf("task %q is there already, with another %s", one.id, strings.Join(other, ", ")),
	}, nil
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func sameSpan(a, b string) bool {
	x, errX := time.ParseDuration(a)
	y, errY := time.ParseDuration(b)
	return errX == nil && errY == nil && x == y
}

func sameLabels(a, b *client.Labels) bool {
	if a == nil || b == nil {
		return (a == nil || len(*a) == 0) && (b == nil || len(*b) == 0)
	}
	return reflect.DeepEqual(*a, *b)
}
