package handover

// This is how hand-overs were decided before the planner, in one piece and without its locks and calls of Redis. The
// stories of stories_test.go compare the planner with it. It goes after one release.

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const oldClaimLimit = 256

var errLate = errors.New("late")

// oldQuotaSet and oldQuota are what a claim took.
type oldQuotaSet struct {
	Queues  map[string]oldQuota
	Default int
	Served  string
	Known   bool
	Unnamed string
}

type oldQuota struct {
	Number int
	UpTo   time.Time
}

const (
	oldLeastAhead  = 16
	oldAheadTime   = 250 * time.Millisecond
	oldSilentPause = 50 * time.Millisecond
)

type oldQuotas struct {
	handOver int           // Options.HandOver
	leases   int           // partitions
	askPace  time.Duration // pace.ask
	at       time.Time     // the clock
	wakes    map[int]bool  // roomWakes
	looks    int           // how often lookWakes were signalled

	flows  map[string]*oldFlow
	apart  map[int]*oldApart
	slots  oldSlots
	closed map[string]*oldClosed
}

func (q *oldQuotas) now() time.Time                      { return q.at }
func (q *oldQuotas) sinceThen(t time.Time) time.Duration { return q.at.Sub(t) }

func oldNewQuotas(handOver, leases int, ask time.Duration) *oldQuotas {
	q := &oldQuotas{
		handOver: handOver, leases: leases, askPace: ask, wakes: make(map[int]bool),
		flows: make(map[string]*oldFlow), apart: make(map[int]*oldApart), closed: make(map[string]*oldClosed),
	}
	q.slots.q = q
	return q
}
func (q *oldQuotas) flow(name string) *oldFlow {
	f := q.flows[name]
	if f == nil {
		f = &oldFlow{oldest: make(map[int]time.Time)}
		q.flows[name] = f
	}
	return f
}
func (q *oldQuotas) bound(name string, f *oldFlow) int {
	n := q.slots.of(name)
	if n == 0 {
		return 0
	}
	bound := max(n*q.handOver, oldLeastAhead)
	if f != nil && q.sinceThen(f.measured) <= q.askPace {
		bound = max(bound, int(f.rate*oldAheadTime.Seconds()))
	}
	return bound
}
func (q *oldQuotas) share(free int) int {
	nodes := max(min(q.slots.leaders(), q.leases), 1)
	return (max(free, 0) + nodes - 1) / nodes
}
func (q *oldQuotas) reserve(p int, due bool) (reserved oldQuotaSet, ok bool) {
	reserved = oldQuotaSet{Queues: make(map[string]oldQuota), Default: oldLeastAhead, Served: q.slots.served()}
	a := q.apartIn(p)
	ok = due || a.due(reserved.Served, q.now())
	for name, f := range q.flows {
		quota := f.portion(p)
		if q.closedOf(name) != nil {
			quota = oldQuota{}
		}
		reserved.Queues[name] = quota
		ok = ok || quota.Number > 0 && f.waits(p)
	}
	if !ok {
		return reserved, false
	}
	a.reserve(&reserved, q.now())
	for name, quota := range reserved.Queues {
		f := q.flows[name]
		f.free, f.reserved = f.free-quota.Number, f.reserved+quota.Number
	}
	return reserved, true
}

type oldOutcome struct {
	claimed map[string]int       // tasks by name of the quota
	lengths map[string]int       // deliveries that wait now, by queue to which some were handed over
	backlog map[string]time.Time // what waits in the partition now; nil if that is not known
	apart   []string             // names that nobody serves
	unnamed string               // as Claimed.Unnamed
}

func (q *oldQuotas) release(p int, reserved oldQuotaSet, o oldOutcome) {
	for name, quota := range reserved.Queues {
		f := q.flow(name)
		f.reserved -= quota.Number
		f.free += max(quota.Number-o.claimed[name], 0)
	}
	q.setBacklog(p, o.backlog)
	q.apartIn(p).note(reserved, o, q.now())
	q.note(o.lengths)
	for name, quota := range reserved.Queues {
		f := q.flows[name]
		if quota.Number > 0 {
			f.noteRoom(q.now())
		}
		if quota.Number > 0 && (f.free > 0 || f.asked.IsZero()) { // it may be the turn of others now
			q.wake(f)
		}
		if len(f.oldest) == 0 && f.reserved == 0 && q.sinceThen(f.used) > q.askPace && q.closed[name] == nil {
			delete(q.flows, name)
		}
	}
}
func (q *oldQuotas) leave(p int) {
	q.setBacklog(p, nil)
	delete(q.apart, p)
	for _, f := range q.flows {
		q.wake(f) // the partition may have come before others
	}
}
func (q *oldQuotas) setBacklog(p int, backlog map[string]time.Time) {
	for name, f := range q.flows {
		if _, waits := backlog[name]; !waits {
			delete(f.oldest, p)
		}
	}
	for name, at := range backlog {
		f := q.flow(name)
		if at.IsZero() && !f.waits(p) {
			f.fill()
		}
		if !at.IsZero() || !f.waits(p) {
			f.oldest[p] = at
		}
	}
}
func (q *oldQuotas) wake(f *oldFlow) {
	for _, p := range f.first() {
		q.wakes[p] = true
	}
}
func (q *oldQuotas) told(name string) {
	q.forgetAsked(name)
}
func (q *oldQuotas) forgetAsked(name string) {
	for of, f := range q.flows {
		if served, _ := lua.SplitLane(of); served == name {
			f.forgetAsked(q.now())
			q.wake(f)
		}
	}
}
func (q *oldQuotas) toldAll() {
	for _, f := range q.flows {
		f.forgetAsked(q.now())
		q.wake(f)
	}
	q.wakeApart()
}
func (q *oldQuotas) note(lengths map[string]int) {
	for name, length := range lengths {
		f := q.flows[name]
		if f != nil {
			length -= f.apart
		}
		free := q.share(q.bound(name, f) - length)
		if f == nil {
			if 2*length <= q.bound(name, nil) {
				continue
			}
			f = q.flow(name)
			f.free = free
		}
		f.used = q.now()
		f.free = min(f.free, max(free-f.reserved, 0))
		if free <= f.reserved {
			f.fill()
		}
	}
}
func (q *oldQuotas) pause(p int) (time.Duration, bool) {
	a := q.apartIn(p)
	pause, waits := q.askPace, len(a.names) > 0
	if a.unnamed != "" {
		pause, waits = min(pause, oldUnnamedPause), true
	}
	for name, f := range q.flows {
		if f.waits(p) {
			pause, waits = min(pause, q.askPause(name)), true
		}
	}
	return pause, waits
}
func (q *oldQuotas) askPause(name string) time.Duration {
	_, taskType := lua.SplitLane(name)
	if q.slots.onlyForeign(name) || taskType != "" && q.slots.of(name) > 0 {
		return min(oldSilentPause, q.askPace)
	}
	return q.askPace
}
func (q *oldQuotas) looked(asked []string, looks map[string]Look) {
	for _, name := range asked {
		of, _ := lua.SplitLane(name)
		if look, ok := looks[of]; ok {
			q.evaluate(name, look)
		} else {
			q.flow(name).free = 0
		}
	}
}
func (q *oldQuotas) evaluate(name string, look Look) {
	f := q.flow(name)
	f.measure(look, q.now())
	waiting := look.Waiting
	if _, taskType := lua.SplitLane(name); taskType == "" {
		f.apart = q.closeLanes(name, look.Types)
		waiting -= f.apart
	} else if look.Types != nil {
		waiting = look.Types[taskType]
	}
	f.free = max(q.share(q.bound(name, f)-waiting)-f.reserved, 0)
	f.noteRoom(f.begin(q.now()))
}
func (q *oldQuotas) backlogOf(p int) []string {
	var names []string
	for name, f := range q.flows {
		if f.waits(p) {
			names = append(names, name)
		}
	}
	return names
}
func (q *oldQuotas) levels(p int, names []string) (asked []string, levels map[string]int) {
	levels = make(map[string]int)
	for _, name := range names {
		f := q.flow(name)
		bound := q.bound(name, f)
		switch {
		case bound == 0:
			f.free = 0
			f.fill()
		case q.isAsking(name):
		case q.sinceThen(f.asked) >= q.askPause(name) && slices.Contains(f.first(), p):
			f.asked = q.now() // before Redis is asked: word that comes meanwhile makes it zero again
			asked = append(asked, name)
			of, taskType := lua.SplitLane(name)
			if _, known := levels[of]; taskType == "" {
				levels[of] = bound / 2
			} else if !known {
				levels[of] = NoLevel
			}
		}
	}
	return asked, levels
}

const (
	oldRateWindow = 100 * time.Millisecond
	oldOrderSlack = 100 * time.Millisecond
)

type oldFlow struct {
	oldest   map[int]time.Time // by partition: when the first task was due; zero if that is not known
	free     int               // tasks that may be claimed, beyond those that are reserved
	reserved int               // tasks that terms may be claiming at the moment
	asked    time.Time         // when Redis was asked for free, and the workers for word; zero: ask again
	used     time.Time         // when deliveries were handed over last
	apart    int               // of a queue: waiting deliveries that count for lanes
	ended    int64             // deliveries that had ended in the queue at the time measured
	measured time.Time
	rate     float64 // deliveries that end in a second

	full  bool      // there was no room when this was last known
	since time.Time // when there was room again; zero if there always was, as far as known
	word  time.Time // when somebody said that there may be room; zero if nobody has since the last look
}

func (f *oldFlow) forgetAsked(now time.Time) {
	f.asked = time.Time{}
	if f.word.IsZero() {
		f.word = now
	}
}
func (f *oldFlow) begin(now time.Time) time.Time {
	at := f.word
	if at.IsZero() {
		at = f.asked
	}
	if at.IsZero() {
		at = now
	}
	f.word = time.Time{}
	return at
}
func (f *oldFlow) fill() { f.full, f.word = true, time.Time{} }
func (f *oldFlow) noteRoom(at time.Time) {
	switch has := f.free+f.reserved > 0; {
	case !has:
		f.fill()
	case f.full:
		f.full, f.since = false, at
	}
}

func (f *oldFlow) waits(p int) bool {
	_, waits := f.oldest[p]
	return waits
}
func (f *oldFlow) portion(p int) oldQuota {
	if len(f.oldest) == 0 {
		return oldQuota{Number: min(f.free, oldLeastAhead)}
	}
	first := f.first()
	if !slices.Contains(first, p) {
		return oldQuota{}
	}
	equal := (f.free + f.reserved + len(first) - 1) / len(first)
	quota := oldQuota{Number: min(f.free, equal, oldClaimLimit)}
	for other, at := range f.oldest {
		if at.IsZero() {
			at = f.oldest[p]
		}
		if other != p && !at.IsZero() && (quota.UpTo.IsZero() || at.Before(quota.UpTo)) {
			quota.UpTo = at
		}
	}
	if !quota.UpTo.IsZero() {
		quota.UpTo = quota.UpTo.Add(oldOrderSlack)
	}
	return quota
}
func (f *oldFlow) first() []int {
	var least time.Time
	for _, at := range f.oldest {
		if at.IsZero() {
			least = at
			break
		}
		if least.IsZero() || at.Before(least) {
			least = at
		}
	}
	var first []int
	for p, at := range f.oldest {
		if !at.After(least.Add(oldOrderSlack)) {
			first = append(first, p)
		}
	}
	return first
}
func (f *oldFlow) measure(look Look, now time.Time) {
	passed := now.Sub(f.measured)
	if passed < oldRateWindow {
		return
	}
	if !f.measured.IsZero() {
		f.rate = float64(max(look.Ended-f.ended, 0)) / passed.Seconds()
	}
	f.ended, f.measured = look.Ended, now
}
func (q *oldQuotas) roomSince(deliveries []task.Delivery) []time.Time {
	since := make([]time.Time, len(deliveries))
	if len(q.flows) == 0 {
		return since
	}
	for i, d := range deliveries {
		f := q.flows[lua.LaneName(d.Queue, d.Type)]
		if f == nil {
			f = q.flows[d.Queue]
		}
		if f != nil {
			since[i] = f.since
		}
	}
	return since
}

type oldSplit struct {
	served   []task.Delivery
	unserved []task.Delivery // nobody serves their queue
	apart    []task.Delivery // their queue is served, but nobody runs their type: they belong into lanes
}

func (q *oldQuotas) split(deliveries []task.Delivery) (s oldSplit, strange []string) {
	for _, d := range deliveries {
		if lane := lua.LaneName(d.Queue, d.Type); q.slots.ofNodes(lane) == 0 && !slices.Contains(strange, lane) {
			strange = append(strange, lane)
		}
		switch {
		case q.slots.ofType(d.Queue, d.Type) > 0:
			s.served = append(s.served, d)
		case q.slots.of(d.Queue) > 0:
			s.apart = append(s.apart, d)
		default:
			s.unserved = append(s.unserved, d)
		}
	}
	return s, strange
}
func oldCountByQuota(claimed map[string]int, reserved oldQuotaSet, deliveries []task.Delivery) {
	lanes := false
	for name := range reserved.Queues {
		_, taskType := lua.SplitLane(name)
		lanes = lanes || taskType != ""
	}
	for _, d := range deliveries {
		name := d.Queue
		if lanes {
			lane := lua.LaneName(d.Queue, d.Type)
			if _, known := reserved.Queues[lane]; known {
				name = lane
			}
		}
		claimed[name]++
	}
}
func (q *oldQuotas) closeLanes(name string, types map[string]int) (apart int) {
	for taskType, n := range types {
		if taskType == "" || q.slots.ofType(name, taskType) == q.slots.of(name) {
			continue
		}
		apart += n
		if lane := lua.LaneName(name, taskType); n >= q.bound(lane, nil) {
			q.flow(lane).used = q.now()
		}
	}
	return apart
}

const (
	oldForeignTime  = 5 * time.Second        // after which the list of asynq's own servers is read again
	oldForeignFirst = 500 * time.Millisecond // the same for a queue of unknown servers
)

type oldSlots struct {
	q       *oldQuotas
	view    Fleet
	viewed  int
	seen    int                  // the view that own and nodes come from
	own     map[string]oldServed // of nodes, by queue
	nodes   int                  // that lead partitions, or want to
	foreign map[string]int       // of asynq's own servers, by queue
	asked   map[string]bool      // names for which foreign was read since began
	began   time.Time
	workers []Node    // living ones that take attempts
	text    string    // see served
	leftOut int       // workers by HTTP that claims do not know
	read    time.Time // when foreign was read
	reading bool      // Redis has not answered yet
}
type oldServed struct {
	all    int            // of whatever type
	any    int            // of any type: of nodes that do not say which ones they run
	byType map[string]int // of the others
}

func (v *oldServed) add(n Node) {
	v.all += n.Capacity
	if len(n.Types) == 0 {
		v.any += n.Capacity
	}
	for _, taskType := range n.Types {
		if v.byType == nil {
			v.byType = make(map[string]int, len(n.Types))
		}
		v.byType[taskType] += n.Capacity
	}
}
func (v oldServed) of(taskType string) int {
	if taskType == "" {
		return v.all
	}
	return v.any + v.byType[taskType]
}
func (s *oldSlots) of(name string) int { return s.ofType(lua.SplitLane(name)) }
func (s *oldSlots) ofType(queue, taskType string) int {
	s.refresh()
	if n := s.own[queue].of(taskType); n > 0 {
		return n
	}
	return s.foreign[queue]
}
func (s *oldSlots) ofNodes(name string) int {
	s.refresh()
	queue, taskType := lua.SplitLane(name)
	return s.own[queue].of(taskType)
}

func (s *oldSlots) onlyForeign(name string) bool { return s.ofNodes(name) == 0 && s.of(name) > 0 }

const oldServedLimit = 64 << 10

func (s *oldSlots) served() string {
	s.refresh()
	return s.text
}
func (s *oldSlots) describe() {
	var offers, ofGuests []lua.Offer
	for queue, n := range s.foreign {
		if n > 0 {
			offers = append(offers, lua.Offer{Queues: []string{queue}, Types: []string{lua.AllTypes}})
		}
	}
	for _, n := range s.workers {
		if !n.Guest {
			offers = append(offers, oldOfferOf(n))
		} else {
			ofGuests = append(ofGuests, oldOfferOf(n))
		}
	}
	told, leftOut := oldFewestNames(ofGuests)
	s.text, s.leftOut = lua.ServedText(append(offers, told...)), leftOut
}
func oldFewestNames(offers []lua.Offer) (told []lua.Offer, leftOut int) {
	texts := make(map[string]int) // the number of offers alike
	by := make(map[string]lua.Offer)
	for _, o := range offers {
		text := lua.ServedText([]lua.Offer{o})
		texts[text]++
		by[text] = o
	}
	size := 0
	for _, text := range slices.SortedFunc(maps.Keys(texts), oldByLength) {
		if size += len(text); size <= oldServedLimit {
			told = append(told, by[text])
		} else {
			leftOut += texts[text]
		}
	}
	return told, leftOut
}

func oldByLength(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }
func oldOfferOf(n Node) lua.Offer {
	o := lua.Offer{Queues: slices.Collect(maps.Keys(n.Queues)), Types: n.Types}
	if len(n.Types) == 0 {
		o.Types = []string{lua.AllTypes}
	}
	return o
}
func (s *oldSlots) leaders() int {
	s.refresh()
	return s.nodes
}
func (s *oldSlots) refresh() {
	if s.own != nil && s.viewed == s.seen {
		return
	}
	s.seen, s.own, s.nodes = s.viewed, make(map[string]oldServed), s.view.Leaders
	s.workers = nil
	for _, n := range s.view.Workers {
		for name := range n.Queues {
			v := s.own[name]
			v.add(n)
			s.own[name] = v
		}
		if n.Capacity > 0 && len(n.Queues) > 0 {
			s.workers = append(s.workers, n)
		}
	}
	s.describe()
}
func (s *oldSlots) readAgain(names []string) bool {
	s.refresh()
	passed := s.q.sinceThen(s.read)
	for _, name := range names {
		queue, _ := lua.SplitLane(name)
		unknown := !s.asked[name] || s.foreign[queue] > 0
		if s.ofNodes(name) == 0 && (passed >= oldForeignTime || unknown && passed >= oldForeignFirst) {
			return true
		}
	}
	return false
}
func (s *oldSlots) setForeign(names []string, foreign map[string]int, err error) {
	s.read, s.reading = s.q.now(), errors.Is(err, errLate)
	if err != nil {
		return
	}
	if s.asked == nil || s.read.Sub(s.began) >= oldForeignTime {
		s.asked, s.began = make(map[string]bool), s.read
	}
	s.foreign = foreign
	for _, name := range names {
		s.asked[name] = true
	}
	s.describe()
}

const oldWakeLimit = 16

type oldCandidate struct {
	Node
	free int // slots, without those for which it was chosen
}

func (s *oldSlots) choose(name string, byType map[string]int, draw func(int) int) []string {
	var all []*oldCandidate
	for _, n := range s.view.Workers {
		if _, serves := n.Queues[name]; serves && n.Running < n.Capacity {
			all = append(all, &oldCandidate{n, n.Capacity - n.Running})
		}
	}
	var chosen []string
	for _, taskType := range oldRarestFirst(all, byType) {
		some, enough := oldChooseFor(oldAble(all, taskType), byType[taskType], draw)
		if !enough {
			return nil
		}
		chosen = append(chosen, some...)
	}
	slices.Sort(chosen)
	if chosen = slices.Compact(chosen); len(chosen) > oldWakeLimit {
		return nil
	}
	return chosen
}
func oldAble(all []*oldCandidate, taskType string) []*oldCandidate {
	var some []*oldCandidate
	for _, c := range all {
		if len(c.Types) == 0 || slices.Contains(c.Types, taskType) {
			some = append(some, c)
		}
	}
	return some
}
func oldRarestFirst(all []*oldCandidate, byType map[string]int) []string {
	types := slices.Collect(maps.Keys(byType))
	if len(types) > 1 {
		slices.SortFunc(types, func(a, b string) int {
			return cmp.Or(cmp.Compare(len(oldAble(all, a)), len(oldAble(all, b))), cmp.Compare(a, b))
		})
	}
	return types
}
func oldChooseFor(able []*oldCandidate, deliveries int, draw func(int) int) (chosen []string, enough bool) {
	total := 0
	for _, c := range able {
		total += c.free
	}
	for deliveries > 0 && total > 0 && len(chosen) <= oldWakeLimit {
		c := oldPick(able, draw(total))
		used := min(c.free, deliveries)
		chosen = append(chosen, c.ID)
		total -= c.free
		deliveries -= used
		c.free, able = c.free-used, slices.DeleteFunc(able, func(other *oldCandidate) bool { return other == c })
	}
	return chosen, deliveries <= 0
}
func oldPick(all []*oldCandidate, n int) *oldCandidate {
	for _, c := range all {
		if n < c.free {
			return c
		}
		n -= c.free
	}
	return all[len(all)-1]
}

const (
	oldApartSaid    = 16
	oldUnnamedPause = 100 * time.Millisecond
	oldUnnamedTime  = time.Hour
)

type oldApart struct {
	seen  string   // what was served when a claim last looked at all names; "": the next claim looks
	names []string // some of the names that nobody serves

	tried   string    // what was served when claims last began to look at tasks without a name; "": they look again
	at      time.Time // of that
	unnamed string    // where they go on; "" if they came to the end
	paused  time.Time // when they looked at a part
}

func (q *oldQuotas) apartIn(p int) *oldApart {
	a := q.apart[p]
	if a == nil {
		a = &oldApart{}
		q.apart[p] = a
	}
	return a
}
func (a *oldApart) reserve(r *oldQuotaSet, now time.Time) {
	r.Known = len(a.names) > 0 && a.seen == r.Served
	a.seen = r.Served
	if a.unnamed != "" && a.tried != r.Served { // what the looks have passed may be served now
		a.tried = ""
	}
	switch {
	case a.goesOn(now):
		r.Unnamed = a.unnamed
	case a.unnamed == "" && a.mayTry(r.Served, now):
		r.Unnamed, a.tried, a.at = lua.FirstUnnamed, r.Served, now
	}
}
func (a *oldApart) note(r oldQuotaSet, o oldOutcome, now time.Time) {
	if o.backlog == nil { // it may have put tasks under further names, and looked or not
		a.forget()
		return
	}
	if !r.Known {
		a.names = nil
	}
	for _, name := range o.apart {
		if len(a.names) < oldApartSaid && !slices.Contains(a.names, name) {
			a.names = append(a.names, name)
		}
	}
	if r.Unnamed != "" {
		a.unnamed, a.paused = o.unnamed, now
	}
}
func (a *oldApart) forget() { a.seen, a.tried, a.unnamed = "", "", "" }
func (a *oldApart) goesOn(now time.Time) bool {
	return a.unnamed != "" && now.Sub(a.paused) >= oldUnnamedPause
}
func (a *oldApart) mayTry(served string, now time.Time) bool {
	return a.tried != served || now.Sub(a.at) >= oldUnnamedTime
}
func (a *oldApart) due(served string, now time.Time) bool {
	return a.goesOn(now) || len(a.names) > 0 && (a.seen != served || a.unnamed == "" && a.mayTry(served, now))
}
func (q *oldQuotas) lookAgain(p int) {
	q.apartIn(p).seen = ""
}
func (q *oldQuotas) tookBack(p int) {
	q.apartIn(p).forget()
}
func (q *oldQuotas) wakeApart() {
	for p, a := range q.apart {
		if len(a.names) > 0 {
			q.wakes[p] = true
		}
	}
}
func (q *oldQuotas) namesApart(p int) []string {
	return slices.Clone(q.apartIn(p).names)
}

type oldClosed struct {
	asking bool // and it is being asked again
}

func (q *oldQuotas) closedOf(name string) *oldClosed {
	of, _ := lua.SplitLane(name)
	return q.closed[of]
}
func (q *oldQuotas) isAsking(name string) bool {
	c := q.closedOf(name)
	return c != nil && c.asking
}
func (q *oldQuotas) close(name string, asking bool) {
	q.closed[name] = &oldClosed{asking: asking}
	q.flow(name) // so that a claim has a quota for it
}
func (q *oldQuotas) learn(name string, err error) {
	if err != nil {
		q.close(name, errors.Is(err, errLate))
		return
	}
	if q.closed[name] == nil {
		return
	}
	delete(q.closed, name)
	q.forgetAsked(name)
	q.looks++
}
func (q *oldQuotas) learnForeign(names []string, reply map[string]int, err error) {
	before := q.slots.served()
	q.slots.setForeign(names, reply, err)
	if q.slots.served() != before {
		q.wakeApart()
	}
}
