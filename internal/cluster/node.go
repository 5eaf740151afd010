package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/config"
)

// The states of a node.
const (
	StateAlive    = "alive"    // sends heartbeats and accepts work
	StateDraining = "draining" // sends heartbeats, finishes its work, and accepts no new work
	StateDead     = "dead"     // missed three heartbeats
)

// Node is one running dtsd, or a worker that reaches DTS by HTTP, as it describes itself. Older versions leave some
// fields out.
type Node struct {
	ID string `json:"id"`
	// Name is the same after a restart. That of older versions is their host, that of workers by HTTP their id.
	Name    string   `json:"name,omitempty"`
	Host    string   `json:"host"`
	IP      string   `json:"ip"`
	Version string   `json:"version"`
	Roles   []string `json:"roles"`
	State   string   `json:"state"`

	Capacity int `json:"capacity"` // its slots: most tasks it runs at once, if each holds one
	Running  int `json:"running"`  // slots that are taken
	// Tasks is how many tasks it has that run, or whose end Redis has not taken yet. It is Running of a node of an older
	// version, which does not say it.
	Tasks    int     `json:"tasks"`
	Response float64 `json:"response,omitempty"` // ms that its tasks took lately, on average; 0 if it does not say
	// Placed is how many of Running the tasks hold that were handed to it alone, by queue.
	Placed map[string]int `json:"placed,omitempty"`
	// Largest is how many slots the largest pool has that serves a queue, by queue; none if it has one pool.
	Largest map[string]int `json:"largest,omitempty"`

	Partitions []int          `json:"partitions"`        // numbers of the partitions it leads
	Queues     map[string]int `json:"queues"`            // name -> weight
	Types      []string       `json:"types,omitempty"`   // of the tasks it runs; none if it does not say
	Layouts    []string       `json:"layouts,omitempty"` // of the data, the oldest first; none if it does not say
	// NotesRows says that its scripts note tasks that need a row in the index of lists. Those of older versions do not.
	NotesRows bool          `json:"notes_rows,omitempty"`
	Via       string        `json:"via,omitempty"`     // of a worker by HTTP: the node it talks to; "" for a dtsd
	CPU       float64       `json:"cpu"`               // share of the machine's processors it uses, 0 to 1
	Memory    uint64        `json:"memory"`            // resident bytes
	PID       int           `json:"pid,omitempty"`     // of its process; 0 if it does not say
	Machine   *Machine      `json:"machine,omitempty"` // on which it runs; nil if it does not say
	Labels    config.Labels `json:"labels,omitempty"`  // that it was given; Values also has those it has by itself
	StartedAt time.Time     `json:"started_at"`
	Listens   *Listens      `json:"listens,omitempty"` // nil if it listens nowhere, or does not say
	Cordon    *Cordon       `json:"-"`                 // nil: it is not cordoned; not part of the stored entry
	// Obeys is since when, in ms, the cordon holds that it obeys: it begins no task any more; 0 for none.
	Obeys    int64         `json:"obeys,omitempty"`
	LastBeat time.Time     `json:"last_beat,omitzero"` // by Redis's clock; not part of the stored entry
	Beat     time.Duration `json:"-"`                  // between two heartbeats; beat_ms of the stored entry
}

// Listens says where a node listens, so that tasks of other nodes do not call it.
type Listens struct {
	API      string `json:"api,omitempty"`      // HOST:PORT, where the host may be 0.0.0.0 or ::
	Profiles string `json:"profiles,omitempty"` // HOST:PORT, where the host is a loopback address; "" without them
	Network  string `json:"network,omitempty"`  // see Network
	// Machine has further addresses that lead to the API: --node-ip, and Addresses if the host of API is 0.0.0.0 or ::.
	Machine []netip.Addr `json:"machine,omitempty"`
}

// Address is where its API listens, as HOST:PORT; "" if that is nowhere or not known.
func (n Node) Address() string {
	if n.Listens == nil {
		return ""
	}
	return n.Listens.API
}

// Has reports whether the node has the role. Every node has the role "".
func (n Node) Has(role string) bool { return role == "" || slices.Contains(n.Roles, role) }

// Values returns what a node has under the name of a label: of those that it was given, and of those that each node has
// by itself. Most have one value, role has one for each role, and none means that it has no such label.
func (n Node) Values(label string) []string {
	switch label {
	case "id":
		return []string{n.ID}
	case "name":
		return given(n.Name)
	case "host":
		return given(n.Host)
	case "version":
		return given(n.Version)
	case "role":
		return n.Roles
	}
	if value, ok := n.Labels[label]; ok {
		return []string{value}
	}
	return nil
}

// given returns one text, and none if it is empty.
func given(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// entry is what a node writes about itself. It contains the time between its heartbeats, so that nodes with
// different settings judge each other correctly.
type entry struct {
	Sequence int `json:"sequence"` // of the heartbeat; the first field, where beat.lua looks for it
	Node
	BeatMS int64 `json:"beat_ms"` // ms between two heartbeats; the last field, where beat.lua looks for it
}

// missedLimit is how many missed heartbeats make a node count as dead.
const missedLimit = 3

// deadAfter is the time after the last heartbeat when the node counts as dead.
func (e entry) deadAfter() time.Duration {
	return missedLimit * e.Beat
}

// parseNodes parses the entries of the registry, which are keyed by node id, and sorts them by id. It skips invalid
// entries, which a node of another version may have written, and returns one error for each.
func parseNodes(now time.Time, entries map[string]string) ([]member, []error) {
	var members []member
	var errs []error
	for id, entry := range entries {
		m, err := parseMember(now, id, entry)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.ID, b.ID) })
	return members, errs
}

// CheckEntry returns an error if the entry of a node, which is keyed by its id, cannot be read.
func CheckEntry(id, value string) error {
	m, err := parseMember(time.Time{}, id, value)
	if err != nil {
		return err
	}
	return m.Check()
}

// Check returns an error if a node does not say what each one does.
func (n Node) Check() error {
	known := slices.Contains([]string{StateAlive, StateDraining, StateDead}, n.State)
	if !known || n.StartedAt.IsZero() {
		return fmt.Errorf("entry of node %q: it has no state, or no start", n.ID)
	}
	return nil
}

// member is a node with the time at which it counts as dead unless it sends another heartbeat.
type member struct {
	Node
	deadAt time.Time
}

// parseMember parses the entry of one node: "<ms of the last heartbeat> <JSON>".
func parseMember(now time.Time, id, value string) (member, error) {
	beat, text, _ := strings.Cut(value, " ")
	ms, err := strconv.ParseInt(beat, 10, 64)
	if err != nil {
		return member{}, fmt.Errorf("entry of node %q: invalid time of the heartbeat: %w", id, err)
	}
	e := entry{Node: Node{Tasks: -1}}
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return member{}, fmt.Errorf("entry of node %q: invalid JSON: %w", id, err)
	}
	if e.Tasks < 0 { // tasks of older versions hold one slot each
		e.Tasks = e.Running
	}
	// A beat of the future is from before Redis's clock was set back.
	e.ID, e.LastBeat = id, time.UnixMilli(min(ms, now.UnixMilli())).UTC()
	e.Name = cmp.Or(e.Name, e.Host, id)
	e.Beat = time.Duration(e.BeatMS) * time.Millisecond
	m := member{Node: e.Node, deadAt: e.LastBeat.Add(e.deadAfter())}
	if now.After(m.deadAt) {
		m.State = StateDead
	}
	return m, nil
}
