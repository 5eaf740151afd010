package limit_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/limit"
)

// land is some partitions with tasks, and the homes of their limits. Its scripts do what those in Lua do.
type land struct {
	t     *testing.T
	r     *rand.Rand
	now   time.Time
	rules *limit.Table
	slots map[string]int
	homes map[string]map[int]use
	parts []*part
	loss  int // percent of the calls whose reply is lost; as many are never made
	count int // calls that were made
}

// use is what a home knows of a partition.
type use struct {
	version, count int
	since, asked   time.Time
}

// part is a partition and its leader.
type part struct {
	book    *limit.Book
	newest  int
	caps    map[string]limit.Cap
	waiting map[string]int // by lane: the limits, with commas between
	live    []string       // lanes of the tasks that hold slots
	blocked map[string]time.Time
}

// lanes are the limits of tasks: each has a key of its own, and all share one.
var lanes = map[string][]string{
	"key:a,all": {"key:a", "all"}, "key:b,all": {"key:b", "all"}, "key:c,type:t,all": {"key:c", "type:t", "all"},
	"all": {"all"},
}

func newLand(t *testing.T, seed uint64) *land {
	r := rand.New(rand.NewPCG(seed, 1))
	l := &land{
		t: t, r: r, now: time.Unix(1_000_000, 0), slots: make(map[string]int), homes: make(map[string]map[int]use),
	}
	rules := make(limit.Rules)
	for text, most := range map[string]int{"key:a": 3, "key:b": 2, "key:c": 4, "type:t": 3, "all": 6} {
		l.slots[text] = 1 + r.IntN(most)
		rules[name(t, text)] = limit.Rule{Slots: l.slots[text]}
		l.homes[text] = make(map[int]use)
	}
	l.rules = limit.NewTable(rules)
	for range 1 + r.IntN(5) {
		p := &part{
			book: limit.NewBook(), caps: make(map[string]limit.Cap), waiting: make(map[string]int),
			blocked: make(map[string]time.Time),
		}
		for lane := range lanes {
			p.waiting[lane] = r.IntN(20)
		}
		l.parts = append(l.parts, p)
	}
	return l
}

// held counts the slots of a limit that are held in a partition.
func (p *part) held(limit string) (n int) {
	for _, lane := range p.live {
		if slices.Contains(lanes[lane], limit) {
			n++
		}
	}
	return n
}

func (p *part) needs() (needs []limit.Need) {
	for _, lane := range slices.Sorted(maps.Keys(lanes)) {
		if p.waiting[lane] > 0 {
			needs = append(needs, limit.Need{Limits: lanes[lane], Waiting: p.waiting[lane]})
		}
	}
	return needs
}

// lost decides what becomes of a call: it is not made, or its reply is lost.
func (l *land) lost() (made, replied bool) {
	l.count++
	made = l.r.IntN(100) >= l.loss
	return made, made && l.r.IntN(100) >= l.loss
}

func (l *land) recount(p *part, recounts []limit.Recount) {
	made, replied := l.lost()
	var caps []limit.Cap
	for _, r := range recounts {
		if !made {
			break
		}
		known, held := p.caps[r.Limit], p.held(r.Limit)
		if r.Known == known.Version && held == 0 && known.Version > 0 {
			delete(p.caps, r.Limit)
			caps = append(caps, limit.Cap{Limit: r.Limit})
			continue
		}
		p.newest = max(p.newest, r.Least, known.Version) + 1
		p.caps[r.Limit] = limit.Cap{Limit: r.Limit, Version: p.newest, Cap: held, Holders: held}
		caps = append(caps, p.caps[r.Limit])
	}
	if replied {
		p.book.Counted(caps, l.now)
	}
}

func (l *land) settle(number int, a limit.Ask) {
	made, replied := l.lost()
	var answer limit.Answer
	if made {
		answer = l.grant(number, a)
	}
	if replied {
		l.parts[number].book.Answered(a, answer, l.now)
	} else {
		l.parts[number].book.Failed(a, l.now)
	}
}

func (l *land) grant(number int, a limit.Ask) limit.Answer {
	uses := l.homes[a.Limit]
	own := uses[number]
	if a.Version < own.version {
		return limit.Answer{Newer: own.version}
	}
	others, before, waiting := 0, 0, 0
	for n, u := range uses {
		if n == number {
			continue
		}
		others += u.count
		if !u.since.IsZero() && l.now.Sub(u.asked) <= 3*time.Second {
			waiting++
			if own.since.IsZero() || cmp.Or(u.since.Compare(own.since), cmp.Compare(n, number)) < 0 {
				before++
			}
		}
	}
	was := own
	free := max(0, a.Rule.Slots-others-a.Have-before)
	count := a.Have + min(a.Want, free)
	if a.Version == own.version {
		count = max(count, own.count)
	}
	own = use{version: a.Version, count: count, since: own.since, asked: l.now}
	if count >= a.Have+a.Want {
		own.since = time.Time{}
	} else if own.since.IsZero() || count > a.Have {
		own.since = l.now
	}
	uses[number] = own
	for n, u := range uses {
		isWoken := count < was.count && !u.since.IsZero() || was.since.IsZero() && !own.since.IsZero() && u.count > 0
		if n != number && isWoken && l.r.IntN(100) >= l.loss {
			l.parts[n].book.Wake(a.Limit)
		}
	}
	return limit.Answer{Count: count, Wanted: others+count > a.Rule.Slots || waiting > 0}
}

// claim has a leader claim one task of each lane that has room.
func (l *land) claim(p *part) {
	needs := p.needs()
	grants := p.book.Grants(needs, l.rules, l.now)
	room := make(map[string]bool)
	for _, n := range needs {
		room[fmt.Sprint(n.Limits)] = p.book.Room(n.Limits, l.rules, l.now) > 0
	}
	made, replied := l.lost()
	var caps []limit.Cap
	if made {
		caps = l.take(p, grants, room)
	}
	if replied {
		p.book.Claimed(caps, l.now)
	} else {
		p.book.ClaimFailed(grants)
	}
}

func (l *land) take(p *part, grants []limit.Grant, room map[string]bool) (caps []limit.Cap) {
	given := make(map[string]bool)
	for _, g := range grants {
		given[g.Limit] = true
		c := p.caps[g.Limit]
		if c.Version == g.Version && g.Count > c.Cap {
			p.newest++
			p.caps[g.Limit] = limit.Cap{Limit: g.Limit, Version: p.newest, Cap: g.Count}
		}
	}
	for _, lane := range slices.Sorted(maps.Keys(lanes)) {
		free := room[fmt.Sprint(lanes[lane])] && p.waiting[lane] > 0
		for _, name := range lanes[lane] {
			free = free && given[name] && p.held(name) < p.caps[name].Cap
		}
		if free {
			p.waiting[lane]--
			p.live = append(p.live, lane)
		}
	}
	for _, g := range grants {
		c := p.caps[g.Limit]
		c.Limit, c.Holders = g.Limit, p.held(g.Limit)
		caps = append(caps, c)
	}
	return caps
}

// step has the leader of a partition do what it does in one round.
func (l *land) step(number int) {
	p := l.parts[number]
	if l.loss > 0 && l.r.IntN(100) == 0 { // another leader
		p.book = limit.NewBook()
	}
	if p.book.MustRead() {
		p.book.Read(slices.Collect(maps.Keys(p.caps)))
	}
	for range 8 {
		recounts, asks := p.book.Calls(p.needs(), l.rules, l.now)
		if len(recounts) > 0 {
			l.recount(p, recounts)
			continue
		}
		for _, a := range asks {
			l.settle(number, a)
		}
		if len(asks) == 0 {
			break
		}
	}
	for _, n := range p.needs() {
		if p.book.Room(n.Limits, l.rules, l.now) > 0 {
			l.claim(p)
			break
		}
	}
}

// end ends a task of a partition, if one is live.
func (l *land) end(p *part) {
	if len(p.live) == 0 {
		return
	}
	i := l.r.IntN(len(p.live))
	lane := p.live[i]
	p.live = slices.Delete(p.live, i, i+1)
	if l.r.IntN(100) < l.loss {
		return
	}
	for _, name := range lanes[lane] {
		p.book.Freed(name, 1)
	}
}

// check fails if a limit is exceeded.
func (l *land) check(seed uint64) {
	l.t.Helper()
	for name, slots := range l.slots {
		held := 0
		for _, p := range l.parts {
			held += p.held(name)
		}
		if held > slots {
			l.t.Fatalf("seed %d: %d tasks hold slots of %s, which has %d", seed, held, name, slots)
		}
	}
}

// left counts the tasks that wait.
func (l *land) left() (n int) {
	for _, p := range l.parts {
		for _, waiting := range p.waiting {
			n += waiting
		}
	}
	return n
}

// Calls and replies are lost, messages too, and leaders change. No limit is exceeded, and then all tasks come to an
// end.
func TestBook_KeepsLimitsAndFinishes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		l := newLand(t, seed)
		for l.loss = int(seed % 4 * 10); l.now.Before(time.Unix(1_000_020, 0)) && l.loss > 0; {
			l.now = l.now.Add(time.Duration(l.r.IntN(100)) * time.Millisecond)
			l.step(l.r.IntN(len(l.parts)))
			if l.r.IntN(4) == 0 {
				l.end(l.parts[l.r.IntN(len(l.parts))])
			}
			l.check(seed)
		}
		l.loss = 0
		for _, p := range l.parts { // as after a message that was lost
			p.book.Forget()
		}
		for begin := l.now; l.left() > 0; {
			l.now = l.now.Add(10 * time.Millisecond)
			for n := range l.parts {
				l.step(n)
			}
			l.check(seed)
			l.end(l.parts[l.r.IntN(len(l.parts))])
			if l.now.Sub(begin) > time.Minute {
				t.Fatalf("seed %d: after a minute, %d tasks wait", seed, l.left())
			}
		}
	}
}

// A slot that is free goes to a task that waits for it within a moment, also in another partition.
func TestBook_LeavesNoSlotFree(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		l := newLand(t, seed)
		for range 300 {
			l.now = l.now.Add(10 * time.Millisecond)
			for n := range l.parts {
				l.step(n)
			}
			l.checkFree(seed)
			if l.r.IntN(3) == 0 {
				l.end(l.parts[l.r.IntN(len(l.parts))])
			}
		}
	}
}

// checkFree fails if a lane has waited for longer than a second while all of its limits had slots.
func (l *land) checkFree(seed uint64) {
	l.t.Helper()
	for n, p := range l.parts {
		for lane, limits := range lanes {
			free := p.waiting[lane] > 0
			for _, name := range limits {
				held := 0
				for _, other := range l.parts {
					held += other.held(name)
				}
				free = free && held < l.slots[name]
			}
			switch since := p.blocked[lane]; {
			case !free:
				delete(p.blocked, lane)
			case since.IsZero():
				p.blocked[lane] = l.now
			case l.now.Sub(since) > 1500*time.Millisecond:
				l.t.Fatalf("seed %d: tasks of %s have waited in partition %d for %s while there were slots",
					seed, lane, n, l.now.Sub(since))
			}
		}
	}
}

// What nobody needs is given back and forgotten, and then costs no call.
func TestBook_ForgetsWhatNobodyNeeds(t *testing.T) {
	t.Parallel()
	l := newLand(t, 1)
	for l.left() > 0 || slices.ContainsFunc(l.parts, func(p *part) bool { return len(p.live) > 0 }) {
		l.now = l.now.Add(10 * time.Millisecond)
		for n, p := range l.parts {
			l.step(n)
			l.end(p)
		}
	}
	for range 60 {
		l.now = l.now.Add(time.Second)
		for n := range l.parts {
			l.step(n)
		}
	}
	calls := l.count
	for range 30 {
		l.now = l.now.Add(time.Second)
		for n := range l.parts {
			l.step(n)
		}
	}
	if l.count != calls {
		t.Errorf("%d calls were made while no task waited or held a slot", l.count-calls)
	}
	for n, p := range l.parts {
		if len(p.caps) > 0 {
			t.Errorf("partition %d has the caps %v", n, p.caps)
		}
	}
}

// While all partitions have tasks without end, each gets its part of a single slot.
func TestBook_ServesEachPartition(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		l := newLand(t, seed)
		l.rules = limit.NewTable(limit.Rules{name(t, "all"): {Slots: 1}})
		ended := make([]int, len(l.parts))
		for range 2000 {
			l.now = l.now.Add(10 * time.Millisecond)
			for n, p := range l.parts {
				p.waiting = map[string]int{"all": 5}
				l.step(n)
				ended[n] += len(p.live)
				l.end(p)
			}
		}
		all := 0
		for _, n := range ended {
			all += n
		}
		for n, of := range ended {
			if 2*len(ended)*of < all || all < 500 {
				t.Errorf("seed %d: %d of %d tasks are of partition %d, one of %d", seed, of, all, n, len(ended))
			}
		}
	}
}

// Leaders hear of a free slot while they are asking for it: the answer may be older than that.
func TestBook_AsksAgainIfItIsWokenBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	rules := limit.NewTable(limit.Rules{name(t, "key:a"): {Slots: 1}})
	needs := []limit.Need{{Limits: []string{"key:a"}, Waiting: 1}}
	now := time.Unix(1_000_000, 0)
	ask := func(b *limit.Book) limit.Ask {
		t.Helper()
		_, asks := b.Calls(needs, rules, now)
		if len(asks) != 1 {
			t.Fatalf("it asks %v, want one question", asks)
		}
		return asks[0]
	}
	b := limit.NewBook()
	b.Read(nil)
	recounts, _ := b.Calls(needs, rules, now)
	b.Counted([]limit.Cap{{Limit: recounts[0].Limit, Version: 1}}, now)
	a := ask(b)
	b.Wake("key:a")
	b.Answered(a, limit.Answer{Wanted: true}, now)
	a = ask(b)
	b.Answered(a, limit.Answer{Wanted: true}, now)
	if _, asks := b.Calls(needs, rules, now); len(asks) > 0 {
		t.Errorf("it asks %v, and nobody has woken it", asks)
	}
}

func TestBook_AsksWhileItStandsInNoLine(t *testing.T) {
	t.Parallel()
	rules := limit.NewTable(limit.Rules{name(t, "key:a"): {Slots: 1}, name(t, "all"): {Slots: 1}})
	limits := []string{"key:a", "all"}
	now := time.Unix(1_000_000, 0)
	b := limit.NewBook()
	b.Read(nil)
	// settled carries out all calls. The home of key:a grants all, and that of all nothing.
	settled := func(waiting int) {
		needs := []limit.Need{{Limits: limits, Waiting: waiting}}
		for range 5 {
			recounts, asks := b.Calls(needs, rules, now)
			for i, r := range recounts {
				b.Counted([]limit.Cap{{Limit: r.Limit, Version: r.Least + i + 1}}, now)
			}
			for _, a := range asks {
				answer := limit.Answer{Wanted: true}
				if a.Limit == "key:a" {
					answer.Count = a.Have + a.Want
				}
				b.Answered(a, answer, now)
			}
		}
	}
	for _, waiting := range []int{1, 0, 1} { // it leaves the line when its queue has no room, and comes back
		settled(waiting)
		if got, want := b.Asks(limits, rules, now), waiting == 0; got != want {
			t.Errorf("with %d tasks for which there is room, it has something to ask: %t", waiting, got)
		}
		b.Wake("all")
	}
}
