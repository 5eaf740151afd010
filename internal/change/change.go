// Package change says what happens to schedules, workflows, queues, limits and nodes, and reads how Redis's channels
// tell it. It knows no Redis.
package change

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Kind is what a change is about. It is the beginning of its type.
type Kind string

// The kinds. A later release may publish others, which nobody can ask for yet.
const (
	Schedule Kind = "schedule"
	Workflow Kind = "workflow"
	Queue    Kind = "queue"
	Limit    Kind = "limit"
	Node     Kind = "node"
)

// The types that Go code knows. The others are known to scripts only.
const (
	SchedulePaused = "schedule.paused"
	QueueLimited   = "queue.limited" // its capacity is another one: clients know the type by its old name
	NodeJoined     = "node.joined"
	NodeLeft       = "node.left"
	NodeLost       = "node.lost"
	NodeChanged    = "node.changed"
)

// LostWord is the word on the channel of members for a node that counts as dead.
const LostWord = "lost"

// Change is something that happened to a schedule, a workflow, a queue, a limit or a node.
type Change struct {
	Type     string    // "<kind>.<what>"
	At       time.Time // by Redis's clock
	Ref      task.Ref  // of a schedule or a workflow
	Revision int       // of that; 0 if it is not known
	Queue    string    // its name
	Capacity int       // of a queue, on queue.limited; 0 for any number of tasks
	Limit    string    // the name of a limit
	Node     string    // its id
	State    string    // of a node, on node.changed
	By       string    // "" if nobody knows
	Note     string    // "" if nobody said
}

// Kind is what the change is about.
func (c Change) Kind() Kind {
	kind, _, _ := strings.Cut(c.Type, ".")
	return Kind(kind)
}

// record is a message on the channel of changes, as lua/include/tell.lua writes it. Numbers are texts there, and At is
// in ms.
type record struct {
	Type     string `json:"type"`
	At       string `json:"at"`
	Ref      string `json:"ref,omitempty"`
	Revision string `json:"revision,omitempty"`
	Queue    string `json:"queue,omitempty"`
	Capacity string `json:"limit,omitempty"` // nodes of earlier releases know it by this name
	Name     string `json:"limit_name,omitempty"`
	By       string `json:"by,omitempty"`
	Note     string `json:"note,omitempty"`
}

// Encode writes a change of a schedule, a workflow, a queue or a limit as Decode reads it.
func Encode(c Change) string {
	r := record{
		Type: c.Type, At: strconv.FormatInt(c.At.UnixMilli(), 10), Queue: c.Queue, Name: c.Limit, By: c.By, Note: c.Note,
	}
	if c.Ref != (task.Ref{}) {
		r.Ref = c.Ref.String()
	}
	if c.Revision > 0 {
		r.Revision = strconv.Itoa(c.Revision)
	}
	text, _ := json.Marshal(r) // texts are always JSON
	return string(text)
}

// Decode reads a message on the channel of changes. A type that this release does not know is read as well as those
// that it knows, so that a later one can add types. Error: it is no JSON of that form, or does not say what it is
// about.
func Decode(message string) (Change, error) {
	var r record
	if err := json.Unmarshal([]byte(message), &r); err != nil {
		return Change{}, fmt.Errorf("a change cannot be read: %w", err)
	}
	at, err := strconv.ParseInt(r.At, 10, 64)
	if err != nil {
		return Change{}, fmt.Errorf("a change of type %q has no time: %w", task.Cut(r.Type, 100), err)
	}
	c := Change{Type: r.Type, At: time.UnixMilli(at).UTC(), Queue: r.Queue, Limit: r.Name, By: r.By, Note: r.Note}
	c.Revision, _ = strconv.Atoi(r.Revision) // a schedule may be damaged
	c.Capacity, _ = strconv.Atoi(r.Capacity)
	switch c.Kind() {
	case Schedule, Workflow:
		c.Ref, err = task.ParseRef(r.Ref)
	case Queue:
		err = task.ValidateQueue(r.Queue)
	case Limit:
		if r.Name == "" {
			err = fmt.Errorf("a change of type %q names no limit", task.Cut(r.Type, 100))
		}
	}
	return c, err
}

// DecodeMember reads a message on the channel of members: a word, the id of a node and the time in ms. Nodes of earlier
// releases leave out the time: then At is zero. Error: it names no node.
func DecodeMember(message string) (Change, error) {
	word, rest, _ := strings.Cut(message, " ")
	id, ms, _ := strings.Cut(rest, " ")
	if word == "" || id == "" {
		return Change{}, fmt.Errorf("a change of the list of nodes names no node: %q", task.Cut(message, 100))
	}
	c := Change{Node: id}
	if at, err := strconv.ParseInt(ms, 10, 64); err == nil {
		c.At = time.UnixMilli(at).UTC()
	}
	switch word {
	case "join":
		c.Type = NodeJoined
	case "leave":
		c.Type = NodeLeft
	case LostWord:
		c.Type = NodeLost
	default:
		c.Type, c.State = NodeChanged, word
	}
	return c, nil
}

// IsOfCordon reports whether a message on the channel of members says that a node was cordoned or uncordoned.
func IsOfCordon(message string) bool {
	word, _, _ := strings.Cut(message, " ")
	return word == "cordoned" || word == "uncordoned"
}

// MemberOf is the id of the node that a message on the channel of members is about; "" if it names none.
func MemberOf(message string) string {
	_, rest, _ := strings.Cut(message, " ")
	id, _, _ := strings.Cut(rest, " ")
	return id
}
