package limit

import (
	"cmp"
	"slices"
	"time"
)

// Calls returns what to ask now: the partition first, whose replies are told to Counted, then homes, whose replies are
// told to Answered, or to Failed.
func (b *Book) Calls(needs []Need, rules *Table, now time.Time) (recounts []Recount, asks []Ask) {
	clear(b.freed)
	clear(b.woken)
	demands := b.demands(needs, rules, now)
	for limit, s := range b.due(demands, now) {
		d := demands[limit]
		rule, _ := rules.For(limit)
		if s.mustCount(d, now) {
			recounts = append(recounts, Recount{Limit: limit, Least: s.version, Known: s.known(d)})
		} else if ask := s.ask(limit, rule, d, now); s.mustAsk(ask, d, rule, now) {
			asks = append(asks, ask)
		} else if s.phase == ready {
			delete(b.open, limit)
		}
	}
	slices.SortFunc(recounts, func(a, b Recount) int { return cmp.Compare(a.Limit, b.Limit) })
	slices.SortFunc(asks, func(a, b Ask) int { return cmp.Compare(a.Limit, b.Limit) })
	return recounts, asks
}

// due returns the limits to look at: those for which tasks wait, those that are open, and, once in a while, all.
func (b *Book) due(demands map[string]demand, now time.Time) map[string]*share {
	due := make(map[string]*share, len(demands)+len(b.open))
	for limit := range demands {
		due[limit] = b.shares[limit]
	}
	for limit := range b.open {
		due[limit] = b.shares[limit]
	}
	if now.Sub(b.swept) < askPause {
		return due
	}
	b.swept = now
	return b.shares
}

// mustCount reports whether the leader counts who holds a slot: it gives back what is free, if no task waits or if
// others want it. What the home has granted it keeps while tasks wait that have room in the limits before, and
// for which it is enough.
func (s *share) mustCount(d demand, now time.Time) bool {
	isIdle := d.waiting == 0 && now.Sub(s.used) >= keepTime
	switch {
	case s.phase == mustCount || s.isOutdated(now):
		return true
	case s.phase == mustTell:
		return false
	case s.count <= s.holders:
		return isIdle && s.told
	case d.waiting == 0:
		return s.wanted || isIdle
	}
	return s.wanted && !(d.hasNext(s.count-s.holders) && s.isGranted())
}

// isGranted reports whether the home has granted slots in turn, or tokens, that no claim has used yet. It would not
// grant the same tokens again.
func (s *share) isGranted() bool { return s.count > s.cap || s.granted > 0 }

// isOutdated reports whether more tasks hold a slot than the cap says, or whether slots may be free and
// the word of that is lost, while this or another partition waits for some.
func (s *share) isOutdated(now time.Time) bool {
	isOld := (s.wanted || s.waits) && s.count > 0 && !s.isGranted() && now.Sub(s.counted) >= keepTime
	return s.phase == ready && (s.holders > s.cap || isOld)
}

// known returns the version for which the home knows that the partition needs nothing; -1 if it does not know that.
func (s *share) known(d demand) int {
	if s.told && d.waiting == 0 {
		return s.version
	}
	return -1
}

// ask returns what to ask the home. No tokens during a pause: leaders would have them all when it ends.
func (s *share) ask(limit string, r Rule, d demand, now time.Time) Ask {
	free := max(0, s.cap-s.holders)
	a := Ask{Limit: limit, Version: s.version, Have: s.cap, Want: max(0, d.want-free), Least: d.next(free), Rule: r}
	if r.Slots == 0 {
		a.Rule.Slots = unlimited
		a.Want = min(a.Want, 1) * unlimitedWant
	}
	if r.Rate > 0 && s.phase == ready && s.granted == 0 && !r.Paused.After(now) {
		a.Tokens = max(0, d.fit(max(0, s.count-s.holders))-s.tokens)
		a.LeastTokens = min(d.next(s.tokens), a.Tokens)
	}
	return a
}

// mustAsk reports whether to ask the home.
func (s *share) mustAsk(a Ask, d demand, r Rule, now time.Time) bool {
	lacks := d.want > max(0, s.count-s.holders)
	switch {
	case s.retry.After(now):
		return false
	case s.phase == mustTell, s.asked.IsZero():
		return true
	case r.Paused.After(now):
		return now.Sub(s.asked) >= keepTime
	case lacks && (!s.waits || now.Sub(s.asked) >= askPause):
		return true
	case a.Tokens > 0 && !s.tokenAt.After(now):
		return true
	case s.waitsForTokens && a.Tokens == 0 || s.waits && a.Want == 0: // the home keeps something for nobody
		return true
	}
	return s.count > 0 && now.Sub(s.asked) >= keepTime
}
