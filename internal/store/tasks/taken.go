package tasks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// NoteTaken records for so long what a worker is about to begin because of a request, in place of an earlier one. Error: CodeUnavailable,
// after which it may be recorded.
func (s *Tasks) NoteTaken(ctx context.Context, worker, request string, starts []Start, lifetime time.Duration) error {
	words := make([]string, 1, 1+3*len(starts))
	words[0] = request
	for _, start := range starts {
		words = append(words, task.Delivery{Ref: start.Ref, Attempt: start.Attempt}.String(), start.Run, start.Queue)
	}
	call := lua.NoteTaken{Taken: s.l.Keys.Taken(worker), Record: strings.Join(words, " "), Lifetime: lifetime}
	if _, err := redisx.Run(ctx, s.l.DB, call); err != nil {
		return layout.Unavailable(err)
	}
	return nil
}

// Taken returns what a worker was about to begin because of a request; nothing if that was not its newest one, or is long ago. Errors:
// CodeUnavailable, or the record cannot be read.
func (s *Tasks) Taken(ctx context.Context, worker, request string) ([]Start, error) {
	text, err := s.l.DB.Get(ctx, string(s.l.Keys.Taken(worker))).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil:
		return nil, layout.Unavailable(err)
	}
	words := strings.Split(text, " ")
	if words[0] != request {
		return nil, nil
	}
	var starts []Start
	for words = words[1:]; len(words) >= 3; words = words[3:] {
		ref, attempt, err := task.ParseDelivery(words[0])
		if err != nil {
			return nil, fmt.Errorf("reading what worker %s took: %w", worker, err)
		}
		starts = append(starts, Start{Ref: ref, Attempt: attempt, Run: words[1], Queue: words[2]})
	}
	return starts, nil
}
