package limit

import (
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
	phase          phase
	version        int  // of what follows; while it has to be counted, the next one must be greater
	cap            int  // how many tasks of the partition may hold a slot, as Redis has it
	count          int  // what the home has granted: the cap, or more
	holders        int  // tasks that hold a slot, as far as known
	tokens         int  // starts that were granted and not used, as Redis has it
	granted        int  // starts that the home has granted besides
	wanted         bool // others wait at the home, or more is in use than there are slots
	waits          bool // the home did not grant all that was asked for
	waitsForTokens bool // the home keeps tokens for this partition, when there are some
	told           bool // the home knows that the cap is 0, and that nothing is wanted

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

// Recount is what the script recount is asked about a limit.
type Recount struct {
	Limit string
	Least int // the new version must be greater
	Known int // the version for which the home knows that the cap is 0: the limit is forgotten; -1 for none
}

// Ask is what the script settle is asked about a limit.
type Ask struct {
	Limit       string
	Version     int
	Have        int // the cap
	Want        int // further slots
	Least       int // fewer of them are of no use
	Tokens      int
	LeastTokens int // fewer of them are of no use
	Rule        Rule
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

// look has a claim look whether slots are free for a task, once in a while: the word of that may be lost. While some
// are free, as they are kept for a large task, it must not: smaller tasks behind it would get them.
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
	s.waitsForTokens = a.Tokens > 0 && answer.Tokens == 0
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

// MustJoinLine reports whether the leader has something to ask before tasks of a need can be claimed: it does not stand
// in the line of the first limit that has no room. It may have left that line while their queue had no room.
func (b *Book) MustJoinLine(need Need, rules *Table, now time.Time) bool {
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
			return !s.waitsForTokens && !s.tokenAt.After(now)
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
