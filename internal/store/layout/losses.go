package layout

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/lua"
)

// joinWithin is the time within which losses that a node notices are one.
const joinWithin = time.Minute

// losses is what this node has noticed of writes that Redis has lost.
type losses struct {
	tell func(partition int, l schedule.Loss, lacks string) // nil: nobody

	mu    sync.Mutex
	noted map[int]schedule.Loss // the newest one, by partition
}

// Suspected reports whether Redis may have lost writes lately.
func (l *Layout) Suspected() bool { return l.suspected != nil && l.suspected() }

// NoteLoss records that Redis has lost writes of a partition that it had acknowledged from the one time to the other. lacks says which of
// them shows that, for the log. What this node has noted already is not written again.
func (l *Layout) NoteLoss(ctx context.Context, partition int, from, until time.Time, lacks string) {
	loss, wider := l.losses.widen(partition, schedule.Loss{From: from, Until: until})
	if !wider {
		return
	}
	if l.losses.tell != nil {
		l.losses.tell(partition, loss, lacks)
	}
	// Others than vital clients wait for a primary that has just taken over.
	_, err := redisx.Run(context.WithoutCancel(ctx), l.Vital, lua.NoteLoss{
		Losses: l.Keys.Partition(partition).Losses(), From: loss.From, Upto: loss.Until,
	})
	if err != nil {
		l.Log.ErrorContext(ctx, "cannot record that Redis has lost writes", "partition", partition, "from", loss.From, "until", loss.Until, "error", err)
	}
}

// NoteLossBeside is NoteLoss for all partitions that are on the server of a key.
func (l *Layout) NoteLossBeside(ctx context.Context, key string, from, until time.Time, lacks string) {
	_, lossy, err := l.DB.ServerOf(ctx, key)
	for p := range l.partitions {
		if err != nil {
			break
		}
		var server string
		if _, server, err = l.DB.ServerOf(ctx, string(l.Keys.Partition(p).States())); server == lossy {
			l.NoteLoss(ctx, p, from, until, lacks)
		}
	}
	if err != nil {
		l.Log.ErrorContext(ctx, "cannot record that Redis has lost writes", "from", from, "until", until, "error", err)
	}
}

// widen joins a loss with the newest one that was noted of the partition, if that ended within the last minute. wider is false if it adds
// no earlier time.
func (s *losses) widen(partition int, loss schedule.Loss) (_ schedule.Loss, wider bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.noted[partition]
	if ok && loss.From.Before(known.Until.Add(joinWithin)) {
		if !loss.From.Before(known.From) {
			return known, false
		}
		loss.Until = known.Until
	}
	if s.noted == nil {
		s.noted = make(map[int]schedule.Loss)
	}
	s.noted[partition] = loss
	return loss, true
}

// Losses reads when Redis has lost writes of a partition, as far as a node noticed, in no particular order. Error: CodeUnavailable.
func (l *Layout) Losses(ctx context.Context, partition int) ([]schedule.Loss, error) {
	entries, err := l.DB.LRange(ctx, string(l.Keys.Partition(partition).Losses()), 0, -1).Result()
	if err != nil {
		return nil, Unavailable(err)
	}
	found := make([]schedule.Loss, 0, len(entries))
	for _, entry := range entries {
		from, until, _ := strings.Cut(entry, " ")
		found = append(found, schedule.Loss{From: momentOf(from), Until: momentOf(until)})
	}
	return found, nil
}

func momentOf(text string) time.Time {
	ms, _ := strconv.ParseInt(text, 10, 64) // what note_loss writes can be read
	return time.UnixMilli(ms).UTC()
}
