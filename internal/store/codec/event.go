package codec

import (
	"encoding/json"
	"fmt"

	"github.com/dts-sched/dts/internal/task"
)

// eventRecord is a message on the events channel, as lua/include/events.lua writes it. At and Due are ms since 1970.
type eventRecord struct {
	Type     string     `json:"type"`
	Ref      string     `json:"ref"`
	State    task.State `json:"state"`
	Attempt  int        `json:"attempt"`
	Node     string     `json:"node"`
	At       int64      `json:"at"`
	Due      int64      `json:"due"`
	Head     head       `json:"head"`
	Progress int        `json:"progress"`
	Note     string     `json:"note"`
	Error    string     `json:"error"`
	Line     *struct {
		Stream string `json:"stream"`
		Text   string `json:"text"`
	} `json:"line"`
}

// DecodeEvent reads a message on the events channel. Error: it is not JSON of the published form, or names no task.
func DecodeEvent(message string) (task.Event, error) {
	var r eventRecord
	if err := json.Unmarshal([]byte(message), &r); err != nil {
		return task.Event{}, fmt.Errorf("an event cannot be read: %w", err)
	}
	ref, err := task.ParseRef(r.Ref)
	if err != nil {
		return task.Event{}, err
	}
	e := task.Event{
		Type: r.Type, Ref: ref, State: r.State, Attempt: r.Attempt, Node: r.Node, At: FromMS(r.At), DueAt: FromMS(r.Due),
		Queue: r.Head.Queue, TaskType: r.Head.Type, Owner: r.Head.Owner, Progress: r.Progress, Note: r.Note, Error: r.Error,
	}
	if e.Queue == "" {
		e.Queue = task.DefaultQueue
	}
	if r.Line != nil {
		e.Stream, e.Text = r.Line.Stream, r.Line.Text
	}
	return e, nil
}
