package doctor

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
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
	Stage  stage   `json:"s"`
	Number int     `json:"n"` // of the partition, or the server
	Path   []place `json:"p"` // in a collection, then in one to which a page of this leads, and so on; none: at the first collection
}

// place is a page of a collection.
type place struct {
	Collection string `json:"k"` // its name, or one before the next
	Scan       uint64 `json:"c"` // cursor of Redis from which the page is read
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

// collection is something of Redis that is read page by page.
type collection struct {
	name   string
	checks []string // it is left out if none of them is asked for
	// look looks at one page, from a cursor of Redis on. It returns the cursor of the next page, 0 after the last one, and the collections to which
	// this page leads, which come before the next page. An examination that goes on within one of these looks at this page again.
	look func(ctx context.Context, from uint64) (inner []collection, next uint64, _ error)
}

// walk examines from the position on, until the end or the bounds. It returns the cursor with which to go on. Error: one of Redis.
func (e *examination) walk(ctx context.Context) (string, error) {
	for e.at.Stage < ended {
		collections, err := e.collections(ctx)
		if err != nil {
			return "", err
		}
		done, err := e.walkEach(ctx, collections, 0)
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

// collections returns the collections of the present stage.
func (e *examination) collections(ctx context.Context) ([]collection, error) {
	switch e.at.Stage {
	case ofDeployment:
		return e.deploymentCollections(), nil
	case ofPartitions:
		return e.partitionCollections(ctx, e.at.Number)
	case ofQueues:
		return e.queueCollections(ctx)
	case ofKeys:
		return e.keyCollections(ctx, e.at.Number)
	}
	return nil, nil
}

// walkEach looks at collections by name, from the position on; depth is the number of collections that lead to them. done is false if the bounds
// came first; the position says where to go on.
func (e *examination) walkEach(ctx context.Context, collections []collection, depth int) (done bool, _ error) {
	var at place
	if len(e.at.Path) > depth {
		at = e.at.Path[depth]
	}
	slices.SortFunc(collections, func(a, b collection) int { return cmp.Compare(a.name, b.name) })
	for _, c := range collections {
		if c.name < at.Collection || !e.wants(c.checks...) {
			continue
		}
		from := uint64(0)
		if c.name == at.Collection {
			from = at.Scan
		}
		if done, err := e.walkPages(ctx, c, from, depth); err != nil || !done {
			return false, err
		}
	}
	return true, nil
}

// walkPages looks at the pages of a collection from a cursor on, and at what they lead to.
func (e *examination) walkPages(ctx context.Context, c collection, from uint64, depth int) (done bool, _ error) {
	for {
		var inner []collection
		var next uint64
		err := e.tryRepair(func() (err error) {
			inner, next, err = c.look(ctx, from)
			return err
		})
		if err != nil {
			inner, next = nil, 0
		}
		if err = e.passOver(e.restOf(c), err, c.checks...); err != nil {
			return false, err
		}
		if len(inner) > 0 {
			if err := e.rest(ctx); err != nil {
				return false, err
			}
			e.enter(place{c.name, from}, depth)
			if done, err := e.walkEach(ctx, inner, depth+1); err != nil || !done {
				return false, err
			}
		}
		e.at.Path = append(e.at.Path[:depth:depth], place{c.name, next})
		if next == 0 {
			e.at.Path[depth].Collection += "\x00" // the next collection
		}
		if e.over() {
			return false, nil
		}
		if err := e.rest(ctx); err != nil || next == 0 {
			return err == nil, err
		}
		from = next
	}
}

// restOf names what is left of a collection.
func (e *examination) restOf(c collection) string {
	rest := "the rest of " + strings.TrimSpace(c.name)
	if e.at.Stage == ofPartitions {
		rest += " in " + partitionName(e.at.Number)
	}
	return rest
}

// partitionName names a partition.
func partitionName(p int) string { return fmt.Sprintf("partition %d", p) }

// enter moves the position to the start of what a page leads to, unless it is within that already.
func (e *examination) enter(page place, depth int) {
	if len(e.at.Path) <= depth || e.at.Path[depth] != page {
		e.at.Path = append(e.at.Path[:depth:depth], page)
	}
}

// leastRest is the shortest pause: the clock of a machine makes shorter ones longer, up to about a millisecond.
const leastRest = 2 * time.Millisecond

// rest pauses for as long as the examination has worked since the last pause, so that Redis has at least half of its time for others. It does not
// if that was less than leastRest, which counts for the next pause.
func (e *examination) rest(ctx context.Context) error {
	worked := clock.Since(e.rested)
	if worked < leastRest {
		return ctx.Err()
	}
	err := clock.Sleep(ctx, worked)
	e.rested = clock.Now()
	return err
}

// inTurn has names looked at, so many at a time, with a pause after each. It returns at how many it has looked: those
// that are damaged are passed over, for the checks.
func (e *examination) inTurn(
	ctx context.Context, names []string, count int, checks []string, look func(some []string) error,
) (looked int, _ error) {
	for some := range slices.Chunk(names, count) {
		n, err := e.lookAt(some, checks, look)
		looked += n
		if err := cmp.Or(err, e.rest(ctx)); err != nil {
			return looked, err
		}
	}
	return looked, nil
}

// allDamaged is of how many names in a row a key is damaged before that counts as one that they share.
const allDamaged = 20

// lookAt has names looked at: all at once or, if a key of one of them is damaged, one by one, and passes over those that
// are. It returns at how many it has looked.
func (e *examination) lookAt(names, checks []string, look func(some []string) error) (looked int, _ error) {
	err := e.tryRepair(func() error { return look(names) })
	if err == nil {
		return len(names), nil
	}
	if !redisx.IsDamage(err) {
		return 0, err
	}
	damaged := 0
	for _, name := range names {
		if len(names) > 1 {
			err = e.tryRepair(func() error { return look([]string{name}) })
		}
		switch damaged++; {
		case err == nil:
			damaged = 0
			looked++
		case !redisx.IsDamage(err) || damaged >= allDamaged:
			return looked, err
		default:
			_ = e.passOver(name, err, checks...)
		}
	}
	return looked, nil
}

// lookAgain pauses until it is time for a second look.
func (e *examination) lookAgain(ctx context.Context) error {
	err := clock.Sleep(ctx, secondLook)
	e.rested = clock.Now()
	return err
}
