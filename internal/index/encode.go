package index

import (
	"encoding/binary"
	"slices"

	"github.com/oklog/ulid/v2"
)

// version is the first byte of what is encoded. A release leaves a greater one to newer releases.
const version = 1

// SegmentRows is how many rows a segment has at most.
const SegmentRows = 4096

// Group is what a segment says once for all rows that have it in common.
type Group struct {
	Namespace string
	Kind
}

// Encode packs rows into a segment. Either all of them wait, or all have ended. Rows of one task stay apart.
//
// The form is the version, whether the rows wait, the texts, the groups, the labels, and the rows, by stateTime, the
// latest first. Numbers are varints, and texts have their length before them. A row has the distance of its stateTime
// from that of the row before, its group, the distance of its creation, of its due time and its duration if it has
// ended, its labels if any row has some, and its id.
func Encode(rows []Row) []byte {
	if !slices.IsSortedFunc(rows, Order{}.Compare) {
		rows = slices.Clone(rows)
		slices.SortStableFunc(rows, Order{}.Compare)
	}
	e := newEncoder(rows)
	b := []byte{version, 0}
	waits := len(rows) > 0 && rows[0].Ended == 0
	if waits {
		b[1] = 1
	}
	b = appendGroups(b, e.groups.list)
	b = appendTexts(b, e.labels.list)
	b = binary.AppendUvarint(b, uint64(len(rows)))
	last := int64(0)
	for _, r := range rows {
		b = binary.AppendVarint(b, r.stateTime()-last)
		last = r.stateTime()
		b = e.appendRow(b, r, waits)
	}
	return b
}

// fields are the texts of a group, in the order in which they are stored.
func (g *Group) fields() []*string {
	return []*string{&g.Namespace, (*string)(&g.State), &g.Queue, &g.Type, &g.Owner, &g.Node, &g.Cause}
}

// encoder numbers what rows have in common.
type encoder struct {
	groups table[Group]
	labels table[string]
}

func newEncoder(rows []Row) *encoder {
	e := &encoder{}
	for _, r := range rows {
		e.groups.number(Group{r.Ref.Namespace, r.Kind})
		for _, label := range r.Labels {
			e.labels.number(label)
		}
	}
	return e
}

func (e *encoder) appendRow(b []byte, r Row, waits bool) []byte {
	b = binary.AppendUvarint(b, e.groups.number(Group{r.Ref.Namespace, r.Kind}))
	id, isULID := parseULID(r.Ref.ID)
	b = binary.AppendVarint(b, near(id, isULID, r.stateTime())-r.Created)
	if !waits {
		b = binary.AppendVarint(b, r.Ended-r.Due)
		b = binary.AppendUvarint(b, uint64(r.Took))
	}
	if len(e.labels.list) > 0 {
		b = binary.AppendUvarint(b, uint64(len(r.Labels)))
		for _, label := range r.Labels {
			b = binary.AppendUvarint(b, e.labels.number(label))
		}
	}
	if isULID {
		return append(append(b, 0), id[:]...)
	}
	return appendText(b, r.Ref.ID)
}

// near is a time close to that at which the task with that id was created.
func near(id ulid.ULID, isULID bool, stateTime int64) int64 {
	if isULID {
		return int64(id.Time())
	}
	return stateTime
}

// parseULID returns the bytes of an id, if those alone tell it again.
func parseULID(id string) (ulid.ULID, bool) {
	u, err := ulid.ParseStrict(id)
	return u, err == nil && u.String() == id
}

// table numbers values in the order in which they come.
type table[T comparable] struct {
	list    []T
	numbers map[T]uint64
	newest  uint64 // the number that was given out last: most rows are like the one before
}

func (t *table[T]) number(value T) uint64 {
	if len(t.list) > 0 && t.list[t.newest] == value {
		return t.newest
	}
	n, known := t.numbers[value]
	if !known {
		if t.numbers == nil {
			t.numbers = map[T]uint64{}
		}
		n = uint64(len(t.list))
		t.list, t.numbers[value] = append(t.list, value), n
	}
	t.newest = n
	return n
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func appendTexts(b []byte, texts []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(texts)))
	for _, text := range texts {
		b = appendText(b, text)
	}
	return b
}

// appendGroups writes the texts of all groups, and of each group the numbers of its texts.
func appendGroups(b []byte, groups []Group) []byte {
	var texts table[string]
	for _, g := range groups {
		for _, text := range g.fields() {
			texts.number(*text)
		}
	}
	b = appendTexts(b, texts.list)
	b = binary.AppendUvarint(b, uint64(len(groups)))
	for _, g := range groups {
		for _, text := range g.fields() {
			b = binary.AppendUvarint(b, texts.number(*text))
		}
	}
	return b
}
