package asynqexec

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
)

const (
	// removeAgain is how long settled tasks wait if none of them could be deleted.
	removeAgain = 2 * time.Second
	// settledLimit is the most settled tasks that wait for their deletion. Asynq deletes more after their retention.
	settledLimit = 10_000
)

// settle notes that the outcome of a task is recorded.
func (p *poller) settle(at location) {
	p.change(func() {
		if len(p.settled) < settledLimit {
			p.settled = append(p.settled, at)
		}
	})
}

// clear has remove delete the settled tasks, and keeps for another round those that it returns. They wait if none was deleted, as Redis
// is away then.
func (p *poller) clear(ctx context.Context, remove func(context.Context, []location) []location) {
	settled := p.takeSettled()
	if len(settled) == 0 {
		return
	}
	rest := remove(ctx, settled)
	p.removeAt = clock.Now()
	if len(rest) == len(settled) {
		p.removeAt = p.removeAt.Add(removeAgain)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settled = append(rest, p.settled...)
}

func (p *poller) takeSettled() []location {
	p.mu.Lock()
	defer p.mu.Unlock()
	settled := p.settled
	p.settled = nil
	return settled
}

// remove deletes asynq tasks. It returns those that it has not come to because the time is up or Redis does not answer. One that cannot
// be deleted though Redis answers stays for its retention.
func (e *Executor) remove(ctx context.Context, settled []location) (rest []location) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	inspector := asynq.NewInspectorFromRedisClient(within{e.db.UniversalClient, ctx})
	for i, at := range settled {
		err := inspector.DeleteTask(at.queue, at.id)
		if err == nil || errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
			continue
		}
		if e.db.Ping(ctx).Err() != nil {
			return settled[i:]
		}
	}
	return nil
}

// within is a client whose commands end with ctx, as far as asynq's inspector uses them to delete a task: it takes no context.
type within struct {
	redis.UniversalClient
	ctx context.Context
}

func (w within) SIsMember(_ context.Context, key string, member any) *redis.BoolCmd {
	return w.UniversalClient.SIsMember(w.ctx, key, member)
}

func (w within) Eval(_ context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return w.UniversalClient.Eval(w.ctx, script, keys, args...)
}

func (w within) EvalSha(_ context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return w.UniversalClient.EvalSha(w.ctx, sha, keys, args...)
}
