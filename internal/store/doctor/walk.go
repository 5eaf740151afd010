package doctor

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/layout"
)

// stage is a part of an examination. The stages come in this order.
type stage int

const (
	ofDeployment stage = iota
	ofPartitions
	ofQueues
	ofKeys // all keys, server by server
	ended
)

// position is where an examination goes on.
type position struct {
	Stage  stage  `json:"s"`
	Number int    `json:"n"` // of the partition, or the server
	Room   string `json:"r"` // the room, or one before the next
	Scan   uint64 `json:"c"` // cursor of Redis within the room
}

// String is the position as an opaque text, safe in a URL; "" at the end.
func (p position) String() string {
	if p.Stage == ended {
		return ""
	}
	raw, _ := json.Marshal(p) // cannot fail
	return base64.RawURLEncoding.EncodeToString(raw)
}

// parsePosition reads what String returned; "" is the start. Error: CodeInvalid.
func parsePosition(cursor string) (p position, _ error) {
	if cursor == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil || p.Stage < ofDeployment || p.Stage >= ended || p.Number < 0 {
		return p, layout.InvalidCursor()
	}
	return p, nil
}

// longestPause is the longest pause after a page: the pause takes as long as the page, so that Redis has at least half of its time for others.
const longestPause = 50 * time.Millisecond

// room is a collection of Redis that is read page by page.
type room struct {
	name   string
	checks []string // a room is left out if none of them is asked for
	// look looks at one page, from a cursor of Redis on, and returns the cursor of the next page; 0 after the last one.
	look func(ctx context.Context, from uint64) (next uint64, _ error)
}

// walk examines from the position on, until the end or the bounds. It returns the cursor with which to go on. Error: one of Redis.
func (e *examination) walk(ctx context.Context) (string, error) {
	for e.at.Stage < ended {
		rooms, err := e.rooms(ctx)
		if err != nil {
			return "", err
		}
		done, err := e.walkRooms(ctx, rooms)
		if err != nil || !done {
			return e.at.String(), err
		}
		e.at = e.after(e.at)
		if e.over() {
			return e.at.String(), nil
		}
	}
	return "", nil
}

// after returns the start of what follows a partition, a server, or a stage without numbers.
func (e *examination) after(at position) position {
	count := 1
	switch {
	case e.Partition != nil && at.Stage == ofPartitions:
		return position{Stage: ended}
	case e.Partition != nil:
		return position{Stage: ofPartitions, Number: *e.Partition}
	case at.Stage == ofPartitions:
		count = e.o.Layout.Partitions()
	case at.Stage == ofKeys:
		count = e.servers
	}
	if at.Number+1 < count {
		return position{Stage: at.Stage, Number: at.Number + 1}
	}
	return position{Stage: at.Stage + 1}
}

// rooms returns the rooms of the present stage, sorted by name.
func (e *examination) rooms(ctx context.Context) ([]room, error) {
	var rooms []room
	var err error
	switch e.at.Stage {
	case ofDeployment:
		rooms = e.deploymentRooms()
	case ofPartitions:
		rooms, err = e.partitionRooms(ctx, e.at.Number)
	case ofQueues:
		rooms, err = e.queueRooms(ctx)
	case ofKeys:
		rooms, err = e.keyRooms(ctx, e.at.Number)
	}
	rooms = slices.DeleteFunc(rooms, func(r room) bool { return !e.wants(r.checks...) })
	slices.SortFunc(rooms, func(a, b room) int { return cmp.Compare(a.name, b.name) })
	return rooms, err
}

// walkRooms looks at rooms from the position on. done is false if the bounds came first; the position says where to go on.
func (e *examination) walkRooms(ctx context.Context, rooms []room) (done bool, _ error) {
	for _, r := range rooms {
		if r.name < e.at.Room {
			continue
		}
		from := uint64(0)
		if r.name == e.at.Room {
			from = e.at.Scan
		}
		for {
			start := clock.Now()
			next, err := r.look(ctx, from)
			if err != nil {
				return false, err
			}
			if e.at.Room, e.at.Scan = r.name, next; next == 0 {
				e.at.Room = r.name + "\x00" // the next room
			}
			if e.over() {
				return false, nil
			}
			if err := clock.Sleep(ctx, min(clock.Since(start), longestPause)); err != nil { // Redis has other work
				return false, err
			}
			if from = next; next == 0 {
				break
			}
		}
	}
	return true, nil
}
