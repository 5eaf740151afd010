package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/oklog/ulid/v2"

	"github.com/dts-sched/dts/internal/task"
)

// ErrUnreadable is returned for a segment that this release cannot read.
var ErrUnreadable = errors.New("the index of lists cannot be read")

// Rows returns the rows of a segment that match the filter, by stateTime, the latest first. It ends with
// ErrUnreadable where it cannot read on.
func Rows(segment []byte, f Filter) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		s, err := open(segment)
		if err != nil {
			yield(Row{}, err)
			return
		}
		wanted, labels := s.wanted(f)
		for range s.rows {
			r, matches := s.next(wanted, labels, f)
			if s.bad {
				yield(Row{}, fmt.Errorf("%w: it does not have the length that it tells", ErrUnreadable))
				return
			}
			if matches && !yield(r, nil) {
				return
			}
		}
	}
}

// segment reads one from the beginning to the end.
type segment struct {
	reader
	waits  bool
	groups []Group
	labels []string
	rows   int
	last   int64 // the stateTime of the row before
	row    []int // the numbers of the labels of the present row
}

func open(b []byte) (*segment, error) {
	if len(b) < 2 || b[0] != version {
		return nil, fmt.Errorf("%w: it is not of version %d", ErrUnreadable, version)
	}
	s := &segment{reader: reader{rest: b[2:]}, waits: b[1] == 1}
	s.groups = s.reader.groups()
	s.labels = s.texts()
	s.rows = s.amount()
	if s.bad {
		return nil, fmt.Errorf("%w: its beginning is damaged", ErrUnreadable)
	}
	return s, nil
}

// wanted tells which groups match the filter, and the numbers of its labels. A label that no row has is -1.
func (s *segment) wanted(f Filter) (groups []bool, labels []int) {
	groups = make([]bool, len(s.groups))
	for i, g := range s.groups {
		groups[i] = f.ofNamespace(g.Namespace) && f.ofKind(g.Kind)
	}
	for _, label := range f.Labels {
		n := -1
		for i, known := range s.labels {
			if known == label {
				n = i
			}
		}
		labels = append(labels, n)
	}
	return groups, labels
}

// next reads a row, and reports whether it matches.
func (s *segment) next(wanted []bool, labels []int, f Filter) (r Row, matches bool) {
	s.last += s.signed()
	n := s.number()
	if n >= uint64(len(s.groups)) {
		s.fail()
		return Row{}, false
	}
	created := s.signed()
	r.Due = s.last
	if !s.waits {
		r.Ended = s.last
		r.Due = r.Ended - s.signed()
		r.Took = int64(s.number())
	}
	s.readLabels()
	id, u, isULID := s.id()
	matches = wanted[n] && s.hasLabels(labels)
	if !matches || s.bad {
		return Row{}, false
	}
	if isULID {
		id = u.String()
	}
	r.Ref = task.Ref{Namespace: s.groups[n].Namespace, ID: id}
	r.Kind = s.groups[n].Kind
	r.Created = near(u, isULID, s.last) - created
	for _, n := range s.row {
		r.Labels = append(r.Labels, s.labels[n])
	}
	return r, f.ofTimes(r) && (f.Schedule == "" || r.schedule() == f.Schedule)
}

func (s *segment) readLabels() {
	s.row = s.row[:0]
	if len(s.labels) == 0 {
		return
	}
	for range s.amount() {
		n := s.number()
		if n >= uint64(len(s.labels)) {
			s.fail()
			return
		}
		s.row = append(s.row, int(n))
	}
}

func (s *segment) hasLabels(wanted []int) bool {
	for _, w := range wanted {
		found := false
		for _, n := range s.row {
			found = found || n == w
		}
		if !found {
			return false
		}
	}
	return true
}

// id reads an id. That of a ULID is left in its bytes.
func (s *segment) id() (id string, u ulid.ULID, isULID bool) {
	n := s.amount()
	if n > 0 {
		return s.cut(n), u, false
	}
	if len(s.rest) < len(u) {
		s.fail()
		return "", u, false
	}
	copy(u[:], s.rest)
	s.rest = s.rest[len(u):]
	return "", u, true
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

func (r *reader) cut(n int) string {
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}

func (r *reader) texts() []string {
	all := make([]string, r.amount())
	for i := range all {
		all[i] = r.cut(r.amount())
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
