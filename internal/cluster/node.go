package cluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The states of a node.
const (
	StateAlive    = "alive"    // it beats and takes on work
	StateDraining = "draining" // it beats, ends what it has begun, and takes on nothing new
	StateDead     = "dead"     // it missed three beats
)

// Node is one running dtsd, as it describes itself.
type Node struct {
	ID         string         `json:"id"`
	Host       string         `json:"host"`
	IP         string         `json:"ip"`
	Version    string         `json:"version"`
	Roles      []string       `json:"roles"`
	State      string         `json:"state"`
	Capacity   int            `json:"capacity"` // tasks it runs at once at most
	Running    int            `json:"running"`
	Partitions []int          `json:"partitions"` // that it leads
	Queues     map[string]int `json:"queues"`     // name -> weight
	CPU        float64        `json:"cpu"`        // its share of the machine, 0 to 1
	Memory     uint64         `json:"memory"`     // resident bytes
	StartedAt  time.Time      `json:"started_at"`
	LastBeat   time.Time      `json:"last_beat,omitzero"` // by Redis's clock; not part of what a node writes
}

// Has says whether the node plays the role; every node plays "".
func (n Node) Has(role string) bool { return role == "" || slices.Contains(n.Roles, role) }

// entry is what a node writes about itself. It says how often it beats, so that nodes with different
// settings judge each other rightly.
type entry struct {
	Node
	BeatMS int64 `json:"beat_ms"`
}

// missable is how many beats may be missed before a node counts as dead.
const missable = 3

func (e entry) deadAfter() time.Duration {
	return missable * time.Duration(e.BeatMS) * time.Millisecond
}

// parseNodes reads the entries of the registry by node id. An entry that cannot be read is left out, as one of another
// version may be; the errors are returned beside the rest.
func parseNodes(now time.Time, entries map[string]string) ([]member, []error) {
	var members []member
	var wrong []error
	for id, entry := range entries {
		m, err := parseMember(now, id, entry)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.ID, b.ID) })
	return members, wrong
}

// member is a node with the time at which it will be dead if it does not beat again.
type member struct {
	Node
	dies time.Time
}

func parseMember(now time.Time, id, value string) (member, error) {
	beat, text, _ := strings.Cut(value, " ")
	ms, err := strconv.ParseInt(beat, 10, 64)
	if err != nil {
		return member{}, fmt.Errorf("entry of node %q: time of its beat: %w", id, err)
	}
	var e entry
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return member{}, fmt.Errorf("entry of node %q: %w", id, err)
	}
	e.ID, e.LastBeat = id, time.UnixMilli(ms).UTC()
	m := member{Node: e.Node, dies: e.LastBeat.Add(e.deadAfter())}
	if now.After(m.dies) {
		m.State = StateDead
	}
	return m, nil
}
