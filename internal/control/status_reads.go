package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/store/doctor"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/why"
)

// statusFacts reads what decides how the installation is. What cannot be read is left out; if that is as Redis does not
// answer, the facts say so.
func (c *Control) statusFacts(ctx context.Context, how look) (f status.Facts) {
	ctx, left := redisx.LeavingOut(ctx)
	reading, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var silent failures
	refuses := ""
	together(
		func() { silent.note("how Redis is", c.readRedis(reading, &f.Redis)) },
		func() { silent.note("the list of nodes", c.readNodes(reading, how, &f)) },
		func() { silent.note("the queues", c.readQueues(reading, how, &f)) },
		func() {
			var err error
			f.Doctor, err = c.statuses.examined.get(how, func() (status.Examination, error) { return c.readExamined(reading) })
			silent.note("what doctor found", err)
		},
		func() {
			var err error
			f.Schedules, err = c.statuses.schedules.get(ctx, how, c.findTroubled) // it has a limit of its own
			silent.note("the schedules", err)
		},
		func() {
			past, err := c.statuses.past.get(how, func() (past, error) { return c.recentMinutes(reading, pastMinutes) })
			silent.note("the counts of the last hour", err)
			f.Last, f.Hour, f.Cause = pastOf(past)
		},
		func() {
			if how.closely {
				refuses = c.store.RefusesWrites(reading, 0)
			}
		},
	)
	if blocked := c.blockedBy(silent.first()); blocked != nil && blocked.Code == why.RedisSilent {
		f.Redis.Silent, f.Redis.Since = blocked.Detail, blocked.Since
	}
	f.Redis.Refuses = refuses
	if len(f.Queues) > 0 {
		silent.note("who holds the slots", c.readHeld(reading, &f))
	}
	f.Unread = slices.Concat(silent.texts, left.Texts())
	slices.Sort(f.Unread)
	if f.Redis.Silent != "" {
		f.Unread = []string{"what else needs somebody is not known, as Redis does not tell"}
	}
	return f
}

// failures collects errors of reads that are made at once.
type failures struct {
	mu    sync.Mutex
	all   []error
	texts []string
}

// note notes that something cannot be read because of err, unless that is nil.
func (f *failures) note(what string, err error) {
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.all = append(f.all, err)
		f.texts = append(f.texts, what+" cannot be read: "+redisx.WithoutDoubt(redisx.WhyNot(err)))
	}
}

// first returns the first one of them that says that Redis is away; nil if none does.
func (f *failures) first() error {
	for _, err := range f.all {
		if task.CodeOf(err) == task.CodeUnavailable {
			return err
		}
	}
	return nil
}

// readRedis reads how the servers of Redis are: of those with data, what concerns the fullest one, and any trouble with
// a disk. Error: CodeUnavailable.
func (c *Control) readRedis(ctx context.Context, r *status.Redis) error {
	keys := make([]string, c.store.Layout.Partitions())
	for p := range keys {
		keys[p] = string(c.store.Keys.Partition(p).States())
	}
	var mu sync.Mutex
	var silent failures
	err := c.store.DB.EachServer(ctx, keys, func(server redis.Cmdable, _ []int) {
		began := clock.Now()
		fields, err := redisx.Info(ctx, server, "everything")
		took := clock.Since(began)
		var refused redis.Error
		if err != nil && !errors.As(err, &refused) { // one that may not be asked is well
			silent.note("a server of Redis", layout.Unavailable(err))
			return
		}
		mu.Lock()
		defer mu.Unlock()
		r.RoundTrip = max(r.RoundTrip, took)
		if m := redisx.MemoryIn(fields); m.InUse() > share(*r) || r.Memory == 0 {
			r.Memory, r.MaxMemory = m.Used, m.Limit
		}
		for _, name := range []string{"aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"} {
			if said := fields[name]; said != "" && said != "ok" {
				r.Disk = name + " is " + said
			}
		}
	})
	if err != nil {
		return layout.Unavailable(err)
	}
	return silent.first()
}

// share is the share of its maxmemory that a Redis uses.
func share(r status.Redis) float64 {
	if r.MaxMemory <= 0 {
		return 0
	}
	return r.Memory / r.MaxMemory
}

// readNodes reads the nodes, and which partitions none of them leads. Error: CodeUnavailable.
func (c *Control) readNodes(ctx context.Context, how look, f *status.Facts) error {
	if c.nodes == nil {
		return nil
	}
	nodes, err := c.statuses.nodes.get(how, func() ([]cluster.Node, error) { return c.nodes.Nodes(ctx) })
	if err != nil { // as of the last heartbeat; who leads may have changed
		for _, n := range c.nodes.View().Nodes {
			f.Nodes = append(f.Nodes, nodeOf(n))
		}
		return err
	}
	if !how.lately {
		nodes = withDead(c.nodes.View().Nodes, nodes)
	}
	led := make([]bool, c.store.Layout.Partitions())
	for _, n := range nodes {
		f.Nodes = append(f.Nodes, nodeOf(n))
		for _, p := range n.Partitions {
			if n.State != cluster.StateDead && p >= 0 && p < len(led) {
				led[p] = true
			}
		}
	}
	for p := range led {
		if !led[p] {
			f.Unled = append(f.Unled, p)
		}
	}
	return nil
}

// withDead adds the dead nodes of an older list to one of living nodes.
func withDead(living, older []cluster.Node) []cluster.Node {
	all := slices.Clone(living)
	for _, n := range older {
		here := slices.ContainsFunc(living, func(l cluster.Node) bool { return l.ID == n.ID })
		if !here && n.State == cluster.StateDead {
			all = append(all, n)
		}
	}
	return all
}

// nodeOf is a node as the status knows it.
func nodeOf(n cluster.Node) status.Node {
	w := workerOf(n)
	return status.Node{
		ID: w.ID, Alive: w.Alive, Draining: w.Draining, Worker: n.Has(config.RoleWorker), Leads: n.Has(config.RoleScheduler),
		Queues: w.Queues, Types: w.Types, Capacity: w.Capacity, Running: w.Running, LastBeat: w.LastBeat,
	}
}

// readQueues reads the queues in which tasks wait. Error: CodeUnavailable.
func (c *Control) readQueues(ctx context.Context, how look, f *status.Facts) error {
	if c.queues == nil {
		return nil
	}
	names, err := c.statuses.queues.get(how, func() ([]string, error) { return c.queues.Known(ctx) })
	if err != nil {
		return layout.Unavailable(err)
	}
	waits, err := c.readWaits(ctx, names)
	if err != nil {
		return err
	}
	f.Queues = c.queuesOf(waits)
	if len(f.Queues) == 0 {
		return nil
	}
	slots := c.foreign.slots.get(ctx, foreignLifetime, c.queues.ForeignSlots)
	for i := range f.Queues {
		f.Queues[i].Foreign = slots[f.Queues[i].Name] > 0
	}
	return nil
}

// queuesOf returns the queues that asynq knows, and those of which tasks wait in DTS, by name; none if no task waits.
func (c *Control) queuesOf(w waits) []status.Queue {
	byName := make(map[string]*status.Queue)
	of := func(name string) *status.Queue {
		if byName[name] == nil {
			byName[name] = &status.Queue{Name: name}
		}
		return byName[name]
	}
	for _, s := range w.standings {
		q := of(s.Name)
		q.Paused, q.PausedAt, q.PausedBy, q.Waiting = s.Paused, s.PausedAt, s.PausedBy, s.Pending
	}
	for _, set := range w.sets {
		q := of(set.Queue)
		q.Waiting += set.Number
		q.Oldest = earlier(q.Oldest, set.Oldest)
		if set.Type != "" {
			c.addLane(q, set)
		}
	}
	var all []status.Queue
	for _, q := range byName {
		all = append(all, *q)
	}
	slices.SortFunc(all, func(a, b status.Queue) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// addLane adds the tasks of one type that wait apart in a partition.
func (c *Control) addLane(q *status.Queue, set layout.ReadySet) {
	i := slices.IndexFunc(q.Lanes, func(l status.Lane) bool { return l.Type == set.Type })
	if i < 0 {
		i = len(q.Lanes)
		q.Lanes = append(q.Lanes, status.Lane{Type: set.Type, Setting: c.types[set.Type].Setting})
	}
	lane := &q.Lanes[i]
	lane.Waiting += set.Number
	lane.Oldest = earlier(lane.Oldest, set.Oldest)
}

// readHeld reads which tasks have held slots for long, if any queue in which tasks wait may have no free slot. Error:
// CodeUnavailable.
func (c *Control) readHeld(ctx context.Context, f *status.Facts) error {
	full := func(q status.Queue) bool { return q.Waiting > 0 && noneFree(f.Nodes, q.Name) }
	if !slices.ContainsFunc(f.Queues, full) {
		return nil
	}
	running, err := c.store.LongestRunning(ctx, runningOfEach)
	if err != nil {
		return err
	}
	read, err := c.store.Tasks.Briefs(ctx, running)
	if err != nil {
		return err
	}
	holders := holdersAmong(read)
	now := c.now(ctx, task.Ref{})
	for i := range f.Queues {
		if q := &f.Queues[i]; full(*q) {
			countHeld(q, f.Nodes, holders, now)
		}
	}
	return nil
}

// noneFree reports whether the living nodes that serve a queue have no free slot.
func noneFree(nodes []status.Node, queueName string) bool {
	return !slices.ContainsFunc(nodes, func(n status.Node) bool {
		return n.Alive && slices.Contains(n.Queues, queueName) && n.Running < n.Capacity
	})
}

// countHeld counts the slots of a queue's nodes that tasks have held for long.
func countHeld(q *status.Queue, nodes []status.Node, holders []why.Running, now time.Time) {
	for _, h := range holders { // those that began first come first
		serves := slices.ContainsFunc(nodes, func(n status.Node) bool {
			return n.ID == h.Node && slices.Contains(n.Queues, q.Name)
		})
		if !serves || now.Sub(h.StartedAt) < status.HeldAfter {
			continue
		}
		if q.Held == 0 {
			q.Holder, q.HeldFrom = h.Ref.ID, h.StartedAt
		}
		q.Held++
	}
}

// readExamined reads what doctor has found. Error: CodeUnavailable.
func (c *Control) readExamined(ctx context.Context) (x status.Examination, _ error) {
	found, err := c.store.ReadExamined(ctx)
	if err != nil {
		return x, err
	}
	now := c.now(ctx, task.Ref{})
	for name, e := range found {
		if x.At.Before(e.At) {
			x.At = e.At
		}
		switch {
		case e.Open == 0 || now.Sub(e.At) > status.ExaminedSince:
		case e.Severity == string(doctor.Error):
			x.Errors = append(x.Errors, name)
		case e.Severity == string(doctor.Warning):
			x.Warnings = append(x.Warnings, name)
		}
	}
	slices.Sort(x.Errors)
	slices.Sort(x.Warnings)
	return x, nil
}

// The minutes that a status looks at: the last ones, the present one included, and the hour before.
const (
	lastMinutes = 5
	pastMinutes = lastMinutes + 60
)

// pastOf sums up the last minutes, up to the time of the reading, and the hour before them. It returns also the most
// frequent cause of the failures of the last minutes.
func pastOf(p past) (last, hour status.Window, cause status.Cause) {
	if len(p.minutes) != pastMinutes {
		return last, hour, cause
	}
	before, newest := p.minutes[:pastMinutes-lastMinutes], p.minutes[pastMinutes-lastMinutes:]
	last, hour = windowOf(newest, p.at), windowOf(before, newest[0].At)
	merged := rollup.Merge(newest[0].At, rollup.Span, rollup.HourCauses, newest...)
	if len(merged.Causes) > 0 {
		c := merged.Causes[0]
		cause = status.Cause{Text: c.Text, Count: c.Count, Example: c.Example.Task.String()}
	}
	return last, hour, cause
}

// windowOf sums up minutes, which have been counted until a time.
func windowOf(minutes []rollup.Minute, until time.Time) status.Window {
	var all rollup.Queue
	for _, m := range minutes {
		all = all.Plus(m.Total())
	}
	return status.Window{
		Span: until.Sub(minutes[0].At), Begun: all.Begun, Ended: all.Ended(), Failed: all.Bad(),
		LateP50: all.Late.Quantile(0.5), LateP99: all.Late.Quantile(0.99), LateMost: all.Late.Max,
	}
}

// seldom is something that is read each time while somebody reads the status, else once a minute.
type seldom[T any] struct {
	mu     sync.Mutex
	value  T
	readAt time.Time // by the clock of this process; zero: never
}

// seldomAfter is the time between two readings while nobody reads the status.
const seldomAfter = time.Minute

func (s *seldom[T]) get(how look, read func() (T, error)) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !how.lately && !s.readAt.IsZero() && clock.Since(s.readAt) < seldomAfter {
		return s.value, nil
	}
	value, err := read()
	if err == nil {
		s.value, s.readAt = value, clock.Now()
	}
	return value, err
}

const (
	troubledPause  = 5 * time.Second // between two looks at all schedules, at least
	troubledTimes  = 50              // how many times as long as a look the pause after it is
	troubledLimit  = time.Minute     // of one look
	troubledLength = 1000            // schedules that are kept of a look
)

// troubledSchedules are the schedules that may need somebody, as of some seconds ago.
type troubledSchedules struct {
	mu      sync.Mutex
	found   []status.Schedule
	looking bool
	looked  time.Time // the end of the last look, by the clock of this process; zero: there was none
	took    time.Duration
}

// get returns them. One caller looks again if it is time; others get what was known before.
func (t *troubledSchedules) get(
	ctx context.Context, how look, find func(context.Context) ([]status.Schedule, error),
) ([]status.Schedule, error) {
	if !t.begin(how) {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.found, nil
	}
	ctx, cancel := context.WithTimeout(ctx, troubledLimit)
	defer cancel()
	began := clock.Now()
	found, err := find(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.found = found
	}
	t.looking, t.looked, t.took = false, clock.Now(), clock.Since(began)
	return t.found, err
}

// begin reports whether the caller has to look again.
func (t *troubledSchedules) begin(how look) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	pause := max(troubledPause, troubledTimes*t.took)
	if !how.lately {
		pause = max(seldomAfter, pause)
	}
	if t.looking || !t.looked.IsZero() && clock.Since(t.looked) < pause {
		return false
	}
	t.looking = true
	return true
}

// findTroubled looks at all schedules. Error: CodeUnavailable.
func (c *Control) findTroubled(ctx context.Context) ([]status.Schedule, error) {
	var found []status.Schedule
	now := c.now(ctx, task.Ref{})
	err := c.store.Schedules.EachTracked(ctx, EveryNamespace, func(s schedule.Schedule) {
		if one := troubleOf(s, now); one != (status.Schedule{}) && len(found) < troubledLength {
			one.Namespace, one.ID = s.Namespace, s.ID
			found = append(found, one)
		}
	})
	return found, err
}

// troubleOf returns what may be wrong with a schedule; the zero value for nothing.
func troubleOf(s schedule.Schedule, now time.Time) (t status.Schedule) {
	if s.Has(schedule.Missing, now, 0) {
		t.MissedAt = s.Track.MissedAt
	}
	if s.PausedItself() {
		t.PausedItself, t.Note = s.PausedAt, s.PauseNote
		return t
	}
	if !s.PausedAt.IsZero() || !s.EndedAt.IsZero() { // somebody has stopped it
		return t
	}
	if t.Failures = s.Failures; t.Failures > 0 {
		if last, ok := s.Track.LastEnd(); ok {
			t.LastFailure = last.At
		}
	}
	if next, ok := s.NextTick(); ok && now.Sub(next) >= status.NotDecided {
		t.DueTick = next
	}
	return t
}
