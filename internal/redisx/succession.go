package redisx

import (
	"context"
	"strings"
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
	unsure    map[string]bool      // addresses of servers of a cluster that were no primary, or may not be one any more
	known     map[string]time.Time // by such an id: until when its connections wait; zero: they do not
	last      time.Time            // when another primary took over; zero: never
}

// NewSuccession returns a Succession for clients whose connections wait so long.
func NewSuccession(settle time.Duration) *Succession {
	return &Succession{
		settle: settle, changed: make(chan struct{}, 1),
		primaries: make(map[string]string), unsure: make(map[string]bool), known: make(map[string]time.Time),
	}
}

// Changed is signalled when another primary has taken over.
func (s *Succession) Changed() <-chan struct{} { return s.changed }

// Within reports whether another primary has taken over within that time.
func (s *Succession) Within(d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.last.IsZero() && clock.Since(s.last) < d
}

// admit looks who answers on a new connection to an address, and has it wait.
func (s *Succession) admit(ctx context.Context, conn *redis.Conn, address string, vital bool) error {
	id, before := historyOf(conn.Info(ctx, "replication").Val())
	if id == "" { // no primary, or one that does not tell
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unsure[address] = true
		return nil
	}
	wait := s.meet(address, id, before)
	if vital || wait <= 0 {
		return nil
	}
	return clock.Sleep(ctx, wait)
}

// untilSettled returns how long commands for a server of a cluster wait. It asks the server whether it has become a primary, if that is
// not known.
func (s *Succession) untilSettled(ctx context.Context, server *redis.Client) time.Duration {
	address := server.Options().Addr
	s.mu.Lock()
	unsure, wait := s.unsure[address], clock.Until(s.known[s.primaries[address]])
	s.mu.Unlock()
	if !unsure {
		return wait
	}
	id, before := historyOf(server.Info(ctx, "replication").Val())
	if id == "" {
		return 0 // it sends clients elsewhere
	}
	return s.meet(address, id, before)
}

// meet returns how long connections to a primary wait. before is the id of the history that its own goes on from, "" for none.
func (s *Succession) meet(address, id, before string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, met := s.known[id]
	_, follows := s.known[before]
	if known := s.primaries[address]; known != "" && known != id || !met && follows {
		s.last = clock.Now()
		s.known[id] = s.last.Add(s.settle)
		select {
		case s.changed <- struct{}{}:
		default:
		}
	} else if !met {
		s.known[id] = time.Time{}
	}
	for other, known := range s.primaries {
		if known == before { // it may become a primary again
			s.unsure[other] = true
		}
	}
	s.primaries[address] = id
	delete(s.unsure, address)
	return clock.Until(s.known[id])
}

// historyOf reads from INFO replication the id of the history of a primary's data, and of the one that it goes on from; "" for a replica.
func historyOf(info string) (id, before string) {
	fields := infoFields(info)
	if fields["role"] != "master" {
		return "", ""
	}
	return fields["master_replid"], fields["master_replid2"]
}

// infoFields reads the fields of a section of INFO.
func infoFields(info string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	return fields
}
