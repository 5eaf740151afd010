package asynqexec

import (
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// listInterval is how long a list of servers counts as new.
const listInterval = 5 * time.Second

// consumers knows who takes tasks from the queues of the fleet's Redis, as it was listInterval ago.
type consumers struct {
	list func() ([]*asynq.ServerInfo, error)

	mu      sync.Mutex
	at      time.Time
	servers []*asynq.ServerInfo
	err     error
}

func (c *consumers) now() ([]*asynq.ServerInfo, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() || clock.Since(c.at) > listInterval {
		c.servers, c.err = c.list()
		c.at = clock.Now()
	}
	return c.servers, c.err
}

// refuse returns an error if workers of DTS take from the queue. They would archive the fleet's tasks as what they do not know, and the
// fleet's servers would take DTS's deliveries.
func (c *consumers) refuse(name string) error {
	servers, err := c.now()
	if err != nil {
		return fmt.Errorf("cannot list the servers of asynq: %w", err)
	}
	for _, s := range servers {
		if _, serves := s.Queues[name]; serves && queue.IsConsumer(s.ID) {
			return executor.Permanent(fmt.Errorf("the queue %q on the Redis of asynq is one of DTS's own, served by process %d on %s: "+
				"name another queue, or run DTS with another --redis or --prefix", task.Cut(name, nameLimit), s.PID, s.Host))
		}
	}
	return nil
}

// served reports whether a server of asynq takes from the queue, as far as is known.
func (c *consumers) served(name string) bool {
	servers, err := c.now()
	for _, s := range servers {
		if _, serves := s.Queues[name]; serves && !queue.IsConsumer(s.ID) {
			return true
		}
	}
	return err != nil
}
