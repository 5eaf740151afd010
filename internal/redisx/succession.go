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
	primaries map[string]string    // by address, "" where there is one server: the id of the history of its data
	unsure    map[string]bool      // addresses of servers that were no primary, or may not be one any more
	known     map[string]time.Time // by such an id: until when its connections wait; zero: they do not
	last      time.Time            // when another primary took over; zero: never
	newest    string               // the id of the history of that one
	telling   bool                 // see SetTelling
	joining   bool                 // see Join
	outage    bool                 // see Join
}

// TellingLimit is how long others wait for a primary to be told after the time to settle, and how long a node tries to tell it.
const TellingLimit = 10 * time.Second

// tellingPause is the time between two looks whether a primary has been told.
const tellingPause = 50 * time.Millisecond

// NewSuccession returns a Succession for clients whose connections wait so long.
func NewSuccession(settle time.Duration) *Succession {
	return &Succession{
		settle: settle, changed: make(chan struct{}, 1),
		primaries: make(map[string]string), unsure: make(map[string]bool), known: make(map[string]time.Time),
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

// Last returns when another primary took over, or last answered again after a silence (Restart); zero: none has.
func (s *Succession) Last() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// SetTelling has connections to the newest primary wait while it is told, also when the time to settle is over, up to TellingLimit more.
func (s *Succession) SetTelling(telling bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.telling = telling
}

// Restart has the time to settle begin again, as the newest primary could not be told anything in it.
func (s *Succession) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = clock.Now()
	s.known[s.newest] = s.last.Add(s.settle)
}

// rest returns how long a connection to a primary waits now, and then asks again. The caller holds mu.
func (s *Succession) rest(id string) time.Duration {
	rest := clock.Until(s.known[id])
	if rest <= 0 && s.telling && id == s.newest && rest > -TellingLimit {
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
		s.meet(address, h.id, h.before)
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

// meet notes a primary, and whether it has taken over. before is the id of the history that its own goes on from, or noHistory. The caller holds mu.
func (s *Succession) meet(address, id, before string) {
	_, met := s.known[id]
	_, follows := s.known[before]
	if known := s.primaries[address]; known != "" && known != id || !met && follows {
		s.last, s.newest = clock.Now(), id
		s.known[id] = s.last.Add(s.settle)
		select {
		case s.changed <- struct{}{}:
		default:
		}
	} else if !met {
		s.known[id] = time.Time{}
		if s.joining && (s.outage || before != noHistory) {
			s.known[id] = clock.Now().Add(s.settle)
		}
	}
	for other, known := range s.primaries {
		if known == before { // it may become a primary again
			s.unsure[other] = true
		}
	}
	s.primaries[address] = id
	delete(s.unsure, address)
}

// noHistory is what a primary tells that goes on from no other one.
const noHistory = "0000000000000000000000000000000000000000"

// history is what a server tells of the history of its data.
type history struct {
	id      string // "" for a replica, or if the server never tells, as its user may not ask or it is none of Redis's own
	before  string // of the one that it goes on from, or noHistory
	replica bool
}

// historyOf asks a server for the history of its data. Errors: no answer, or one that Redis gives for a while only.
func historyOf(ctx context.Context, server redis.Cmdable) (history, error) {
	fields, err := Info(ctx, server, "replication")
	if isAnswer(err) && !Passes(err) {
		err = nil
	}
	if err != nil || fields["role"] != "master" {
		return history{replica: fields["role"] == "slave"}, err
	}
	return history{id: fields["master_replid"], before: fields["master_replid2"]}, nil
}
