package index

import (
	"encoding/binary"
	"iter"
	"slices"

	"github.com/oklog/ulid/v2"
)

// version is the first byte of what is encoded. A release leaves a greater one to newer releases.
const version = 1

// The size of a segment, and of its blocks, which can be read one by one. Bytes are about those of the rows: rows with
// long labels make smaller ones.
const (
	SegmentRows   = 4096
	SegmentBlocks = 16 // more than blocks of either size fill
	segmentBytes  = 256 << 10
	blockRows     = 512
	blockBytes    = 64 << 10
)

// Segments cuts sorted rows into parts, each of which makes a segment.
func Segments(rows []Row) iter.Seq[[]Row] { return cut(rows, SegmentRows, segmentBytes) }

// cut cuts rows into parts of so many rows and bytes at most.
func cut(rows []Row, most, size int) iter.Seq[[]Row] {
	return func(yield func([]Row) bool) {
		begin, used := 0, 0
		for i, r := range rows {
			weight := rowBytes + len(r.Ref.ID)
			for _, label := range r.Labels {
				weight += len(label)
			}
			if i > begin && (i-begin == most || used+weight > size) {
				if !yield(rows[begin:i]) {
					return
				}
				begin, used = i, 0
			}
			used += weight
		}
		if begin < len(rows) {
			yield(rows[begin:])
		}
	}
}

// rowBytes is about what a row takes besides its id and its labels.
const rowBytes = 16

// Pack packs rows into a segment: its summary and its blocks. Either all of them wait, or all have ended. They are one
// part of Segments.
func Pack(rows []Row) (summary Summary, blocks [][]byte) {
	if !slices.IsSortedFunc(rows, Order{}.Compare) {
		rows = slices.Clone(rows)
		slices.SortStableFunc(rows, Order{}.Compare)
	}
	summary = summarize(rows)
	for some := range cut(rows, blockRows, blockBytes) {
		summary.Blocks = append(summary.Blocks, timesOf(some))
		blocks = append(blocks, encode(some))
	}
	return summary, blocks
}

func timesOf(block []Row) BlockTimes {
	times := BlockTimes{First: block[0].stateTime()}
	for i, r := range block {
		times.Created.include(i == 0, r.Created)
		times.Took.include(i == 0, r.Took)
	}
	return times
}

// Group is what a block says once for all rows that have it in common.
type Group struct {
	Namespace string
	Kind
}

// encode packs sorted rows into a block. Rows of one task stay apart.
//
// The form is the version, whether the rows wait, the texts, the groups, the labels, the first time of creation, and
// the rows, by stateTime, the latest first. Numbers are varints, and texts have their length before them. A row has its
// group with two bits that say what it has; the distance of its stateTime from that of the row before; the distance of
// its creation from the first one; the distance of its due time and its duration if it has ended; its labels if it has
// some; and its id. Of a ULID that is the distance of its time from that of the creation, and its last ten bytes.
func encode(rows []Row) []byte {
	e := newEncoder(rows)
	b := []byte{version, 0}
	if len(rows) > 0 && rows[0].Ended == 0 {
		e.waits, b[1] = true, 1
	}
	b = appendGroups(b, e.groups.list)
	b = appendTexts(b, e.labels.list)
	b = binary.AppendVarint(b, e.created)
	b = binary.AppendUvarint(b, uint64(len(rows)))
	for _, r := range rows {
		b = e.appendRow(b, r)
	}
	return b
}

// What the bits of the group of a row say.
const (
	rowLabelled = 1 << iota // it has labels
	rowULID                 // its id is a ULID
	rowBits     = iota
)

// fields are the texts of a group, in the order in which they are stored.
func (g *Group) fields() []*string {
	return []*string{&g.Namespace, (*string)(&g.State), &g.Queue, &g.Type, &g.Owner, &g.Node, &g.Cause}
}

// encoder numbers what rows have in common.
type encoder struct {
	waits   bool
	groups  table[Group]
	labels  table[string]
	created int64 // the first one
	last    int64 // the stateTime of the row before
}

func newEncoder(rows []Row) *encoder {
	e := &encoder{}
	for i, r := range rows {
		e.groups.number(Group{r.Ref.Namespace, r.Kind})
		for _, label := range r.Labels {
			e.labels.number(label)
		}
		if i == 0 || r.Created < e.created {
			e.created = r.Created
		}
	}
	return e
}

func (e *encoder) appendRow(b []byte, r Row) []byte {
	head := e.groups.number(Group{r.Ref.Namespace, r.Kind}) << rowBits
	id, isULID := parseULID(r.Ref.ID)
	if isULID {
		head |= rowULID
	}
	if len(r.Labels) > 0 {
		head |= rowLabelled
	}
	b = binary.AppendUvarint(b, head)
	b = binary.AppendVarint(b, r.stateTime()-e.last)
	e.last = r.stateTime()
	b = binary.AppendUvarint(b, uint64(r.Created-e.created))
	if !e.waits {
		b = binary.AppendVarint(b, r.Ended-r.Due)
		b = binary.AppendUvarint(b, uint64(r.Took))
	}
	if len(r.Labels) > 0 {
		b = binary.AppendUvarint(b, uint64(len(r.Labels)))
		for _, label := range r.Labels {
			b = binary.AppendUvarint(b, e.labels.number(label))
		}
	}
	if isULID {
		b = binary.AppendVarint(b, int64(id.Time())-r.Created)
		return append(b, id.Entropy()...)
	}
	return appendText(b, r.Ref.ID)
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
