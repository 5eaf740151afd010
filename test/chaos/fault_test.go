package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/layout"
)

// fault is a kind of harm.
type fault struct {
	name string
	// needsNetwork: it is done by the proxies between a member and Redis.
	needsNetwork bool
	// needsName: it is done to a node or worker that has a name in the list of nodes.
	needsName bool
	// shortest and longest are how long it lasts. longest is 0: it is done in a moment. shortest is 0: a twentieth of longest.
	shortest, longest time.Duration
	// keepsRuns: no living worker may lose an attempt by it, so it excuses none that counts as lost. Of what is done to one member, the attempts of
	// that member may be lost. Of what is done to Redis, that is so only of what makes Redis forget.
	keepsRuns bool
	// away: a server of Redis does not answer or refuses all writes meanwhile, or another one begins to answer.
	away bool
	// always: it happens in each round of several faults on a deployment that can have it.
	always bool
	// One of these does the harm, for as long as it was planned, and mends it.
	harmMember func(ctx context.Context, m *member, h happening)
	harmFleet  func(r *round)
	harmRedis  func(ctx context.Context, r *round, h happening)
}

// isIn reports whether names has the fault.
func (f fault) isIn(names []string) bool {
	return slices.Contains(names, f.name) || slices.Contains(names, anyFault)
}

// fleetFaults are what can happen to a member of the fleet or to all of them, whatever Redis they have.
var fleetFaults = []fault{
	{name: "kill", longest: 2 * time.Second, harmMember: func(ctx context.Context, m *member, h happening) {
		m.kill()
		_ = clock.Sleep(ctx, h.lasts)
		m.start()
	}},
	{name: "stop", harmMember: func(_ context.Context, m *member, _ happening) {
		m.stop()
		m.start()
	}},
	{name: "freeze", shortest: 8 * time.Second, longest: 14 * time.Second, harmMember: freeze}, // beyond the leases of runs and of partitions
	{name: "freeze-short", longest: 6 * time.Second, harmMember: freeze},
	{name: "cut", needsNetwork: true, longest: 9 * time.Second, harmMember: breaking((*redistest.Proxy).Cut, (*redistest.Proxy).Mend)},
	{name: "delay", needsNetwork: true, longest: 9 * time.Second, harmMember: breaking((*redistest.Proxy).Hold, (*redistest.Proxy).Release)},
	{name: "drop-replies", needsNetwork: true, longest: 4 * time.Second, harmMember: breaking(func(p *redistest.Proxy) { p.DropAnswers(5) }, (*redistest.Proxy).Mend)},
	{
		name: draining, keepsRuns: true, needsName: true, shortest: 2 * time.Second, longest: 8 * time.Second,
		harmMember: drain,
	},
	{name: "rolling-restart", harmFleet: func(r *round) {
		for _, m := range r.members {
			r.harmMember(m, fault{name: "rolling-restart"}, func() {
				m.stop()
				m.start()
			})
		}
	}},
}

func freeze(ctx context.Context, m *member, h happening) {
	m.signal(syscall.SIGSTOP)
	_ = clock.Sleep(ctx, h.lasts)
	m.signal(syscall.SIGCONT)
}

// breaking breaks the way of a member to all servers of Redis, or only to the one of a key, and mends it.
func breaking(harm, mend func(*redistest.Proxy)) func(ctx context.Context, m *member, h happening) {
	return func(ctx context.Context, m *member, h happening) {
		broken := m.network
		if h.size < 0 && len(broken) > 1 {
			broken = ways(m.name, m.round.deployment.server(h.key))
		}
		for _, p := range broken {
			harm(p)
		}
		_ = clock.Sleep(ctx, h.lasts)
		for _, p := range broken {
			mend(p)
		}
	}
}

// serverFaults are what can happen to a server of Redis, whatever its deployment.
var serverFaults = []fault{
	{name: "redis-kill", keepsRuns: true, away: true, longest: 6 * time.Second, harmRedis: func(ctx context.Context, r *round, h happening) {
		s := r.deployment.server(h.key)
		r.holdWrites(ctx, s)
		settle := r.refuseWritesAtStart(ctx, s)
		s.Kill()
		r.awaitSilence(ctx, s, h)
		s.Restart()
		settle()
	}},
	{name: "redis-pause", keepsRuns: true, away: true, longest: 8 * time.Second, harmRedis: func(ctx context.Context, r *round, h happening) {
		s := r.deployment.server(h.key)
		r.holdWrites(ctx, s)
		s.Pause()
		r.awaitSilence(ctx, s, h)
		s.Continue()
		r.allowWrites(ctx, s, h.key)
	}},
	{name: "writes-refused", keepsRuns: true, away: true, longest: 8 * time.Second, harmRedis: func(ctx context.Context, r *round, h happening) {
		allow := r.refuseWrites(ctx, r.deployment.server(h.key))
		_ = clock.Sleep(ctx, h.lasts)
		allow()
	}},
	{name: filling, keepsRuns: true, longest: 6 * time.Second, harmRedis: func(ctx context.Context, r *round, h happening) {
		r.past.fill()
		r.tell(ctx, r.deployment.server(h.key), "config", "set", "maxmemory", "1")
		_ = clock.Sleep(ctx, h.lasts)
		r.liftLimit(ctx)
	}},
	{name: "script-flush", keepsRuns: true, harmRedis: func(ctx context.Context, r *round, h happening) {
		r.tell(ctx, r.deployment.server(h.key), "script", "flush")
	}},
	{name: "client-kill", keepsRuns: true, harmRedis: func(ctx context.Context, r *round, h happening) {
		for _, kind := range []string{"normal", "pubsub"} {
			r.tell(ctx, r.deployment.server(h.key), "client", "kill", "type", kind, "skipme", "yes")
		}
	}},
	{name: "queue-deleted", keepsRuns: true, harmRedis: func(ctx context.Context, r *round, _ happening) {
		r.deleteQueues(ctx)
	}},
	{name: "delivery-doubled", keepsRuns: true, longest: 3 * time.Second, harmRedis: func(ctx context.Context, r *round, h happening) {
		r.doubleDeliveries(ctx, h.lasts)
	}},
}

// draining is the name of the fault by which a node takes no tasks, and asks what runs there to move.
const draining = "drain"

// filling is the name of the fault by which Redis is full.
const filling = "redis-full"

// holdWrites has a server that has replicas take no more writes, and waits until a replica has all that it took: what it has acknowledged is
// not lost then, whoever takes over.
func (r *round) holdWrites(ctx context.Context, s *redistest.Server) {
	if len(r.deployment.all()) == 1 {
		return
	}
	r.tell(ctx, s, "client", "pause", time.Minute.Milliseconds(), "write")
	written, _ := offsets(ctx, s)
	for patience := 100; patience > 0; patience-- {
		if _, copied := offsets(ctx, s); copied >= written {
			return
		}
		_ = clock.Sleep(ctx, 10*time.Millisecond)
	}
	r.t.Logf("no replica of %s keeps up: what it took last may be lost", s.Addr())
}

var (
	writtenOffset = regexp.MustCompile(`master_repl_offset:(\d+)`)
	copiedOffset  = regexp.MustCompile(`state=online,offset=(\d+)`)
)

// offsets are how much a primary has written, and how much of that the replica has that has most.
func offsets(ctx context.Context, s *redistest.Server) (written, copied int) {
	info := s.Admin().Info(ctx, "replication").Val()
	for _, m := range copiedOffset.FindAllStringSubmatch(info, -1) {
		n, _ := strconv.Atoi(m[1]) // of digits
		copied = max(copied, n)
	}
	if m := writtenOffset.FindStringSubmatch(info); m != nil {
		written, _ = strconv.Atoi(m[1])
	}
	return written, copied
}

// allowWrites ends holdWrites, once it is settled whether the server is still the one that has the key.
func (r *round) allowWrites(ctx context.Context, s *redistest.Server, key string) {
	if len(r.deployment.all()) == 1 {
		return
	}
	for clock.Sleep(ctx, time.Second) == nil {
		if d, ok := r.deployment.(settler); ok {
			d.Settle(s)
		}
		role, err := s.Admin().Do(ctx, "role").Slice()
		if err == nil && (role[0] == "slave") == (r.deployment.server(key) != s) {
			break
		}
	}
	r.tell(ctx, s, "client", "unpause")
}

// watched is a deployment with sentinels. SetPatience sets how long a primary may be silent until they replace it.
type watched interface{ SetPatience(d time.Duration) }

// awaitSilence waits for as long as a server is silent that has lost no writes by that. Sentinels replace it soon.
func (r *round) awaitSilence(ctx context.Context, s *redistest.Server, h happening) {
	end := clock.Now().Add(h.lasts)
	if d, ok := r.deployment.(watched); ok {
		d.SetPatience(time.Second)
		for r.deployment.server(h.key) == s && clock.Now().Before(end) && clock.Sleep(ctx, 100*time.Millisecond) == nil {
			continue
		}
		d.SetPatience(patience) // with the next one, which takes writes
	}
	_ = clock.Sleep(ctx, end.Sub(clock.Now()))
}

// settler is a deployment in which a failover can be under way when a server is there again. Settle waits for its end.
type settler interface{ Settle(s *redistest.Server) }

// refuseWritesAtStart has a server take no writes when it starts the next time, until settle: if others replace it just then, what it took would be lost.
func (r *round) refuseWritesAtStart(ctx context.Context, s *redistest.Server) (settle func()) {
	d, ok := r.deployment.(settler)
	if !ok {
		return func() {}
	}
	allow := r.refuseWrites(ctx, s)
	return func() {
		d.Settle(s)
		allow()
	}
}

// refuseWrites has a server answer and take no writes until allow, as a primary does that has lost its replicas. It goes on to if it starts again.
func (r *round) refuseWrites(ctx context.Context, s *redistest.Server) (allow func()) {
	const setting, many = "min-replicas-to-write", 9 // more than it has
	set := func(n any) {
		r.tell(ctx, s, "config", "set", setting, n)
		r.tell(ctx, s, "config", "rewrite")
	}
	before, err := s.Admin().ConfigGet(ctx, setting).Result()
	if err != nil {
		r.t.Errorf("reading %s: %v", setting, err)
	}
	set(many)
	return func() { set(before[setting]) }
}

// tell tries until a server has taken a command: another fault may be in its way. It returns the list that is the reply, if it is one.
func (r *round) tell(ctx context.Context, s *redistest.Server, command ...any) []any {
	for {
		reply, err := s.Admin().Do(ctx, command...).Result()
		if err == nil {
			list, _ := reply.([]any)
			return list
		}
		if clock.Sleep(ctx, 100*time.Millisecond) != nil {
			r.t.Errorf("%v: %v", command, err)
			return nil
		}
	}
}

// liftLimit lifts the limit of full servers.
func (r *round) liftLimit(ctx context.Context) {
	for _, s := range r.deployment.all() {
		r.tell(ctx, s, "config", "set", "maxmemory", "0")
	}
}

// queues are the queue of all nodes, and those of one node each.
func (r *round) queues(ctx context.Context) (names []string) {
	const all = "asynq:queues"
	for _, name := range r.tell(ctx, r.deployment.server(all), "smembers", all) {
		names = append(names, fmt.Sprint(name))
	}
	return names
}

// deleteQueues deletes all keys of all queues of asynq one by one, as somebody may do who cleans up.
func (r *round) deleteQueues(ctx context.Context) {
	for _, name := range r.queues(ctx) {
		prefix := "asynq:{" + name + "}:"
		s := r.deployment.server(prefix)
		for _, key := range r.tell(ctx, s, "keys", prefix+"*") {
			r.tell(ctx, s, "del", key)
		}
	}
}

// doubleDeliveries has deliveries that a worker has taken wait again, so that another one takes them too, as asynq does when it believes that
// the first one is dead.
func (r *round) doubleDeliveries(ctx context.Context, lasts time.Duration) {
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		for _, name := range r.queues(ctx) {
			active, pending := "asynq:{"+name+"}:active", "asynq:{"+name+"}:pending"
			s := r.deployment.server(active)
			for _, id := range r.tell(ctx, s, "lrange", active, 0, -1) {
				r.tell(ctx, s, "rpush", pending, id)
			}
		}
		_ = clock.Sleep(ctx, doublePace)
	}
}

// doublePace is the time between two looks for deliveries that a worker has taken.
const doublePace = 100 * time.Millisecond

// happening is one fault of a round's plan.
type happening struct {
	fault
	after  time.Duration // since the faults began
	lasts  time.Duration
	size   float64 // of what can be more or less: -1 to 1
	member *member // nil: Redis, or all members
	key    string  // its server is harmed
}

func (h happening) String() string {
	s := fmt.Sprintf("%s %s", h.after.Round(time.Millisecond), h.name)
	if h.member != nil {
		s += " " + h.member.name
	}
	if h.lasts > 0 {
		s += fmt.Sprintf(" for %s, size %.2f", h.lasts.Round(time.Millisecond), h.size)
	}
	return s
}

// plan chooses what happens within a time: some of all faults that are possible here or, if only has names, one of those. Seeds in a row choose
// each of them in turn.
func (r *round) plan(seed uint64, only []string, within time.Duration) []happening {
	random := rand.New(rand.NewPCG(seed, 2))
	var possible []fault
	var names []string
	for _, f := range slices.Concat(fleetFaults, serverFaults, r.deployment.faults()) {
		if f.needsNetwork && len(r.members[0].network) == 0 {
			continue
		}
		names = append(names, f.name)
		if len(only) == 0 || f.isIn(only) {
			possible = append(possible, f)
		}
	}
	if len(possible) == 0 {
		r.t.Fatalf("%s names no fault that this deployment can have, which are: %s", faultVariable, strings.Join(names, ", "))
	}
	all := make([]happening, perRound)
	if len(only) > 0 {
		all = all[:1]
	}
	for i := range all {
		f := possible[random.IntN(len(possible))]
		switch always := slices.IndexFunc(possible, func(f fault) bool { return f.always }); {
		case len(only) > 0:
			f = possible[seed%uint64(len(possible))]
		case i == 0 && always >= 0:
			f = possible[always]
		}
		all[i] = happening{
			fault: f, after: time.Duration(random.Int64N(int64(within))), size: 2*random.Float64() - 1, key: keyOf(random.IntN(layout.DefaultPartitions)),
		}
		if f.longest > 0 {
			shortest := cmp.Or(f.shortest, f.longest/20)
			all[i].lasts = shortest + time.Duration(random.Int64N(int64(f.longest-shortest)))
		}
		if f.harmMember != nil {
			all[i].member = r.target(random, f)
		}
	}
	return all
}

// target chooses a member that a fault can harm.
func (r *round) target(random *rand.Rand, f fault) *member {
	for {
		m := r.members[random.IntN(len(r.members))]
		if (!f.needsNetwork || len(m.network) > 0) && (!f.needsName || m.through == nil) {
			return m
		}
	}
}

// harm does all that was planned, each in its time. What concerns the same member, or Redis, happens one after the other.
func (r *round) harm(ctx context.Context, plan []happening) {
	var running sync.WaitGroup
	for _, h := range plan {
		running.Go(func() {
			if clock.Sleep(ctx, h.after) != nil {
				return
			}
			h.do(ctx, r)
		})
	}
	running.Wait()
}

// do does the harm, as soon as what it concerns is not harmed by another fault.
func (h happening) do(ctx context.Context, r *round) {
	switch {
	case h.harmFleet != nil:
		h.harmFleet(r)
	case h.harmMember != nil:
		r.harmMember(h.member, h.fault, func() { h.harmMember(ctx, h.member, h) })
	default:
		r.redisHurt.Lock()
		defer r.redisHurt.Unlock()
		from := time.Now()
		h.harmRedis(ctx, r, h)
		r.past.addHarm(harm{span: span{from, time.Now()}, name: h.name, keepsRuns: h.keepsRuns, away: h.away})
	}
}

// harmMember does something to a member, and notes when.
func (r *round) harmMember(m *member, f fault, do func()) {
	m.hurt.Lock()
	defer m.hurt.Unlock()
	from := time.Now()
	do()
	r.past.addHarm(harm{span: span{from, time.Now()}, name: f.name, member: m.name, keepsRuns: f.keepsRuns})
}
