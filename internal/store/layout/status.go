package layout

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/task"
)

// common is the partition that has what is kept once for the installation.
const common = 0

// StatusWake is the message to the leader of partition 0 that somebody reads the status.
const StatusWake = "status"

// StaleWake begins the message to the leader of a partition with the numbers of segments of the index of lists that
// have many rows of tasks that are gone or have changed, separated by blanks.
const StaleWake = "stale "

// BulkWake is the message to the leader of partition 0 that there is a new bulk action.
const BulkWake = "bulk"

// LookWake begins the message to the leader of partition 0 with the reference of a schedule that may need somebody, or
// no longer does.
const LookWake = "look "

// TellLook tells the leader of partition 0 to look at a schedule. If that is lost, it looks at all schedules soon.
func (l *Layout) TellLook(ctx context.Context, schedule task.Ref) {
	l.DB.Publish(ctx, string(l.Keys.Wake(common)), LookWake+schedule.String())
}

// ReadStatus reads what WriteStatus wrote; "" if there is nothing. Error: CodeUnavailable.
func (l *Layout) ReadStatus(ctx context.Context) (string, error) {
	texts, err := l.DB.GetEach(ctx, []string{string(l.Keys.Partition(common).Status())})
	if err != nil {
		return "", Unavailable(err)
	}
	return texts[0], nil
}

// WriteStatus writes the status of the installation, which older nodes do not know. Error: CodeUnavailable.
func (l *Layout) WriteStatus(ctx context.Context, text string) error {
	return unavailableIf(l.DB.Set(ctx, string(l.Keys.Partition(common).Status()), text, 0).Err())
}

// ReplaceStatus is WriteStatus unless somebody else has written one: it does nothing if the status is not before any
// more. Error: CodeUnavailable.
func (l *Layout) ReplaceStatus(ctx context.Context, before, text string) error {
	key := string(l.Keys.Partition(common).Status())
	err := l.DB.Watch(ctx, func(tx *redis.Tx) error {
		now, err := tx.Get(ctx, key).Result()
		if err != nil && !errors.Is(err, redis.Nil) || now != before {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.Set(ctx, key, text, 0).Err()
		})
		return err
	}, key)
	if errors.Is(err, redis.TxFailedErr) {
		return nil
	}
	return unavailableIf(err)
}

// AskForStatus tells the leader of partition 0 that somebody reads the status. Error: CodeUnavailable.
func (l *Layout) AskForStatus(ctx context.Context) error {
	return unavailableIf(l.DB.Publish(ctx, string(l.Keys.Wake(common)), StatusWake).Err())
}

// unavailableIf is Unavailable for an error that may be nil.
func unavailableIf(err error) error {
	if err == nil {
		return nil
	}
	return Unavailable(err)
}

// Examined is what the newest run of doctor found with one check.
type Examined struct {
	At       time.Time
	Severity string
	Open     int // found and not repaired
}

// WriteExamined notes what doctor found, by the names of the checks. Error: CodeUnavailable.
func (l *Layout) WriteExamined(ctx context.Context, found map[string]Examined) error {
	fields := make([]any, 0, 2*len(found))
	for name, e := range found {
		fields = append(fields, name, fmt.Sprintf("%d %s %d", e.At.UnixMilli(), e.Severity, e.Open))
	}
	return unavailableIf(l.DB.HSet(ctx, string(l.Keys.Partition(common).Examined()), fields...).Err())
}

// ReadExamined reads what WriteExamined noted. What cannot be read is left out. Error: CodeUnavailable.
func (l *Layout) ReadExamined(ctx context.Context) (map[string]Examined, error) {
	fields, err := l.DB.HGetAll(ctx, string(l.Keys.Partition(common).Examined())).Result()
	if err != nil {
		return nil, Unavailable(err)
	}
	found := make(map[string]Examined, len(fields))
	for name, text := range fields {
		words := strings.Fields(text)
		if len(words) != 3 {
			continue
		}
		ms, err := strconv.ParseInt(words[0], 10, 64)
		open, wrong := strconv.Atoi(words[2])
		if err == nil && wrong == nil {
			found[name] = Examined{At: time.UnixMilli(ms).UTC(), Severity: words[1], Open: open}
		}
	}
	return found, nil
}
