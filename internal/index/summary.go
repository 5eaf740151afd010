package index

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"iter"
	"math"
)

// Summary is what is known of a segment without reading it.
type Summary struct {
	Number  int // of the segment; a later one has a greater number; 0 until it has one
	Rows    int
	Waits   bool // the tasks wait; else they have ended
	Created Range
	Due     Range
	Ended   Range
	Took    Range
	Groups  []Group // none if the segment has more than summaryGroups
}

// summaryGroups is how many groups a summary names at most.
const summaryGroups = 64

// Summarize returns the summary of what Encode packs.
func Summarize(rows []Row) Summary {
	s := Summary{Rows: len(rows), Waits: len(rows) > 0 && rows[0].Ended == 0}
	var groups table[Group]
	for i, r := range rows {
		for _, v := range []struct {
			of *Range
			ms int64
		}{{&s.Created, r.Created}, {&s.Due, r.Due}, {&s.Ended, r.Ended}, {&s.Took, r.Took}} {
			if i == 0 {
				*v.of = Range{v.ms, v.ms + 1}
			}
			*v.of = Range{min(v.of.From, v.ms), max(v.of.Until, v.ms+1)}
		}
		groups.number(Group{r.Ref.Namespace, r.Kind})
	}
	if len(groups.list) <= summaryGroups {
		s.Groups = groups.list
	}
	return s
}

// MayMatch reports whether the segment can have rows that match. It does not look at labels.
func (s Summary) MayMatch(f Filter) bool {
	if s.Rows == 0 || !s.Created.meets(f.Created) || !s.Due.meets(f.Due) {
		return false
	}
	if !f.Ended.isZero() && (s.Waits || !s.Ended.meets(f.Ended)) {
		return false
	}
	for _, g := range s.Groups {
		if f.ofNamespace(g.Namespace) && f.ofKind(g.Kind) {
			return true
		}
	}
	return s.Groups == nil
}

// bounds are the keys of the first and the last row that the segment can have, in an order.
func (o Order) bounds(s Summary) (first, last int64) {
	of := s.Ended
	switch {
	case o.By == Created:
		of = s.Created
	case o.By == Ended:
	case o.By == Took:
		of = s.Took
	case o.By == Due || s.Waits:
		of = s.Due
	}
	if o.Asc {
		return -of.From, -(of.Until - 1)
	}
	return of.Until - 1, of.From
}

// Encode returns the summary without its number.
func (s Summary) Encode() []byte {
	b := []byte{version, 0}
	if s.Waits {
		b[1] = 1
	}
	b = binary.AppendUvarint(b, uint64(s.Rows))
	for _, r := range []Range{s.Created, s.Due, s.Ended, s.Took} {
		b = binary.AppendVarint(b, r.From)
		b = binary.AppendVarint(b, r.Until-r.From)
	}
	return appendGroups(b, s.Groups)
}

// DecodeSummary reads what Encode has written. Error: ErrUnreadable.
func DecodeSummary(number int, b []byte) (Summary, error) {
	if len(b) < 2 || b[0] != version {
		return Summary{}, fmt.Errorf("%w: the summary is not of version %d", ErrUnreadable, version)
	}
	r := reader{rest: b[2:]}
	s := Summary{Number: number, Waits: b[1] == 1}
	s.Rows = int(min(r.number(), math.MaxInt32))
	for _, of := range []*Range{&s.Created, &s.Due, &s.Ended, &s.Took} {
		of.From = r.signed()
		of.Until = of.From + r.signed()
	}
	s.Groups = r.groups()
	if r.bad || len(r.rest) > 0 {
		return Summary{}, fmt.Errorf("%w: a summary is damaged", ErrUnreadable)
	}
	return s, nil
}

// A set of labels has bitsPerLabel bits for each label, of which each sets labelHashes: one label of a hundred that are
// not in it seems to be.
const (
	bitsPerLabel = 10
	labelHashes  = 7
)

// EncodeLabels returns which labels rows have, as HasLabels reads it; nil if they have none.
func EncodeLabels(rows []Row) []byte {
	var labels table[string]
	for _, r := range rows {
		for _, label := range r.Labels {
			labels.number(label)
		}
	}
	if len(labels.list) == 0 {
		return nil
	}
	set := make([]byte, (len(labels.list)*bitsPerLabel+7)/8)
	for _, label := range labels.list {
		for bit := range bitsOf(label, len(set)) {
			set[bit/8] |= 1 << (bit % 8)
		}
	}
	return set
}

// HasLabels reports whether rows with that set of labels can have all of those.
func HasLabels(set []byte, labels []string) bool {
	for _, label := range labels {
		if len(set) == 0 {
			return false
		}
		for bit := range bitsOf(label, len(set)) {
			if set[bit/8]&(1<<(bit%8)) == 0 {
				return false
			}
		}
	}
	return true
}

// bitsOf yields the bits of a label in a set of so many bytes.
func bitsOf(label string, size int) iter.Seq[uint64] {
	h := fnv.New64a()
	_, _ = h.Write([]byte(label)) // it takes everything
	sum := h.Sum64()
	first, step := sum>>32, sum&math.MaxUint32|1
	return func(yield func(uint64) bool) {
		for i := range uint64(labelHashes) {
			if !yield((first + i*step) % uint64(8*size)) {
				return
			}
		}
	}
}
