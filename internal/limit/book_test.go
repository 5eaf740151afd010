package limit_test

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/limit"
)

// land is some partitions with tasks, and the homes of their limits. Its scripts do what those in Lua do.
type land struct {
	t       *testing.T
	r       *rand.Rand
	now     time.Time
	rules   *limit.Table
	slots   map[string]int
	homes   map[string]map[int]use
	buckets map[string]*limit.Bucket
	began   map[string][]time.Time // by limit with a rate: when tasks took tokens
	parts   []*part
	loss    int // percent of the calls whose reply is lost; as many are never made
	count   int // calls that were made
}

// use is what a home knows of a partition.
type use struct {
	version, count, least int
	since, asked          time.Time
	tokens, leastTokens   int
	waits, again          time.Time // since when it waits for tokens, and when it asks again
}

// part is a partition and its leader.
type part struct {
	book    *limit.Book
	newest  int
	caps    map[string]limit.Cap
	waiting map[string]int // by lane: the limits, with commas between
	live    []string       // lanes of the tasks that hold slots, in the order of their claims
	turns   []string       // the lanes, that first whose last task was claimed the longest time ago
	fresh   int            // tasks under the limit all that become due in each claim, and go away if it does not take them
	blocked map[string]time.Time
}

// lane is what tasks have in common that wait together.
type lane struct {
	limits []string
	cost   int
}

// lanes have a key of their own each, and share a limit with all others.
var lanes = map[string]lane{
	"key:a,all": {[]string{"key:a", "all"}, 1}, "3,key:b,all": {[]string{"key:b", "all"}, 3},
	"key:c,type:t,all": {[]string{"key:c", "type:t", "all"}, 1}, "2,type:t,all": {[]string{"type:t", "all"}, 2},
	"all": {[]string{"all"}, 1}, "9,all": {[]string{"all"}, 9},
}

func newLand(t *testing.T, seed uint64) *land {
	r := rand.New(rand.NewPCG(seed, 1))
	l := &land{
		t: t, r: r, now: time.Unix(1_000_000, 0), slots: make(map[string]int), homes: make(map[string]map[int]use),
		began: make(map[string][]time.Time), buckets: make(map[string]*limit.Bucket),
	}
	rules := make(limit.Rules)
	for text, most := range map[string]int{"key:a": 3, "key:b": 5, "key:c": 4, "type:t": 3, "all": 12} {
		l.slots[text] = 1 + r.IntN(most)
		rules[name(t, text)] = limit.Rule{Slots: l.slots[text]}
		l.homes[text], l.buckets[text] = make(map[int]use), new(limit.Bucket)
	}
	l.rules = limit.NewTable(rules)
	for range 1 + r.IntN(5) {
		p := &part{
			book: limit.NewBook(), caps: make(map[string]limit.Cap), waiting: make(map[string]int),
			blocked: make(map[string]time.Time),
		}
		p.turns = slices.Sorted(maps.Keys(lanes))
		for _, lane := range p.turns {
			p.waiting[lane] = r.IntN(20)
		}
		l.parts = append(l.parts, p)
	}
	return l
}

// held counts the slots of a limit that are held in a partition.
func (p *part) held(limit string) (n int) {
	for _, name := range p.live {
		if lane := lanes[name]; slices.Contains(lane.limits, limit) {
			n += lane.cost
		}
	}
	return n
}

// needs are what the lanes need, in their turn.
func (p *part) needs() (names []string, needs []limit.Need) {
	for _, name := range p.turns {
		if p.waiting[name] > 0 {
			names = append(names, name)
			needs = append(needs, limit.Need{Limits: lanes[name].limits, Cost: lanes[name].cost, Waiting: p.waiting[name]})
		}
	}
	return names, needs
}

// room returns the lanes that may claim a task now.
func (l *land) room(p *part) map[string]bool {
	room := make(map[string]bool)
	names, needs := p.needs()
	barred := p.book.Barred(needs, l.rules, l.now)
	for i, n := range needs {
		if barred[i] == nil && p.book.Room(n.Limits, n.Cost, l.rules, l.now) > 0 {
			room[names[i]] = true
		}
	}
	return room
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
		p.caps[r.Limit] = limit.Cap{Limit: r.Limit, Version: p.newest, Cap: held, Holders: held, Tokens: known.Tokens}
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
				before += u.least
			}
		}
	}
	was := own
	free := max(0, a.Rule.Slots-others-a.Have-before)
	if free < a.Least {
		free = 0
	}
	count := a.Have + min(a.Want, free)
	if a.Version == own.version {
		count = max(count, own.count)
	}
	own, next := l.takeTokens(number, a)
	own.version, own.count, own.least, own.asked = a.Version, count, max(a.Least, 1), l.now
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
	return limit.Answer{
		Count: count, Tokens: own.tokens, Wanted: others+count > a.Rule.Slots || waiting > 0, Next: next,
	}
}

// takeTokens takes tokens for a partition. It returns what the home knows of it then, and when there are further ones.
func (l *land) takeTokens(number int, a limit.Ask) (own use, next time.Duration) {
	own = l.homes[a.Limit][number]
	if a.Rule.Rate == 0 || a.Version == own.version && own.tokens > 0 {
		return own, 0
	}
	kept := 0
	for n, u := range l.homes[a.Limit] {
		waits := n != number && !u.waits.IsZero() && l.now.Sub(u.again) <= 3*time.Second
		if waits && (own.waits.IsZero() || cmp.Or(u.waits.Compare(own.waits), cmp.Compare(n, number)) < 0) {
			kept += u.leastTokens
		}
	}
	bucket, least := l.buckets[a.Limit], max(a.LeastTokens, 1)
	all := *bucket
	free, _ := all.Take(a.Rule, l.now, a.Rule.Tokens())
	took := max(0, min(a.Tokens, free-kept))
	took -= took % least
	bucket.Take(a.Rule, l.now, took)
	switch needed := min(least+kept, a.Rule.Tokens()); {
	case free-took < needed:
		next = bucket.When(a.Rule, needed).Sub(l.now)
	case took == 0 && a.Tokens > 0:
		next = 100 * time.Millisecond
	}
	own.tokens, own.leastTokens, own.again = took, least, l.now.Add(next)
	if took > 0 || a.Tokens == 0 {
		own.waits = time.Time{}
	} else if own.waits.IsZero() {
		own.waits = l.now
	}
	return own, next
}

// claim has a leader claim one task of each lane that has room.
func (l *land) claim(p *part) {
	_, needs := p.needs()
	grants := p.book.Grants(needs, l.rules, l.now)
	room := l.room(p)
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
		if c.Version == g.Version && (g.Count > c.Cap || g.Tokens > 0) {
			p.newest++
			p.caps[g.Limit] = limit.Cap{
				Limit: g.Limit, Version: p.newest, Cap: max(c.Cap, g.Count), Tokens: c.Tokens + max(g.Tokens, 0),
			}
		}
	}
	for _, lane := range slices.Clone(p.turns) {
		if room[lane] && p.waiting[lane] > 0 && l.start(p, lane, given) {
			p.waiting[lane]--
			p.turns = append(slices.DeleteFunc(p.turns, func(other string) bool { return other == lane }), lane)
		}
	}
	for range p.fresh {
		l.start(p, "all", given)
	}
	for _, g := range grants {
		c := p.caps[g.Limit]
		c.Limit, c.Holders = g.Limit, p.held(g.Limit)
		caps = append(caps, c)
	}
	return caps
}

// start lets a task of a lane take slots and tokens of limits that are given; false if there are too few.
func (l *land) start(p *part, name string, given map[string]bool) bool {
	lane := lanes[name]
	for _, name := range lane.limits {
		c := p.caps[name]
		rule, _ := l.rules.For(name)
		if !given[name] || p.held(name)+lane.cost > c.Cap || rule.Rate > 0 && c.Tokens < lane.cost {
			return false
		}
	}
	p.live = append(p.live, name)
	for _, name := range lane.limits {
		if rule, _ := l.rules.For(name); rule.Rate > 0 {
			c := p.caps[name]
			c.Tokens -= lane.cost
			p.caps[name], l.began[name] = c, append(l.began[name], slices.Repeat([]time.Time{l.now}, lane.cost)...)
		}
	}
	return true
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
		_, needs := p.needs()
		recounts, asks := p.book.Calls(needs, l.rules, l.now)
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
	if len(l.room(p)) > 0 || p.fresh > 0 {
		l.claim(p)
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
	for _, name := range lanes[lane].limits {
		p.book.Freed(name, lanes[lane].cost)
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

// left counts the tasks that wait, without those that need more slots than there are.
func (l *land) left() (n int) {
	for _, p := range l.parts {
		for name, waiting := range p.waiting {
			if !l.isTooDear(name) {
				n += waiting
			}
		}
	}
	return n
}

func (l *land) isTooDear(lane string) bool {
	return slices.ContainsFunc(lanes[lane].limits, func(name string) bool { return lanes[lane].cost > l.slots[name] })
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

// A slot that is free goes to a task that waits for it within a moment, also in another partition. No task needs more
// than one: slots are kept for such a task.
func TestBook_LeavesNoSlotFree(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		l := newLand(t, seed)
		for _, p := range l.parts {
			maps.DeleteFunc(p.waiting, func(name string, _ int) bool { return lanes[name].cost > 1 })
		}
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
		for lane, of := range lanes {
			free := p.waiting[lane] > 0
			for _, name := range of.limits {
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
		if got, want := b.MustJoinLine(limit.Need{Limits: limits}, rules, now), waiting == 0; got != want {
			t.Errorf("with %d tasks for which there is room, it has something to ask: %t", waiting, got)
		}
		b.Wake("all")
	}
}

// While all partitions have tasks of each cost without end, none of them waits for ever: neither for other partitions,
// nor for the tasks of its own one that need less.
func TestBook_ServesEachCost(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		l := newLand(t, seed)
		ended := make([]map[string]int, len(l.parts))
		for n := range ended {
			ended[n] = make(map[string]int)
		}
		for range 2000 {
			l.now = l.now.Add(10 * time.Millisecond)
			for n, p := range l.parts {
				for name := range lanes {
					p.waiting[name] = 5
				}
				l.step(n)
				l.check(seed)
				if l.r.IntN(2) == 0 && len(p.live) > 0 {
					before := slices.Clone(p.live)
					l.end(p)
					for i := range before {
						if i == len(p.live) || before[i] != p.live[i] {
							ended[n][before[i]]++
							break
						}
					}
				}
			}
		}
		for n := range ended {
			for name := range lanes {
				if !l.isTooDear(name) && ended[n][name] < 3 {
					t.Errorf("seed %d: only %d tasks of %s ended in partition %d of %d, with the slots %v: %v",
						seed, ended[n][name], name, n, len(l.parts), l.slots, ended[n])
				}
			}
		}
	}
}

// Slots that are too few for the first task are kept for it. Tasks that become due do not take them, even if nothing
// waits in their lane.
func TestBook_KeepsSlotsFromNewTasks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		l := newLand(t, seed)
		l.slots = map[string]int{"key:a": 9, "key:b": 9, "all": 4}
		l.rules = limit.NewTable(limit.Rules{
			name(t, "key:a"): {Slots: 9}, name(t, "key:b"): {Slots: 9}, name(t, "all"): {Slots: 4},
		})
		ended := 0
		for range 2000 {
			l.now = l.now.Add(10 * time.Millisecond)
			for _, p := range l.parts {
				p.waiting, p.fresh = map[string]int{"key:a,all": 5, "3,key:b,all": 5}, 2
			}
			for n, p := range l.parts {
				l.step(n)
				l.check(seed)
				before := p.held("key:b")
				if l.r.IntN(4) == 0 {
					l.end(p)
				}
				if p.held("key:b") < before {
					ended++
				}
			}
		}
		if ended < 20 {
			t.Errorf("seed %d: only %d tasks of the cost 3 ended in %d partitions", seed, ended, len(l.parts))
		}
	}
}

// ratedLand is a land in which the limit all has a rate of 60 a minute, a burst of 10, and so many slots.
func ratedLand(t *testing.T, seed uint64, slots int) *land {
	l := newLand(t, seed)
	l.slots = map[string]int{"all": max(slots, 1000)}
	if slots > 0 {
		l.slots["all"] = slots
	}
	l.rate(t, limit.Rule{Slots: slots, Rate: 60, Per: time.Minute, Burst: 10})
	return l
}

// rate sets the rule of the limit all. There are no others.
func (l *land) rate(t *testing.T, r limit.Rule) {
	l.rules = limit.NewTable(limit.Rules{name(t, "all"): r})
}

// pass lets time pass in which all partitions have tasks with the limit all, which end soon.
func (l *land) pass(d time.Duration) {
	for until := l.now.Add(d); l.now.Before(until); {
		l.now = l.now.Add(20 * time.Millisecond)
		for n, p := range l.parts {
			p.waiting = map[string]int{"all": 5}
			l.step(n)
			if l.r.IntN(10) == 0 {
				l.end(p)
			}
		}
	}
}

// Calls are lost and leaders change: no more tasks start than the rate and the burst allow. If none is lost, no fewer
// start either.
func TestBook_KeepsRates(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		l := ratedLand(t, seed, int(seed%3)*4)
		l.loss = int(seed % 2 * 20)
		l.pass(2 * time.Minute)
		began := len(l.began["all"])
		if most := 10 + 120; began > most || l.loss == 0 && began < most-2*5*len(l.parts) {
			t.Errorf("seed %d: %d tasks of %d partitions began in two minutes, want %d", seed, began, len(l.parts), most)
		}
	}
}

// While a limit is paused, no leader asks for tokens. So no more tasks start after the pause than after a rest.
func TestBook_TakesNoTokensDuringAPause(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		l := ratedLand(t, seed, 0)
		l.pass(time.Minute)
		rule, _ := l.rules.For("all")
		paused := rule
		paused.Paused = l.now.Add(time.Minute + time.Millisecond)
		l.rate(t, paused)
		before := len(l.began["all"])
		l.pass(time.Minute)
		if n := len(l.began["all"]) - before; n > 0 {
			t.Errorf("seed %d: %d tasks began in the pause", seed, n)
		}
		l.rate(t, rule)
		l.pass(2 * time.Second)
		if n := len(l.began["all"]) - before; n > 10+2+len(l.parts) || n < 10 {
			t.Errorf("seed %d: %d tasks of %d partitions began after the pause, want 10 and 2", seed, n, len(l.parts))
		}
	}
}

// A leader that has a free slot asks for a token. Though the same answer says that others want the slot, it keeps it: a
// new version would lose the token.
func TestBook_KeepsTheSlotOfAToken(t *testing.T) {
	t.Parallel()
	rules := limit.NewTable(limit.Rules{name(t, "key:a"): {Slots: 1, Rate: 1, Per: time.Hour}})
	needs := []limit.Need{{Limits: []string{"key:a"}, Waiting: 1}}
	now := time.Unix(1_000_000, 0)
	b := limit.NewBook()
	b.Read([]string{"key:a"})
	b.Counted([]limit.Cap{{Limit: "key:a", Version: 1, Cap: 1, Holders: 1}}, now)
	for _, answer := range []limit.Answer{{Count: 1}, {Count: 1, Tokens: 1, Wanted: true}} {
		_, asks := b.Calls(needs, rules, now)
		if len(asks) != 1 || asks[0].Tokens != answer.Tokens {
			t.Fatalf("it asks %+v", asks)
		}
		b.Answered(asks[0], answer, now)
		b.Freed("key:a", 1)
	}
	now = now.Add(20 * time.Second)
	if recounts, _ := b.Calls(needs, rules, now); len(recounts) > 0 {
		t.Errorf("it counts anew: %+v", recounts)
	}
	grants := b.Grants(needs, rules, now)
	if room := b.Room(needs[0].Limits, 1, rules, now); room != 1 || len(grants) != 1 || grants[0].Tokens != 1 {
		t.Errorf("%d tasks have room, and a claim may use %+v", room, grants)
	}
}
