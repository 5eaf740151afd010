package layout

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
)

// LostAttempt is an attempt that a leader has ended as lost.
type LostAttempt struct {
	At     time.Time
	Ref    task.Ref
	Number int
	Node   string // that ran it
}

// Lost returns the newest attempts that leaders have ended as lost, the newest first: 100 of each partition at most.
// What cannot be read is left out, which redisx.LeavingOut notes. It takes one round trip. Error: CodeUnavailable.
func (l *Layout) Lost(ctx context.Context) ([]LostAttempt, error) {
	pipe := l.DB.Pipeline()
	found := make([]*redis.StringSliceCmd, l.Partitions())
	for p := range found {
		found[p] = pipe.LRange(ctx, string(l.Keys.Partition(p).Lost()), 0, -1)
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, Unavailable(err)
	}
	var all []LostAttempt
	for _, texts := range found {
		for _, text := range texts.Val() {
			if one, ok := parseLost(text); ok {
				all = append(all, one)
			} else {
				redisx.LeaveOut(ctx, "%q in a list of lost attempts is none", text)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b LostAttempt) int { return b.At.Compare(a.At) })
	return all, nil
}

// parseLost reads "<ms> <ref>:<attempt> <node>".
func parseLost(text string) (one LostAttempt, ok bool) {
	words := strings.Split(text, " ")
	if len(words) != 3 {
		return one, false
	}
	ms, wrong := strconv.ParseInt(words[0], 10, 64)
	end := strings.LastIndexByte(words[1], ':')
	if wrong != nil || end < 0 {
		return one, false
	}
	number, wrong := strconv.Atoi(words[1][end+1:])
	ref, err := task.ParseRef(words[1][:end])
	if wrong != nil || err != nil {
		return one, false
	}
	return LostAttempt{At: time.UnixMilli(ms).UTC(), Ref: ref, Number: number, Node: words[2]}, true
}
