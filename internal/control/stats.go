package control

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// The spans of time of which counts are kept.
const (
	ByMinute = time.Hour      // up to it, there are counts by minute
	ByHour   = 24 * time.Hour // beyond, by hour
)

// StatsFilter says of what time and which queue somebody wants counts.
type StatsFilter struct {
	Since time.Duration // up to now; 0 means ByMinute
	Queue string        // "" for all
}

// Stats are counts of what all nodes have recorded.
type Stats struct {
	From    time.Time     // the begin of the first period
	Until   time.Time     // now, by the clock of Redis
	Length  time.Duration // of a period: a minute or an hour
	Periods []Period      // oldest first, the present one at the end
	Queues  []QueueStats  // by name
}

// Period is a minute or an hour.
type Period struct {
	At       time.Time
	Counts   rollup.Queue // of all queues, or of the one that was asked for
	Running  int          // at its end; of an hour, the most
	Capacity int
	Sampled  bool // what waited and ran is known
}

// QueueStats is what happened in one queue in all periods, and what waits now.
type QueueStats struct {
	Name   string
	Counts rollup.Queue
}

// ReadStats returns what began and ended, and how late. It takes a few round trips. Errors: CodeInvalid,
// queue.CodeNotFound, CodeUnavailable.
func (c *Control) ReadStats(ctx context.Context, who Caller, f StatsFilter) (Stats, error) {
	if _, err := c.begin(ctx, who, "readStats"); err != nil {
		return Stats{}, err
	}
	kept, err := c.kept(ctx, f.Since)
	if err != nil {
		return Stats{}, err
	}
	waiting, err := c.waiting(ctx)
	if err != nil {
		return Stats{}, err
	}
	s := kept.stats(waiting, f.Queue)
	if f.Queue != "" && len(s.Queues) == 0 {
		return s, c.mustKnow(ctx, f.Queue)
	}
	return s, nil
}

// stats are the counts of a queue, or of all if that is "", with what waits now.
func (k kept) stats(waiting map[string]waitingTasks, queue string) Stats {
	s := Stats{From: k.from, Until: k.now, Length: k.length}
	for at := k.from; !at.After(k.now); at = at.Add(k.length) {
		s.Periods = append(s.Periods, periodOf(at, k.periods[at], queue))
	}
	s.Periods[len(s.Periods)-1].addWaiting(waiting, queue, k.now)
	s.Queues = queueStats(k, waiting, queue)
	return s
}

// ReadHour returns the counts of the last hour, without what waits now, and why attempts failed in it in the caller's
// namespace, which may be EveryNamespace. Both are of one queue, or of all if that is "". Error: CodeUnavailable.
func (c *Control) ReadHour(ctx context.Context, who Caller, queue string) (Stats, Failures, error) {
	if _, err := c.begin(ctx, who, "readStats"); err != nil {
		return Stats{}, Failures{}, err
	}
	kept, err := c.kept(ctx, ByMinute)
	if err != nil {
		return Stats{}, Failures{}, err
	}
	return kept.stats(nil, queue), kept.failures(who, FailureFilter{Queue: queue}), nil
}

// mustKnow returns an error if nobody knows a queue: asynq does not, no node serves it, and it has no limit. Errors:
// CodeInvalid, queue.CodeNotFound, CodeUnavailable.
func (c *Control) mustKnow(ctx context.Context, name string) error {
	if err := task.ValidateQueue(name); err != nil {
		return err
	}
	known, err := c.queues.IsKnown(ctx, name)
	if err != nil {
		return layout.Unavailable(err)
	}
	capacities, err := c.limits.All(ctx)
	if err != nil || known || capacities[name] > 0 || c.nodes != nil && c.servesQueue(name) {
		return err
	}
	return task.Errorf(queue.CodeNotFound, "no queue %q", name)
}

// addWaiting adds what waits now to the period that lasts, of a queue or of all. Of an hour, the most counts.
func (p *Period) addWaiting(waiting map[string]waitingTasks, only string, now time.Time) {
	var sum waitingTasks
	for name, w := range waiting {
		if only == "" || only == name {
			sum = sum.plus(w)
		}
	}
	p.Counts.Waiting, p.Counts.Oldest = max(p.Counts.Waiting, sum.number), max(p.Counts.Oldest, sum.age(now))
}

// periodOf is what a minute or an hour has of a queue, "" for all.
func periodOf(at time.Time, m rollup.Minute, queue string) Period {
	p := Period{At: at, Running: m.Running, Capacity: m.Capacity, Sampled: m.Sampled}
	if queue == "" {
		p.Counts = m.Total()
	} else {
		p.Counts = m.Queues[queue]
	}
	return p
}

// queueStats adds up the periods by queue. What waits is what waits now.
func queueStats(kept kept, waiting map[string]waitingTasks, only string) []QueueStats {
	sums := make(map[string]rollup.Queue)
	for _, m := range kept.periods {
		for name, q := range m.Queues {
			sums[name] = sums[name].Plus(q)
		}
	}
	for name := range waiting {
		sums[name] = sums[name].Plus(rollup.Queue{}) // is listed
	}
	var all []QueueStats
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		if only != "" && only != name {
			continue
		}
		q := sums[name]
		q.Waiting, q.Oldest = waiting[name].number, waiting[name].age(kept.now)
		all = append(all, QueueStats{Name: name, Counts: q})
	}
	return all
}

// kept is what is kept of a span of time.
type kept struct {
	from, now time.Time
	length    time.Duration
	periods   map[time.Time]rollup.Minute // by their begin; those in which nothing happened are missing
}

// kept reads the minutes of the last hour, or the hours of the last day. Errors: CodeInvalid, CodeUnavailable.
func (c *Control) kept(ctx context.Context, since time.Duration) (kept, error) {
	since = cmp.Or(since, ByMinute)
	if since < rollup.Span || since > ByHour {
		return kept{}, task.Invalid("since", "must be %s to %s", rollup.Span, ByHour)
	}
	now, err := c.anyNow(ctx)
	if err != nil {
		return kept{}, err
	}
	k := kept{now: now, length: rollup.Span, periods: make(map[time.Time]rollup.Minute)}
	if since > ByMinute {
		k.length = time.Hour
	}
	k.from = now.Add(-since).Truncate(k.length).UTC()
	if since > ByMinute {
		return k, c.addHours(ctx, &k)
	}
	minutes, err := c.store.Minutes.Read(ctx, k.from, now)
	for _, m := range minutes {
		k.periods[m.At] = m
	}
	return k, err
}

// addHours adds the hours that are closed, and of the others the minutes that are kept. Error: CodeUnavailable.
func (c *Control) addHours(ctx context.Context, k *kept) error {
	hours, err := c.store.Minutes.Hours(ctx, k.from)
	if err != nil {
		return err
	}
	for _, h := range hours {
		k.periods[h.At] = h
	}
	first := k.now.Add(-(rollup.MinutesKept - 1) * rollup.Span)
	minutes, err := c.store.Minutes.Read(ctx, first, k.now)
	if err != nil {
		return err
	}
	open := make(map[time.Time][]rollup.Minute)
	for _, m := range minutes {
		hour := m.At.Truncate(time.Hour)
		if _, closed := k.periods[hour]; !closed && !hour.Before(k.from) {
			open[hour] = append(open[hour], m)
		}
	}
	for hour, parts := range open {
		k.periods[hour] = rollup.Merge(hour, time.Hour, rollup.HourCauses, parts...)
	}
	return nil
}

// anyNow is the time by the clock of the Redis that has the counts. Error: CodeUnavailable.
func (c *Control) anyNow(ctx context.Context) (time.Time, error) {
	if now := c.redisNow(); !now.IsZero() {
		return now.UTC(), nil
	}
	now, err := c.store.Now(ctx, 0)
	return now.UTC(), err
}

// past is what happened lately, as of one reading.
type past struct {
	minutes []rollup.Minute // oldest first and without a gap: the last one is the present minute so far
	at      time.Time       // when it was read, by the clock of Redis
}

// recentMinutes returns the last n minutes. A minute in which nothing happened is empty. It takes five commands, and
// more if nobody has closed a minute in time. Error: CodeUnavailable.
func (c *Control) recentMinutes(ctx context.Context, n int) (past, error) {
	now, err := c.anyNow(ctx)
	if err != nil {
		return past{}, err
	}
	from := now.Truncate(rollup.Span).Add(-time.Duration(n-1) * rollup.Span)
	found, err := c.store.Minutes.Read(ctx, from, now)
	if err != nil {
		return past{}, err
	}
	all := make([]rollup.Minute, n)
	for i := range all {
		all[i] = rollup.Minute{At: from.Add(time.Duration(i) * rollup.Span), Length: rollup.Span,
			Queues: map[string]rollup.Queue{}}
	}
	for _, m := range found {
		if i := int(m.At.Sub(from) / rollup.Span); i >= 0 && i < n {
			all[i] = m
		}
	}
	return past{minutes: all, at: now}, nil
}

// lateMinutes is of how many minutes the lateness of a queue is told, and rateMinutes of how many what it does.
const lateMinutes, rateMinutes = 5, 2

// Pace is what a queue did lately.
type Pace struct {
	Begun, Ended, Bad float64          // attempts a minute, in the last one to two minutes; Bad: failed, timed out or lost
	Late              rollup.Histogram // from due to begun, in the last five minutes
}

// paces returns what the queues did lately. Error: CodeUnavailable.
func (c *Control) paces(ctx context.Context) (map[string]Pace, error) {
	recent, err := c.recentMinutes(ctx, lateMinutes)
	if err != nil {
		return nil, err
	}
	whole := rollup.Merge(recent.at, 0, 1, recent.minutes...)
	newest := recent.minutes[lateMinutes-rateMinutes:]
	lately := rollup.Merge(recent.at, 0, 1, newest...)
	minutes := recent.at.Sub(newest[0].At).Minutes()
	paces := make(map[string]Pace, len(whole.Queues))
	for name, q := range whole.Queues {
		last := lately.Queues[name]
		paces[name] = Pace{
			Begun: float64(last.Begun) / minutes, Ended: float64(last.Ended()) / minutes,
			Bad: float64(last.Bad()) / minutes, Late: q.Late,
		}
	}
	return paces, nil
}
