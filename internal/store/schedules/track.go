package schedules

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// How many of the newest ticks and runs by hand a schedule has in Recent.
const (
	RecentInList = 30
	RecentOfOne  = 100
)

// ticksOfChunk is how many ticks a member of a ledger has at most; CHUNK_LIMIT in lua/include/chunk.lua.
const ticksOfChunk = 32

// recent is what Redis has of the newest ticks of a schedule.
type recent struct {
	sched   *schedule.Schedule
	entries []schedule.Entry // newest first
	more    bool             // the ledger may have older ones
	live    []liveTask       // the first ones
}

// follow completes schedules: counts of tasks, Track, Recent with n results, and Conditions at that time, with the tick
// that was missed. days: Track has its days, too. It takes two to five round trips, however many schedules there are.
// What cannot be read is left out, which redisx.LeavingOut notes. Error: CodeUnavailable.
func (s *Schedules) follow(ctx context.Context, all []schedule.Schedule, n int, days bool, now time.Time) error {
	if len(all) == 0 {
		return nil
	}
	fields := slices.Concat(codec.TrackFields, []string{failures})
	if days {
		fields = slices.Concat(fields, codec.DayFields)
	}
	found := make([]recent, len(all))
	for i := range all {
		found[i].sched = &all[i]
	}
	// The newest members of a ledger mostly have enough ticks: those that fire on time share a member.
	if err := s.readRecent(ctx, found, fields, n/ticksOfChunk+2); err != nil {
		return err
	}
	var short []recent
	for _, r := range found {
		if len(r.entries) < n && r.more {
			short = append(short, r)
		}
	}
	if err := s.readRecent(ctx, short, fields, n); err != nil {
		return err
	}
	enough := slices.DeleteFunc(found, func(r recent) bool { return len(r.entries) < n && r.more })
	if err := s.join(ctx, slices.Concat(enough, short), n); err != nil {
		return err
	}
	for i := range all {
		all[i].Conditions = all[i].ConditionsAt(now)
	}
	return s.TellMissed(ctx, all, now)
}

// failures is the field that counts the runs in a row that failed.
const failures = "failures"

// missedMembers is how many members of a ledger are read to find a tick that was missed and that nobody knows of.
const missedMembers = 20

// TellMissed sets LastMissed and Overlooked of the schedules in the condition Missing. LastMissed is the record of the
// tick, or its time if that is forgotten. Error: CodeUnavailable.
func (s *Schedules) TellMissed(ctx context.Context, all []schedule.Schedule, now time.Time) error {
	found := make(map[int]*redis.ZSliceCmd)
	pipe := s.l.DB.Pipeline()
	for i, sched := range all {
		if slices.Contains(sched.Conditions, schedule.Missing) {
			until := &redis.ZRangeBy{Min: "-inf", Max: fmt.Sprint(sched.Track.MissedAt.UnixMilli()), Count: missedMembers}
			ledger := string(s.l.KeysOf(sched.Ref).Ledger(sched.Ref))
			found[i] = pipe.ZRevRangeByScoreWithScores(ctx, ledger, until)
		}
	}
	if len(found) == 0 {
		return nil
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return layout.Unavailable(err)
	}
	for i, members := range found {
		at := all[i].Track.MissedAt
		all[i].LastMissed = schedule.Entry{Tick: at}
		var entries []schedule.Entry
		for _, z := range members.Val() { // damage was noted when the newest members were read, or doctor names it
			packed, _ := codec.DecodeLedger(codec.Text(z.Member), int64(z.Score))
			for _, e := range packed {
				if e.Tick.Equal(at) && e.Outcome == schedule.Missed {
					all[i].LastMissed = e
				}
			}
			entries = append(entries, packed...)
		}
		slices.SortStableFunc(entries, func(a, b schedule.Entry) int { return b.Tick.Compare(a.Tick) })
		all[i].Overlooked = schedule.Overlooked(entries, at, now)
	}
	return nil
}

// readRecent reads the counts, the fields and so many of the newest members of the ledger of each schedule, in one
// round trip.
func (s *Schedules) readRecent(ctx context.Context, found []recent, fields []string, members int) error {
	if len(found) == 0 {
		return nil
	}
	pipe := s.l.DB.Pipeline()
	live, waiting := make([]*redis.IntCmd, len(found)), make([]*redis.IntCmd, len(found))
	hashes, ledgers := make([]*redis.SliceCmd, len(found)), make([]*redis.ZSliceCmd, len(found))
	first := make([]*redis.ZSliceCmd, len(found))
	for i, r := range found {
		ref, k := r.sched.Ref, s.l.KeysOf(r.sched.Ref)
		live[i], waiting[i] = pipe.ZCard(ctx, string(k.Live(ref))), pipe.LLen(ctx, string(k.Waiting(ref)))
		first[i] = queueLive(ctx, pipe, k, ref)
		hashes[i] = pipe.HMGet(ctx, string(k.Schedule(ref)), fields...)
		ledgers[i] = pipe.ZRevRangeWithScores(ctx, string(k.Ledger(ref)), 0, int64(members-1))
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return layout.Unavailable(err)
	}
	for i := range found {
		r := &found[i]
		r.sched.Live, r.sched.Waiting, r.live = int(live[i].Val()), int(waiting[i].Val()), liveIn(first[i])
		hash := valuesOf(fields, hashes[i].Val())
		track, damage := codec.DecodeTrack(hash)
		r.sched.Track, r.sched.Failures = track, int(codec.Number(hash[failures])) // of the moment of the ends
		for _, words := range damage {
			redisx.LeaveOut(ctx, "schedule %s: %s", r.sched.Ref, words)
		}
		r.entries, r.more = nil, len(ledgers[i].Val()) == members
		for _, z := range ledgers[i].Val() {
			packed, err := codec.DecodeLedger(codec.Text(z.Member), int64(z.Score))
			if err != nil {
				redisx.LeaveOut(ctx, "schedule %s: %v", r.sched.Ref, err)
			}
			slices.Reverse(packed)
			r.entries = append(r.entries, packed...)
		}
	}
	return nil
}

// valuesOf returns fields of a hash by name, without those that it does not have.
func valuesOf(fields []string, values []any) map[string]string {
	h := make(map[string]string, len(fields))
	for i, value := range values {
		if text, ok := value.(string); ok {
			h[fields[i]] = text
		}
	}
	return h
}

// join sets Recent to n results, and Retry. Ticks whose end is not recorded take the result from their tasks, which one
// further round trip reads, as it does live ones.
func (s *Schedules) join(ctx context.Context, found []recent, n int) error {
	names, states := make([][]string, len(found)), make([]*redis.SliceCmd, len(found))
	exist, again := make([][]*redis.BoolCmd, len(found)), make([]*retryReading, len(found))
	pipe := s.l.DB.Pipeline()
	for i, r := range found {
		again[i] = s.queueRetry(ctx, pipe, *r.sched, r.live, false)
		names[i] = schedule.Unresolved(r.entries, r.sched.Track.Ends, n)
		if len(names[i]) == 0 {
			continue
		}
		k, members := s.l.KeysOf(r.sched.Ref), make([]string, len(names[i]))
		exist[i] = make([]*redis.BoolCmd, len(names[i]))
		for j, name := range names[i] {
			members[j] = r.sched.Ref.String() + "@" + name
			exist[i][j] = pipe.HExists(ctx, string(k.Defs()), members[j])
		}
		states[i] = pipe.HMGet(ctx, string(k.States()), members...)
	}
	if pipe.Len() > 0 {
		if err := redisx.ExecReads(ctx, pipe); err != nil {
			return layout.Unavailable(err)
		}
	}
	for i, r := range found {
		tasks := make(map[string]task.Task, len(names[i]))
		for j, name := range names[i] {
			if exist[i][j].Val() && j < len(states[i].Val()) {
				tasks[name] = taskOf(codec.Text(states[i].Val()[j]))
			}
		}
		r.sched.Retry = again[i].first()
		r.sched.Recent = schedule.Strip(r.entries, r.sched.Track.Ends, tasks, n)
	}
	return nil
}

// taskOf returns what the text of a state says of a task that exists. A task that was never claimed has no text.
func taskOf(text string) task.Task {
	t := task.Task{State: task.Scheduled}
	if err := codec.DecodeState(&t, text); err != nil {
		t.State = task.Unreadable
	}
	return t
}
