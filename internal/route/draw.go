package route

import "cmp"

// draw is a source of one number for each node. The number is the same whenever it is asked for, and does not depend on
// the other nodes.
type draw uint64

// The start and the factor of FNV-1a with 64 bits.
const (
	fnvStart  draw = 14695981039346656037
	fnvFactor draw = 1099511628211
)

// seeded returns the draw of a seed.
func seeded(seed uint64) draw { return draw(seed).mixed() }

// keyed returns the draw of a key. Equal keys have equal draws in all releases: else an upgrade moves them.
func keyed(key string) draw { return fnvStart.with(key).mixed() }

// with adds a text, by FNV-1a.
func (d draw) with(text string) draw {
	for i := range len(text) {
		d = (d ^ draw(text[i])) * fnvFactor
	}
	return d
}

// mixed lets each bit depend on all bits, as the end of SplitMix64 does.
func (d draw) mixed() draw {
	d = (d ^ d>>30) * 0xbf58476d1ce4e5b9
	d = (d ^ d>>27) * 0x94d049bb133111eb
	return d ^ d>>31
}

// first returns the node with the highest number of its name; nil if there is none. Nodes of one name are one place for
// keys, which they share by the number of their id.
func (d draw) first(nodes []*Candidate) *Candidate {
	var best *Candidate
	var most draw
	for _, c := range nodes {
		n := d.with(c.Name).mixed()
		if best == nil || n > most || n == most && d.with(c.ID).mixed() > d.with(best.ID).mixed() {
			best, most = c, n
		}
	}
	return best
}

// least returns the node for which a number is least. Among several, the draw decides.
func least[T cmp.Ordered](nodes []*Candidate, d draw, number func(*Candidate) T) *Candidate {
	var best []*Candidate
	var least T
	for _, c := range nodes {
		n := number(c)
		if len(best) > 0 && n > least {
			continue
		}
		if len(best) > 0 && n < least {
			best = best[:0]
		}
		best, least = append(best, c), n
	}
	return d.first(best)
}
