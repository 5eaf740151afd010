package layout

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// Entry is a member of a sorted set with its score: usually a task and a time in ms since 1970, or its rank.
type Entry struct {
	Score  float64
	Member string
}

// score is the score as Redis writes it.
func (e Entry) score() string { return strconv.FormatFloat(e.Score, 'f', -1, 64) }

// newerFirst orders entries as lists show them: by score, then by member, both descending.
func newerFirst(a, b Entry) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Member, a.Member))
}

const (
	// readSets is the most sets that one run of a script reads: Redis does nothing else meanwhile.
	readSets = 100
	// tripReads is how much one round trip reads: Redis serves nobody else during a pipeline. It is about 20 ms. The
	// first entry of a set costs as much as setReads further ones.
	tripReads = 5000
	setReads  = 5
	// readGrowth multiplies how many entries the next read asks for in a set that had more.
	readGrowth = 4
)

// ReadEntries reads the newest n entries of all sets together that come after from, newest first; from nil is the
// start. The sets are grouped: those of a group are of one partition. more is false if no entries follow. Under
// redisx.LeavingOut, keys of the wrong type are left out. Error: CodeUnavailable.
//
// The partitions have about as many entries each, so it reads some more than its part of n from each of them, and again
// from those of which all that it got is among the newest n.
func (l *Layout) ReadEntries(
	ctx context.Context, groups [][]lua.ZSetKey, from *Entry, n int,
) (all []Entry, more bool, _ error) {
	for calls := readCalls(groups, from, n); len(calls) > 0; {
		var rest []unread
		for _, trip := range roundTrips(calls) {
			for i, page := range redisx.RunEach[lua.ReadPageReply](ctx, l.DB, trip) {
				if redisx.IsDamage(page.Err) {
					trip[i], page = l.readRest(ctx, trip[i], page)
				}
				if page.Err != nil {
					return nil, false, Unavailable(page.Err)
				}
				for _, e := range page.Reply.Entries {
					score, err := strconv.ParseFloat(e.Score, 64)
					if err != nil {
						return nil, false, Unavailable(err)
					}
					all = append(all, Entry{Score: score, Member: e.Member})
				}
				if len(page.Reply.Entries) == trip[i].Limit {
					rest = append(rest, unread{trip[i], all[len(all)-1]})
				}
			}
		}
		slices.SortFunc(all, newerFirst)
		calls = wanted(rest, all, n)
		more = more || len(calls) < len(rest)
	}
	if len(all) > n {
		return all[:n], true, nil
	}
	return all, more, nil
}

// readRest is for a call that failed because a set has the wrong type. If that set may be left out, it reads the
// others, and returns the call that does so.
func (l *Layout) readRest(
	ctx context.Context, call lua.ReadPage, failed redisx.Result[lua.ReadPageReply],
) (lua.ReadPage, redisx.Result[lua.ReadPageReply]) {
	keys := append([]string{string(call.ZSet)}, call.Others...)
	pipe := l.DB.Pipeline()
	types := make([]*redis.StatusCmd, len(keys))
	for i, key := range keys {
		types[i] = pipe.Type(ctx, key)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return call, redisx.Result[lua.ReadPageReply]{Err: err}
	}
	var kept []string
	for i, key := range keys {
		if found := types[i].Val(); found == "zset" || found == "none" || !redisx.LeaveOutKey(ctx, key, failed.Err) {
			kept = append(kept, key)
		}
	}
	switch len(kept) {
	case len(keys): // it may not be left out, or has another type by now
		return call, failed
	case 0:
		return call, redisx.Result[lua.ReadPageReply]{}
	}
	call.ZSet, call.Others = lua.ZSetKey(kept[0]), kept[1:]
	reply, err := redisx.Run(ctx, l.DB, call)
	return call, redisx.Result[lua.ReadPageReply]{Reply: reply, Err: err}
}

// roundTrips cuts calls into those of one round trip each.
func roundTrips(calls []lua.ReadPage) (trips [][]lua.ReadPage) {
	reads := tripReads
	for _, call := range calls {
		n := setReads*(1+len(call.Others)) + call.Limit
		if reads+n > tripReads {
			trips, reads = append(trips, nil), 0
		}
		last := len(trips) - 1
		trips[last], reads = append(trips[last], call), reads+n
	}
	return trips
}

// unread is what comes after the last entry that a call read.
type unread struct {
	call lua.ReadPage
	last Entry
}

// wanted are the calls that read on where there may be entries of the newest n; all are those that were read, newest
// first.
func wanted(rest []unread, all []Entry, n int) []lua.ReadPage {
	var calls []lua.ReadPage
	for _, u := range rest {
		if len(all) < n || newerFirst(u.last, all[n-1]) < 0 {
			u.call.Score, u.call.Member = u.last.score(), u.last.Member
			u.call.Limit = min(n, readGrowth*u.call.Limit)
			calls = append(calls, u.call)
		}
	}
	return calls
}

// readCalls are the calls that read the first entries of each group of sets, or of each readSets of a group.
func readCalls(groups [][]lua.ZSetKey, from *Entry, n int) []lua.ReadPage {
	score, member := "", ""
	if from != nil {
		score, member = from.score(), from.Member
	}
	var calls []lua.ReadPage
	for _, sets := range groups {
		for some := range slices.Chunk(sets, readSets) {
			call := lua.ReadPage{ZSet: some[0], Score: score, Member: member, Limit: n, Others: nil}
			for _, set := range some[1:] {
				call.Others = append(call.Others, string(set))
			}
			calls = append(calls, call)
		}
	}
	for i := range calls {
		calls[i].Limit = min(n, 2*n/len(calls)+10)
	}
	return calls
}
