package limit

import (
	"cmp"
	"slices"
	"time"
)

const (
	// askPause is the time between two questions of a leader that waits for a slot. The home wakes it meanwhile.
	askPause = time.Second
	// keepTime is how long a slot is kept for which no task waits, unless other partitions want it; and the time between
	// two questions whether they do.
	keepTime = 10 * time.Second
	// tokenPause is the least time between two questions for tokens.
	tokenPause = 10 * time.Millisecond
	// unlimited is how many slots a limit has without a rule for them. A partition asks for unlimitedWant at once.
	unlimited, unlimitedWant = 1_000_000_000, 1_000_000
	// openLimit is how many limits a claim may use of which no task is known to wait.
	openLimit = 64
)

// Book is what the leader of a partition knows of the limits there. It decides what the leader asks for, as
// test/model/limits describes. It calls nothing, and reads no clock.
type Book struct {
	shares map[string]*share
	read   bool            // the leader has read of which limits the partition has caps
	freed  map[string]int  // slots that became free since the newest call was asked for: its reply may not know that
	woken  map[string]bool // limits whose homes want to be asked, since the newest call was asked for
	open   map[string]bool // limits to look at though no task waits for them: something may have to be asked
	swept  time.Time       // when Calls last looked at all limits
}

// phase is what a leader must do with a limit.
type phase int

const (
	mustCount phase = iota // count who holds a slot in the partition
	mustTell               // tell the home
	ready                  // claim
)

// share is what is known of a limit. The zero value has to be counted.
type share struct {
	phase   phase
	version int  // of what follows; while it has to be counted, the next one must be greater
	cap     int  // how many tasks of the partition may hold a slot, as Redis has it
	count   int  // what the home has granted: the cap, or more
	holders int  // tasks that hold a slot, as far as known
	tokens  int  // starts that were granted and not used, as Redis has it
	granted int  // starts that the home has granted besides
	wanted  bool // others wait at the home, or more is in use than there are slots
	waits   bool // the home did not grant all that was asked for
	starts  bool // the home keeps tokens for this partition, when there are some
	told    bool // the home knows that the cap is 0, and that nothing is wanted

	asked   time.Time // when the home was asked last; zero: ask at once
	retry   time.Time // when to ask again, as the home did not answer
	tokenAt time.Time // when the home may have a token
	used    time.Time // when a task last waited, or was claimed
	counted time.Time // when Redis last said how many hold a slot
	looked  time.Time // when a claim was last to look for a free slot of which nobody has told
}

// NewBook returns the book of a leader whose term begins.
func NewBook() *Book {
	return &Book{shares: make(map[string]*share), open: make(map[string]bool), woken: make(map[string]bool),
		freed: make(map[string]int)}
}

// Need says that tasks wait that have the same limits, from narrow to wide, and the same cost. Of several ones, the
// first comes first.
type Need struct {
	Limits  []string
	Cost    int // slots and tokens that each task needs of each limit; 0 as 1
	Waiting int
}

func (n Need) cost() int { return max(n.Cost, 1) }

// areTooDear reports whether the tasks of a need can never start, as one of their limits allows less than they cost.
func (t *Table) areTooDear(n Need) bool {
	return n.Cost > 1 && slices.ContainsFunc(n.Limits, func(name string) bool {
		rule, _ := t.For(name)
		return rule.IsTooDear(n.Cost)
	})
}

// Recount is what the script recount is asked about a limit.
type Recount struct {
	Limit string
	Least int // the new version must be greater
	Known int // the version for which the home knows that the cap is 0: the limit is forgotten; -1 for none
}

// Ask is what the script settle is asked about a limit.
type Ask struct {
	Limit   string
	Version int
	Have    int // the cap
	Want    int // further slots
	Least   int // fewer of them are of no use
	Tokens  int
	Start   int // fewer of them are of no use
	Rule    Rule
}

// Cap is what a script of the partition replies of a limit.
type Cap struct {
	Limit   string
	Version int // 0: it was forgotten
	Cap     int
	Holders int
	Tokens  int
}

// Answer is what the home replies to an Ask.
type Answer struct {
	Newer  int // the home knows this newer version, and the rest is 0; else 0
	Count  int
	Tokens int
	Wanted bool
	Next   time.Duration // until there is a token again; 0: there is one
}

// Grant is what a claim may use of a limit.
type Grant struct {
	Limit   string
	Version int
	Count   int
	Tokens  int // -1 without a rate
}

// Forget has the leader begin anew with all limits, as Redis may have lost writes.
func (b *Book) Forget() {
	for limit, s := range b.shares {
		b.recount(limit, s, s.version)
	}
	b.read, b.swept = false, time.Time{}
}

// MustRead reports whether the leader has to read of which limits the partition has caps, and tell Read.
func (b *Book) MustRead() bool { return !b.read }

// Read tells of which limits the partition has caps.
func (b *Book) Read(limits []string) {
	b.read = true
	for _, limit := range limits {
		b.of(limit)
	}
}

func (b *Book) of(limit string) *share {
	s := b.shares[limit]
	if s == nil {
		s = &share{}
		b.shares[limit], b.open[limit] = s, true
	}
	return s
}

// openIf has Calls look at a limit, though no task waits for it.
func (b *Book) openIf(limit string, is bool) {
	if is {
		b.open[limit] = true
	}
}

// recount has a limit be counted. The new version must be greater than that one.
func (b *Book) recount(limit string, s *share, version int) {
	*s = share{version: version, used: s.used}
	b.open[limit] = true
}

// demand is what tasks need of a limit.
type demand struct {
	waiting int   // tasks that wait
	want    int   // slots, those that are free included: none for a task that has no room in a limit before
	lots    []lot // the tasks that have room in all limits before, in their order
}

// lot is some tasks that each need so many slots.
type lot struct{ cost, tasks int }

// next returns how many slots are lacking for the next task, if so many are free.
func (d demand) next(free int) int {
	for _, l := range d.lots {
		if all := l.cost * l.tasks; all <= free {
			free -= all
			continue
		}
		return l.cost - free%l.cost
	}
	return 0
}

// fit returns how many of the slots that are free the next tasks can use.
func (d demand) fit(free int) (used int) {
	for _, l := range d.lots {
		all := l.cost * l.tasks
		if used+all > free {
			return used + (free-used)/l.cost*l.cost
		}
		used += all
	}
	return used
}

// hasNext reports whether so many slots are enough for the next task.
func (d demand) hasNext(free int) bool { return len(d.lots) > 0 && free >= d.lots[0].cost }

// demands returns what tasks need, by limit. A task asks for a limit only while it has room in those before, so that
// leaders cannot wait for each other in a circle.
func (b *Book) demands(needs []Need, rules *Table, now time.Time) map[string]demand {
	all := make(map[string]demand)
	barred := b.Barred(needs, rules, now)
	for i, need := range needs {
		left := need.Waiting
		if rules.areTooDear(need) {
			continue
		}
		for _, limit := range need.Limits {
			d, s := all[limit], b.of(limit)
			s.used = now
			s.look(need.cost(), now)
			rule, _ := rules.For(limit)
			d.waiting, d.want = d.waiting+need.Waiting, d.want+left*need.cost()
			if left > 0 {
				d.lots = append(d.lots, lot{need.cost(), left})
			}
			all[limit] = d
			if left = min(left, s.free(rule, now)/need.cost()); slices.Contains(barred[i], limit) {
				left = 0
			}
		}
	}
	return all
}

// look has a claim look whether slots are free for a task, once in a while: the word of that may be lost. While some
// are free, as they are kept for a task that needs more, it must not: tasks behind that one would get them.
func (s *share) look(cost int, now time.Time) {
	if s.phase == ready && s.count >= cost && s.holders >= s.count && now.Sub(s.looked) >= askPause {
		s.holders, s.looked = s.count-cost, now
	}
}

// free returns how much of a limit can be used: slots that were granted and are not held, and a token for each.
func (s *share) free(r Rule, now time.Time) int {
	if s.phase != ready || r.Paused.After(now) {
		return 0
	}
	free := max(s.count-s.holders, 0)
	if r.Rate > 0 {
		free = min(free, s.tokens+s.granted)
	}
	return free
}

// room returns how many tasks of that cost may be claimed, if others use so much of what is free. If partitions want
// slots, it is only what the home has granted, and what makes that enough for a task.
func (s *share) room(r Rule, cost, used int, now time.Time) int {
	room := max(s.free(r, now)-used, 0) / cost
	if s.wanted && s.granted == 0 {
		room = min(room, (max(s.count-s.cap-used, 0)+cost-1)/cost)
	}
	return room
}

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

// isOutdated reports whether more tasks hold a slot than the cap says, or whether slots may be free of which the word
// is lost, while this or another partition waits for some.
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
		a.Start = min(d.next(s.tokens), a.Tokens)
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
	case s.starts && a.Tokens == 0 || s.waits && a.Want == 0: // the home keeps something for nobody
		return true
	}
	return s.count > 0 && now.Sub(s.asked) >= keepTime
}

// Counted tells what the script recount has replied.
func (b *Book) Counted(caps []Cap, now time.Time) {
	for _, c := range caps {
		if c.Version == 0 {
			delete(b.shares, c.Limit)
			delete(b.open, c.Limit)
			continue
		}
		s := b.of(c.Limit)
		b.open[c.Limit] = true
		*s = share{
			phase: mustTell, version: c.Version, cap: c.Cap, count: c.Cap, tokens: c.Tokens,
			holders: max(0, c.Holders-b.freed[c.Limit]), used: s.used, retry: s.retry, counted: now,
		}
	}
}

// Answered tells what the home has replied.
func (b *Book) Answered(a Ask, answer Answer, now time.Time) {
	s := b.of(a.Limit)
	switch {
	case s.version != a.Version || s.phase == mustCount:
		return
	case answer.Newer > 0:
		b.recount(a.Limit, s, answer.Newer)
		return
	}
	s.phase, s.count, s.wanted, s.granted = ready, answer.Count, answer.Wanted, answer.Tokens
	s.waits, s.told = answer.Count < a.Have+a.Want, a.Have == 0 && a.Want == 0 && answer.Count == 0
	s.asked, s.retry = now, time.Time{}
	if b.woken[a.Limit] { // the answer may be older than what the home has to say
		s.asked = time.Time{}
	}
	s.starts = a.Tokens > 0 && answer.Tokens == 0
	b.open[a.Limit] = true // it may have to give something back
	if a.Tokens > 0 {
		s.tokenAt = now.Add(max(answer.Next, tokenPause))
	}
}

// Failed tells that the home of a limit has not answered.
func (b *Book) Failed(a Ask, now time.Time) { b.of(a.Limit).retry = now.Add(askPause) }

// Wake tells that the home of a limit wants the leader to ask.
func (b *Book) Wake(limit string) {
	if s := b.shares[limit]; s != nil {
		s.asked = time.Time{}
		b.open[limit], b.woken[limit] = true, true
	}
}

// Freed tells that tasks of the partition have ended that held slots.
func (b *Book) Freed(limit string, n int) {
	if s := b.shares[limit]; s != nil {
		s.holders = max(0, s.holders-n)
		b.openIf(limit, s.wanted)
	}
	b.freed[limit] += n
}

// Asks reports whether the leader has something to ask before tasks of a need can be claimed: it does not stand in the
// line of the first limit that has no room. It may have left that line while their queue had no room.
func (b *Book) Asks(need Need, rules *Table, now time.Time) bool {
	if rules.areTooDear(need) {
		return false
	}
	for _, limit := range need.Limits {
		s := b.shares[limit]
		rule, _ := rules.For(limit)
		switch {
		case s == nil || s.phase != ready || rule.Paused.After(now):
			return false
		case s.free(rule, now) >= need.cost():
		case s.count-s.holders >= need.cost():
			return !s.starts && !s.tokenAt.After(now)
		default:
			return !s.waits
		}
	}
	return false
}

// Room returns how many tasks may be claimed that have those limits and that cost, 0 as 1.
func (b *Book) Room(limits []string, cost int, rules *Table, now time.Time) int {
	room := unlimited
	for _, limit := range limits {
		room = min(room, b.RoomBeside(limit, cost, 0, rules, now))
	}
	return room
}

// RoomBeside is Room for one limit, if other tasks use so much of it.
func (b *Book) RoomBeside(limit string, cost, used int, rules *Table, now time.Time) int {
	s := b.shares[limit]
	if s == nil {
		return 0
	}
	rule, _ := rules.For(limit)
	return s.room(rule, max(cost, 1), used, now)
}

// Barred returns, for each of the needs, the limits that its tasks must leave alone: a need before it has too little,
// and would never have enough if others took that.
func (b *Book) Barred(needs []Need, rules *Table, now time.Time) [][]string {
	barred := make([][]string, len(needs))
	if !slices.ContainsFunc(needs, func(n Need) bool { return n.Cost > 1 }) {
		return barred
	}
	short := make(map[string]bool)
	for i, need := range needs {
		for _, limit := range need.Limits {
			if short[limit] {
				barred[i] = append(barred[i], limit)
			}
		}
		if need.Waiting > 0 && len(barred[i]) == 0 && !rules.areTooDear(need) {
			if limit := b.short(need, rules, now); limit != "" {
				short[limit] = true
			}
		}
	}
	return barred
}

// short returns the first limit that has too little for a task; "" if that limit has nothing free.
func (b *Book) short(need Need, rules *Table, now time.Time) string {
	for _, limit := range need.Limits {
		rule, _ := rules.For(limit)
		free := 0
		if s := b.shares[limit]; s != nil {
			free = s.free(rule, now)
		}
		switch {
		case free == 0:
			return ""
		case free < need.cost():
			return limit
		}
	}
	return ""
}

// Grants returns what a claim may use: of the limits for which tasks wait, and of some others that were used last.
func (b *Book) Grants(needs []Need, rules *Table, now time.Time) []Grant {
	clear(b.freed)
	var grants []Grant
	seen := make(map[string]bool)
	add := func(limit string, s *share) {
		rule, _ := rules.For(limit)
		if s.room(rule, 1, 0, now) <= 0 {
			return
		}
		g := Grant{Limit: limit, Version: s.version, Count: s.count, Tokens: -1}
		if rule.Rate > 0 {
			g.Tokens = s.granted
		}
		grants = append(grants, g)
	}
	barred := b.Barred(needs, rules, now)
	// A grant that a claim cannot use would become a cap, which is not kept. One that it must not use would go to tasks
	// that become due.
	for i, need := range needs {
		hasRoom := barred[i] == nil && b.Room(need.Limits, need.Cost, rules, now) > 0
		for _, limit := range need.Limits {
			if hasRoom && !seen[limit] {
				seen[limit] = true
				add(limit, b.of(limit))
			}
		}
	}
	for _, need := range needs {
		for _, limit := range need.Limits {
			seen[limit] = true
		}
	}
	most := len(grants) + openLimit
	for limit, s := range b.shares {
		if !seen[limit] && len(grants) < most {
			add(limit, s)
		}
	}
	return grants
}

// Claimed tells what a claim has replied of the limits that it might use.
func (b *Book) Claimed(caps []Cap, now time.Time) {
	for _, c := range caps {
		s := b.of(c.Limit)
		if c.Holders > s.holders {
			s.used = now
		}
		if s.version != c.Version { // the grant was used, or is out of date
			s.version, s.granted = c.Version, 0
		}
		s.cap, s.count, s.tokens, s.told, s.counted = c.Cap, c.Cap, c.Tokens, false, now
		s.holders = max(0, c.Holders-b.freed[c.Limit])
		b.openIf(c.Limit, s.wanted)
	}
}

// ClaimFailed tells that nobody knows what a claim has done with the limits that it might use.
func (b *Book) ClaimFailed(grants []Grant) {
	for _, g := range grants {
		s := b.of(g.Limit)
		b.recount(g.Limit, s, s.version)
	}
}

// Pause returns how long the leader may wait with the next Calls, unless it is told something.
func (b *Book) Pause(needs []Need, now time.Time) time.Duration {
	pause := time.Hour
	switch {
	case len(b.open) > 0:
		pause = askPause
	case len(b.shares) > 0 || !b.read:
		pause = keepTime
	}
	for _, need := range needs {
		pause = min(pause, askPause)
		for _, limit := range need.Limits {
			if s := b.shares[limit]; s != nil && s.tokenAt.After(now) {
				pause = min(pause, s.tokenAt.Sub(now))
			}
		}
	}
	return pause
}
