package layout

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/lua"
)

const (
	retryPause     = time.Second // between two tries to record losses
	recordPatience = time.Second // for the answers to one
)

// losses is what this node has noticed of writes that Redis has lost.
type losses struct {
	tell   func(partition int, l schedule.Loss, evidence string) // nil: nobody
	failed chan struct{}                                         // has a value if some could not be recorded

	mu      sync.Mutex
	noticed map[int]noticedLoss // the newest one, by partition
}

func newLosses(tell func(partition int, l schedule.Loss, evidence string)) losses {
	return losses{tell: tell, failed: make(chan struct{}, 1), noticed: make(map[int]noticedLoss)}
}

// noticedLoss is a loss, and whether Redis has the record of it.
type noticedLoss struct {
	schedule.Loss
	recorded bool
}

// MayHaveLost reports whether Redis may have lost writes lately.
func (l *Layout) MayHaveLost() bool { return l.mayHaveLost != nil && l.mayHaveLost() }

// AwaitsReports reports whether Redis may yet hear from other nodes what it has lost.
func (l *Layout) AwaitsReports() bool { return l.awaitsReports != nil && l.awaitsReports() }

// HasOlder reports whether nodes live of the release before, which notes no tasks for the index of lists and knows no attempt that was
// interrupted.
func (l *Layout) HasOlder() bool { return l.hasOlder != nil && l.hasOlder() }

// NoticeLoss has this process know that Redis has lost writes of a partition that it had acknowledged between two times. evidence says which of them
// shows that, for the log. RecordLosses must follow, which tells Redis.
func (l *Layout) NoticeLoss(partition int, from, until time.Time, evidence string) {
	l.losses.notice(partition, spanOf(from, until), evidence)
}

// spanOf is the loss between two times. The later one may come from the clock of another primary, which is behind.
func spanOf(from, until time.Time) schedule.Loss {
	if until.Before(from) {
		from, until = until, from
	}
	return schedule.Loss{From: from, Until: until}
}

// RecordLosses records the losses of some partitions that were noticed and that Redis has no record of yet. If that fails, it logs the error; they
// are recorded with the next one, or by RetryRecordingLosses.
func (l *Layout) RecordLosses(ctx context.Context, partitions map[int]bool) {
	if len(partitions) > 0 {
		l.recordLater(ctx, l.recordUnrecorded(ctx, partitions))
	}
}

// recordLater has RetryRecordingLosses record what could not be recorded because of an error; nil if there was none.
func (l *Layout) recordLater(ctx context.Context, err error) {
	if err == nil {
		return
	}
	l.Log.ErrorContext(ctx, "cannot record that Redis has lost writes; trying again", "error", err)
	select {
	case l.losses.failed <- struct{}{}:
	default: // RetryRecordingLosses knows already
	}
}

// RetryRecordingLosses records losses that could not be recorded when they were noticed, until ctx ends.
func (l *Layout) RetryRecordingLosses(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.losses.failed:
		}
		for l.recordUnrecorded(ctx, nil) != nil && clock.Sleep(ctx, retryPause) == nil {
			continue
		}
	}
}

// RecordLossesAgain records the losses that this node has noticed once more, as Redis may have lost the records.
func (l *Layout) RecordLossesAgain(ctx context.Context) {
	l.losses.mu.Lock()
	for p, loss := range l.losses.noticed {
		l.losses.noticed[p] = noticedLoss{Loss: loss.Loss}
	}
	l.losses.mu.Unlock()
	l.recordLater(ctx, l.recordUnrecorded(ctx, nil))
}

// recordUnrecorded records the losses of some partitions, nil for all, that Redis has no record of. Error: one of Redis.
func (l *Layout) recordUnrecorded(ctx context.Context, some map[int]bool) error {
	var partitions []int
	var calls []lua.RecordLoss
	for p, loss := range l.losses.unrecorded() {
		if some != nil && !some[p] {
			continue
		}
		partitions = append(partitions, p)
		calls = append(calls, lua.RecordLoss{Losses: l.Keys.Partition(p).Losses(), From: loss.From, Upto: loss.Until})
	}
	var failures []error
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordPatience)
	defer cancel()
	// Others than vital clients wait for a primary that has just taken over.
	for i, r := range redisx.RunEach[lua.RecordLossReply](ctx, l.Vital, calls) {
		if r.Err == nil {
			l.losses.setRecorded(partitions[i], schedule.Loss{From: calls[i].From, Until: calls[i].Upto})
		}
		failures = append(failures, r.Err)
	}
	return errors.Join(failures...)
}

// RecordLossBeside notices a loss, and records it, for all partitions that are on the server of a key, and for those whose server cannot be told.
func (l *Layout) RecordLossBeside(ctx context.Context, key string, from, until time.Time, evidence string) {
	_, lossy, err := l.DB.ServerOf(ctx, key)
	noticed := make(map[int]bool)
	for p := range l.partitions {
		var server string
		if err == nil {
			_, server, err = l.DB.ServerOf(ctx, string(l.Keys.Partition(p).States()))
		}
		if err != nil || server == lossy {
			l.losses.notice(p, spanOf(from, until), evidence)
			noticed[p] = true
		}
	}
	l.RecordLosses(ctx, noticed)
}

// notice joins a loss with the newest one of the partition if both overlap, or if that one is not recorded yet; else it is the newest one, and is
// told of.
func (s *losses) notice(partition int, loss schedule.Loss, evidence string) {
	s.mu.Lock()
	known, ok := s.noticed[partition]
	overlaps := ok && !loss.From.After(known.Until) && !loss.Until.Before(known.From)
	if overlaps || ok && !known.recorded {
		loss = join(known.Loss, loss)
	}
	if !ok || loss != known.Loss {
		s.noticed[partition] = noticedLoss{Loss: loss}
	}
	s.mu.Unlock()
	if !overlaps && s.tell != nil {
		s.tell(partition, loss, evidence)
	}
}

// join returns the span of two losses and the time between them; a itself if b is a part of it.
func join(a, b schedule.Loss) schedule.Loss {
	if b.From.Before(a.From) {
		a.From = b.From
	}
	if b.Until.After(a.Until) {
		a.Until = b.Until
	}
	return a
}

// unrecorded returns the losses that Redis has no record of, by partition.
func (s *losses) unrecorded() map[int]schedule.Loss {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make(map[int]schedule.Loss)
	for p, loss := range s.noticed {
		if !loss.recorded {
			found[p] = loss.Loss
		}
	}
	return found
}

// setRecorded says that Redis has the record of a loss, unless it has been joined with another one meanwhile.
func (s *losses) setRecorded(partition int, loss schedule.Loss) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noticed[partition].Loss == loss {
		s.noticed[partition] = noticedLoss{Loss: loss, recorded: true}
	}
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
	ms, _ := strconv.ParseInt(text, 10, 64) // what record_loss writes can be read
	return time.UnixMilli(ms).UTC()
}
