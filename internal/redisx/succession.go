package redisx

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
)

// Succession notices when another primary takes over from one to which clients of this process were connected: a replica in a failover, or
// the same server after a restart. It may lack writes that the one before had acknowledged. So only clients with [Options].Vital reach it at
// first: they tell it what this process knows, and the connections of all others wait for a while.
type Succession struct {
	settle  time.Duration
	changed chan struct{}

	mu        sync.Mutex
	primaries map[string]string   // by address, "" where there is one server: the id of the history of its data
	unsure    map[string]bool     // addresses of servers that were no primary, or may not be one any more
	known     map[string]*primary // by such an id
	last      time.Time           // when another primary took over; zero: never
	telling   bool                // see SetTelling
	joining   bool                // see Join
	outage    bool                // see Join
}

// primary is a primary that has answered this process.
type primary struct {
	run      string    // the id of its process; "" if it did not tell
	before   string    // the id of the history that its own goes on from, or noHistory
	tookOver time.Time // zero: it did not
	settled  time.Time // until then its connections wait; zero: they do not
	telling  bool      // ... and longer, until it is told what this process knows
	silent   bool      // it could not be told lately
}

// TellingLimit is how long others wait for a primary to be told after the time to settle, and how long a node tries to tell it.
const TellingLimit = 10 * time.Second

// tellingPause is the time between two looks whether a primary has been told.
const tellingPause = 50 * time.Millisecond

// NewSuccession returns a Succession for clients whose connections wait so long.
func NewSuccession(settle time.Duration) *Succession {
	return &Succession{
		settle: settle, changed: make(chan struct{}, 1),
		primaries: make(map[string]string), unsure: make(map[string]bool), known: make(map[string]*primary),
	}
}

// Join has connections to the first primary that this process meets wait, too, if that may just have taken over from one that other processes knew:
// if it goes on from the history of another one, or if outage says that Redis was away, which may have been its restart.
func (s *Succession) Join(outage bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joining, s.outage = true, s.outage || outage
}

// Changed is signalled when another primary has taken over.
func (s *Succession) Changed() <-chan struct{} { return s.changed }

// Within reports whether another primary has taken over within that time.
func (s *Succession) Within(d time.Duration) bool {
	last := s.Last()
	return !last.IsZero() && clock.Since(last) < d
}

// Last returns when another primary took over, or last could be told again after a silence (Told); zero: none has.
func (s *Succession) Last() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// SetTelling says whether this process tells what it knows to each primary that takes over, and calls Told. Connections to that wait meanwhile, also
// when the time to settle is over, up to TellingLimit more.
func (s *Succession) SetTelling(telling bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.telling = telling
	for _, p := range s.known {
		p.telling = p.telling && telling
	}
}

// Told notes which of the primaries that have taken over lately could be told what this process knows: all but those at some addresses, and those that
// have taken over from the primaries that were last seen there, as clients may not know yet. The time to settle of one that could not be told begins
// again when it can. It returns whether all could be told, and whether none needs to be told again: each has settled, or TellingLimit is over.
func (s *Succession) Told(except map[string]bool) (all, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	untold := make(map[string]bool) // by the ids of histories
	for address := range except {
		untold[s.primaries[address]] = true
	}
	all, done = true, true
	for id, p := range s.known {
		if !p.telling {
			continue
		}
		was := p.silent
		p.silent = untold[id] || untold[p.before]
		switch {
		case clock.Since(p.tookOver) >= TellingLimit:
			p.telling = false
		case was && !p.silent:
			s.last = clock.Now()
			p.settled = s.last.Add(s.settle)
		case !p.silent && clock.Until(p.settled) <= 0:
			p.telling = false
		}
		all, done = all && !p.silent, done && !p.telling
	}
	return all, done
}

// kept reports whether connections to an address had to wait for its primary at some time after since.
func (s *Succession) kept(address string, since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.known[s.primaries[address]]
	return p != nil && (p.settled.After(since) || p.telling && clock.Until(p.settled) > -TellingLimit)
}

// rest returns how long a connection to a primary waits now, and then asks again. The caller holds mu.
func (s *Succession) rest(id string) time.Duration {
	p := s.known[id]
	rest := clock.Until(p.settled)
	if rest <= 0 && p.telling && rest > -TellingLimit {
		return tellingPause
	}
	return rest
}

// wait waits until a primary has settled. Error: that of ctx.
func (s *Succession) wait(ctx context.Context, id string) error {
	for {
		s.mu.Lock()
		rest := s.rest(id)
		s.mu.Unlock()
		if rest <= 0 {
			return nil
		}
		if err := clock.Sleep(ctx, rest); err != nil {
			return err
		}
	}
}

// errReplica is the error of everything that is sent to a replica where a primary is asked for: what that would answer to a write, and then why.
const errReplica = reply("READONLY it is a replica: clients wait until it has become a primary, or until its address leads to one")

// admit looks who answers on a new connection to an address, and has it wait. If it returns an error, go-redis closes the connection: the answer
// to its question may still come, and would be taken for that to the first command. Errors: that of ctx, one of Redis, or errReplica.
func (s *Succession) admit(ctx context.Context, conn *redis.Conn, address string, vital bool) error {
	h, err := historyOf(ctx, conn)
	if err != nil {
		return err
	}
	if err := s.note(address, h); err != nil || h.id == "" || vital {
		return err
	}
	return s.wait(ctx, h.id)
}

// primaryAt returns the id of the history of the primary at an address. It asks the server whether it has become one, if that is not known; "" if it
// has not, or does not tell. Errors: one of Redis, or errReplica.
func (s *Succession) primaryAt(ctx context.Context, address string, server *redis.Client) (string, error) {
	s.mu.Lock()
	unsure, id := s.unsure[address], s.primaries[address]
	s.mu.Unlock()
	if !unsure {
		return id, nil
	}
	h, err := historyOf(ctx, server)
	if err == nil {
		err = s.note(address, h)
	}
	return h.id, err
}

// doubt has the server at an address asked before the next command whether it is a primary.
func (s *Succession) doubt(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsure[address] = true
}

// note notes who answers at an address. Error: errReplica, unless the server is one of a cluster, which sends clients elsewhere. The address of
// an only server may lead to several ones, so nobody could tell later on which of their connections a replica has become a primary.
func (s *Succession) note(address string, h history) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case h.id != "":
		s.meet(address, h)
	case h.replica:
		s.unsure[address] = true
	default: // asked again, it would not tell either
		delete(s.unsure, address)
	}
	if h.replica && address == "" {
		return errReplica
	}
	return nil
}

// meet notes a primary, and whether it has taken over. The caller holds mu.
func (s *Succession) meet(address string, h history) {
	_, met := s.known[h.id]
	_, follows := s.known[h.before]
	known := s.primaries[address]
	switch {
	case known != "" && h.renames(s.known[known], met):
		if !met {
			same := *s.known[known]
			s.known[h.id] = &same
		}
	case known != "" && known != h.id || !met && follows:
		s.last = clock.Now()
		s.known[h.id] = &primary{
			run: h.run, before: h.before, tookOver: s.last, settled: s.last.Add(s.settle), telling: s.telling,
		}
		s.signal()
	case !met:
		s.known[h.id] = &primary{run: h.run, before: h.before}
		if s.joining && (s.outage || h.before != noHistory) {
			s.known[h.id].settled = clock.Now().Add(s.settle)
		}
	}
	for other, known := range s.primaries {
		if known == h.before { // it may become a primary again
			s.unsure[other] = true
		}
	}
	s.primaries[address] = h.id
	delete(s.unsure, address)
}

// signal says that a primary has taken over.
func (s *Succession) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// renames reports whether the history is the one of the last primary at the same address under another name: Redis
// takes a new one when its first replica comes, and when it forgets what it kept for replicas. met says that the name
// was known, as when an answer was late.
func (h history) renames(last *primary, met bool) bool {
	return h.run != "" && h.run == last.run && (met || h.before == noHistory)
}

// noHistory is what a primary tells that goes on from no other one.
const noHistory = "0000000000000000000000000000000000000000"

// history is what a server tells of the history of its data.
type history struct {
	run     string // the id of the process; "" if it does not tell
	id      string // "" for a replica, or if the server never tells, as its user may not ask or it is none of Redis's own
	before  string // of the one that it goes on from, or noHistory
	replica bool
}

// historyOf asks a server for the history of its data. Errors: no answer, or one that Redis gives for a while only.
func historyOf(ctx context.Context, server redis.Cmdable) (history, error) {
	fields, err := infoOrNone(ctx, server, "replication")
	if err != nil || fields["role"] != "master" {
		return history{replica: fields["role"] == "slave"}, err
	}
	process, err := infoOrNone(ctx, server, "server")
	return history{run: process["run_id"], id: fields["master_replid"], before: fields["master_replid2"]}, err
}

// infoOrNone reads a section of INFO, none of it if the server never tells. Errors: as for historyOf.
func infoOrNone(ctx context.Context, server redis.Cmdable, section string) (map[string]string, error) {
	fields, err := Info(ctx, server, section)
	if isAnswer(err) && !Passes(err) {
		err = nil
	}
	return fields, err
}
