package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/dts-sched/dts/internal/task"
)

// ErrUnreadable is returned for a part of the index that this release cannot read.
var ErrUnreadable = errors.New("the index of lists cannot be read")

// Rows returns the rows of a block that match the filter, by stateTime, the latest first. It ends with ErrUnreadable
// where it cannot read on.
func Rows(text []byte, f Filter) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		b, err := open(text)
		if err != nil {
			yield(Row{}, err)
			return
		}
		wanted, labels := b.wanted(f)
		for range b.rows {
			r, matches := b.next(wanted, labels, f)
			if b.bad {
				yield(Row{}, fmt.Errorf("%w: it does not have the length that it tells", ErrUnreadable))
				return
			}
			if matches && !yield(r, nil) {
				return
			}
		}
	}
}

// block reads one from the beginning to the end.
type block struct {
	reader
	waits   bool
	groups  []Group
	labels  []string
	created int64 // the first one
	rows    int
	last    int64 // the stateTime of the row before
	row     []int // the numbers of the labels of the present row
}

func open(text []byte) (*block, error) {
	if len(text) < 2 || text[0] != version {
		return nil, fmt.Errorf("%w: it is not of version %d", ErrUnreadable, version)
	}
	b := &block{reader: reader{rest: text[2:]}, waits: text[1] == 1}
	b.groups = b.reader.groups()
	b.labels = b.texts()
	b.created = b.signed()
	b.rows = b.amount()
	if b.bad {
		return nil, fmt.Errorf("%w: its beginning is damaged", ErrUnreadable)
	}
	return b, nil
}

// wanted tells which groups match the filter, and the numbers of its labels. A label that no row has is -1.
func (b *block) wanted(f Filter) (groups []bool, labels []int) {
	groups = make([]bool, len(b.groups))
	for i, g := range b.groups {
		groups[i] = f.ofNamespace(g.Namespace) && f.ofKind(g.Kind)
	}
	for _, label := range f.Labels {
		labels = append(labels, slices.Index(b.labels, label))
	}
	return groups, labels
}

// next reads a row, and reports whether it matches.
func (b *block) next(wanted []bool, labels []int, f Filter) (r Row, matches bool) {
	head := b.number()
	n := head >> rowBits
	if n >= uint64(len(b.groups)) {
		b.fail()
		return Row{}, false
	}
	b.last += b.signed()
	r.Created = b.created + int64(b.number())
	r.Due = b.last
	if !b.waits {
		r.Ended = b.last
		r.Due = r.Ended - b.signed()
		r.Took = int64(b.number())
	}
	if b.row = b.row[:0]; head&rowLabelled != 0 {
		b.readLabels()
	}
	id := b.id(head&rowULID != 0)
	matches = wanted[n] && b.hasLabels(labels)
	if !matches || b.bad {
		return Row{}, false
	}
	r.Ref = task.Ref{Namespace: b.groups[n].Namespace, ID: id.text(r.Created)}
	r.Kind = b.groups[n].Kind
	for _, n := range b.row {
		r.Labels = append(r.Labels, b.labels[n])
	}
	return r, f.ofTimes(r) && (f.Schedule == "" || r.schedule() == f.Schedule)
}

func (b *block) readLabels() {
	for range b.amount() {
		n := b.number()
		if n >= uint64(len(b.labels)) {
			b.fail()
			return
		}
		b.row = append(b.row, int(n))
	}
}

func (b *block) hasLabels(wanted []int) bool {
	for _, n := range wanted {
		if !slices.Contains(b.row, n) {
			return false
		}
	}
	return true
}

// packedID is an id as a row has it.
type packedID struct {
	bytes   []byte
	isULID  bool
	distant int64 // the time of a ULID, after that of the creation
}

func (b *block) id(isULID bool) packedID {
	if !isULID {
		return packedID{bytes: b.cut(b.amount())}
	}
	distant := b.signed()
	if len(b.rest) < ulidEntropy {
		b.fail()
		return packedID{}
	}
	return packedID{b.cut(ulidEntropy), true, distant}
}

// ulidEntropy is how many bytes of a ULID are not its time.
const ulidEntropy = 10

// text is the id of a task that was created at that time.
func (id packedID) text(created int64) string {
	if !id.isULID {
		return string(id.bytes)
	}
	var u ulid.ULID
	_ = u.SetTime(uint64(created + id.distant)) // a time that it does not take gives another id, which no task has
	_ = u.SetEntropy(id.bytes)
	return u.String()
}

// reader reads numbers and texts. Once it is bad, it returns zeros.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) signed() int64 {
	n, size := binary.Varint(r.rest)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// amount reads how many parts follow. Each has a byte at least.
func (r *reader) amount() int {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) cut(n int) []byte {
	part := r.rest[:n]
	r.rest = r.rest[n:]
	return part
}

func (r *reader) texts() []string {
	all := make([]string, r.amount())
	for i := range all {
		all[i] = string(r.cut(r.amount()))
	}
	return all
}

// groups reads what appendGroups has written.
func (r *reader) groups() []Group {
	texts := r.texts()
	n := r.amount()
	if n == 0 {
		return nil
	}
	groups := make([]Group, n)
	for i := range groups {
		for _, field := range groups[i].fields() {
			if n := r.number(); n < uint64(len(texts)) {
				*field = texts[n]
			} else {
				r.fail()
			}
		}
	}
	return groups
}

func (r *reader) fail() { r.bad, r.rest = true, nil }
