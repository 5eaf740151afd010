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
	Ticks   bool // some of them are ticks of schedules
	Created Range
	Due     Range
	Ended   Range
	Took    Range
	Groups  []Group // none if the segment has more than summaryGroups
	Blocks  []BlockTimes
	// Checked is when the rows of tasks that were due were last compared with their tasks; 0: never.
	Checked int64
}

// BlockTimes are the times of the rows of a block.
type BlockTimes struct {
	First   int64 // stateTime of the first row
	Created Range
	Took    Range
}

// summaryGroups is how many groups a summary names at most.
const summaryGroups = 64

// summarize returns the summary of rows, without blocks.
func summarize(rows []Row) Summary {
	s := Summary{Rows: len(rows), Waits: len(rows) > 0 && rows[0].Ended == 0}
	var groups table[Group]
	for i, r := range rows {
		s.Created.include(i == 0, r.Created)
		s.Due.include(i == 0, r.Due)
		s.Ended.include(i == 0, r.Ended)
		s.Took.include(i == 0, r.Took)
		s.Ticks = s.Ticks || r.schedule() != ""
		groups.number(Group{r.Ref.Namespace, r.Kind})
	}
	if len(groups.list) <= summaryGroups {
		s.Groups = groups.list
	}
	return s
}

// MayMatch reports whether the segment can have rows that match. It does not look at labels.
func (s *Summary) MayMatch(f Filter) bool {
	if s.Rows == 0 || !s.Created.meets(f.Created) || !s.Due.meets(f.Due) {
		return false
	}
	if !f.Ended.isZero() && (s.Waits || !s.Ended.meets(f.Ended)) || f.OnlyEnded && s.Waits {
		return false
	}
	if f.Schedule != "" && !s.Ticks {
		return false
	}
	for _, g := range s.Groups {
		if f.ofNamespace(g.Namespace) && f.ofKind(g.Kind) {
			return true
		}
	}
	return s.Groups == nil
}

// stateTimes is the range of the stateTime of the rows.
func (s *Summary) stateTimes() *Range {
	if s.Waits {
		return &s.Due
	}
	return &s.Ended
}

// Block is a part of a segment that is read by itself.
type Block struct {
	Summary     // of the segment, but with the times of the block
	Place   int // in the segment, from 0
}

// overdue is about how many of the rows are of tasks that were due before now, and that were not checked since. Most of
// these tasks have run.
func (s *Summary) overdue(now int64) int {
	past := 0
	for _, block := range s.Blocks {
		if s.Waits && block.First < now && block.First >= s.Checked {
			past++
		}
	}
	return past * s.Rows / max(len(s.Blocks), 1)
}

// blocks returns the blocks of segments.
func blocks(segments []Summary) []*Block {
	all := make([]*Block, 0, len(segments)*SegmentBlocks)
	for _, s := range segments {
		for i, times := range s.Blocks {
			b, last := &Block{s, i}, s.stateTimes().From
			if i+1 < len(s.Blocks) {
				last = s.Blocks[i+1].First
			}
			b.Created, b.Took = times.Created, times.Took
			*b.stateTimes() = Range{last, times.First + 1}
			all = append(all, b)
		}
	}
	return all
}

// bounds are the keys of the first and the last row that the segment can have, in an order.
func (o Order) bounds(s *Summary) (first, last int64) {
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

// What the bits of the second byte of a summary say.
const (
	summaryWaits = 1 << iota
	summaryTicks
)

// Encode returns the summary without its number.
func (s Summary) Encode() []byte {
	b := []byte{version, 0}
	if s.Waits {
		b[1] |= summaryWaits
	}
	if s.Ticks {
		b[1] |= summaryTicks
	}
	b = binary.AppendUvarint(b, uint64(s.Rows))
	for _, r := range []Range{s.Created, s.Due, s.Ended, s.Took} {
		b = binary.AppendVarint(b, r.From)
		b = binary.AppendVarint(b, r.Until-r.From)
	}
	b = appendGroups(b, s.Groups)
	b = binary.AppendUvarint(b, uint64(len(s.Blocks)))
	for _, block := range s.Blocks {
		b = binary.AppendUvarint(b, uint64(block.First-s.stateTimes().From))
		b = appendRange(b, block.Created, s.Created)
		b = appendRange(b, block.Took, s.Took)
	}
	return binary.AppendUvarint(b, uint64(s.Checked))
}

// DecodeSummary reads what Encode has written. Error: ErrUnreadable.
func DecodeSummary(number int, b []byte) (Summary, error) {
	if len(b) < 2 || b[0] != version {
		return Summary{}, fmt.Errorf("%w: the summary is not of version %d", ErrUnreadable, version)
	}
	r := reader{rest: b[2:]}
	s := Summary{Number: number, Waits: b[1]&summaryWaits != 0, Ticks: b[1]&summaryTicks != 0}
	s.Rows = int(min(r.number(), math.MaxInt32))
	for _, of := range []*Range{&s.Created, &s.Due, &s.Ended, &s.Took} {
		of.From = r.signed()
		of.Until = of.From + r.signed()
	}
	s.Groups = r.groups()
	s.Blocks = make([]BlockTimes, r.amount())
	for i := range s.Blocks {
		s.Blocks[i].First = s.stateTimes().From + int64(r.number())
		s.Blocks[i].Created = r.rangeIn(s.Created)
		s.Blocks[i].Took = r.rangeIn(s.Took)
	}
	s.Checked = int64(r.number())
	if r.bad || len(r.rest) > 0 {
		return Summary{}, fmt.Errorf("%w: a summary is damaged", ErrUnreadable)
	}
	return s, nil
}

// appendRange writes a range that is within another one.
func appendRange(b []byte, r, within Range) []byte {
	b = binary.AppendUvarint(b, uint64(r.From-within.From))
	return binary.AppendUvarint(b, uint64(r.Until-r.From))
}

// rangeIn reads what appendRange has written.
func (r *reader) rangeIn(within Range) Range {
	from := within.From + int64(r.number())
	return Range{from, from + int64(r.number())}
}

// A set of labels has bitsPerLabel bits for each label, and each label sets labelHashes bits. For one of a hundred
// labels that are not in the set, it says that they may be.
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
