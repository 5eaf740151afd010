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
	Number int // of the segment; a later one has a greater number; 0 until it has one
	Rows   int
	Waits  bool // the tasks wait; else they have ended
	Ticks  bool // some of them are ticks of schedules
	Times
	Groups []Group // none if the segment has more than summaryGroups
	Blocks []BlockTimes
	// Checked is when the rows of tasks that were due were last compared with their tasks; 0: never.
	Checked int64
}

// Times are those of the rows of a segment, or of one of its blocks.
type Times struct {
	Created Range
	Due     Range
	Ended   Range
	Took    Range
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
	if s.Rows == 0 || !f.ofPhase(s.Waits) || !s.mayMatch(f, s.Waits) || f.Schedule != "" && !s.Ticks {
		return false
	}
	for i := range s.Groups {
		if f.ofGroup(&s.Groups[i]) {
			return true
		}
	}
	return s.Groups == nil
}

// share is the part of its groups whose rows can match; 0 if it does not name its groups.
func (s *Summary) share(f Filter) float64 {
	n := 0
	for i := range s.Groups {
		if f.ofGroup(&s.Groups[i]) {
			n++
		}
	}
	return float64(n) / float64(max(len(s.Groups), 1))
}

// mayMatch reports whether rows of these times can match. waits: their tasks wait.
func (t *Times) mayMatch(f Filter, waits bool) bool {
	return t.Created.meets(f.Created) && t.Due.meets(f.Due) && (f.Ended.isZero() || !waits && t.Ended.meets(f.Ended))
}

// stateTimes is the range of the stateTime of the rows.
func (s *Summary) stateTimes() *Range { return s.Times.stateTimes(s.Waits) }

func (t *Times) stateTimes(waits bool) *Range {
	if waits {
		return &t.Due
	}
	return &t.Ended
}

// Block is a part of a segment that is read by itself.
type Block struct {
	Segment     *Summary
	Place       int   // in the segment, from 0
	first, last int64 // the keys of the first and the last row that it can have, in the order of a search
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

// timesOf are the times of a block.
func (s *Summary) timesOf(place int) Times {
	t, last := s.Times, s.stateTimes().From
	if place+1 < len(s.Blocks) {
		last = s.Blocks[place+1].First
	}
	t.Created, t.Took = s.Blocks[place].Created, s.Blocks[place].Took
	*t.stateTimes(s.Waits) = Range{last, s.Blocks[place].First + 1}
	return t
}

// bounds are the keys of the first and the last row of these times, in an order. waits: their tasks wait.
func (o Order) bounds(t *Times, waits bool) (first, last int64) {
	of := t.Ended
	switch {
	case o.By == Created:
		of = t.Created
	case o.By == Ended:
	case o.By == Took:
		of = t.Took
	case o.By == Due || waits:
		of = t.Due
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
