package control

import (
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/why"
)

// Why is what a task, a schedule or a queue waits for.
type Why struct {
	At      time.Time      // by the clock of Redis; zero if that does not answer
	State   task.State     // of a task; "" if that cannot be read, or the question is about something else
	Now     string         // what it does now, in sentences; "" if that cannot be read
	Reasons []why.Reason   // what must change first at the beginning; none if it waits for nothing
	Beside  []why.Reason   // what does not hold it up, and may need somebody
	Retry   schedule.Retry // the task that Beside tells about, of a schedule; zero for none
	// Warnings say what could not be read: there may be further reasons.
	Warnings []string
}

// unread collects what could not be read.
type unread struct {
	mu     sync.Mutex
	texts  []string
	silent error // the first that says that Redis is away
}

// note notes what could not be read because of err; it returns false if err is nil.
func (u *unread) note(what string, err error) bool {
	if err == nil {
		return false
	}
	u.add(what + " cannot be read: " + redisx.WithoutDoubt(redisx.WhyNot(err)))
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.silent == nil && task.CodeOf(err) == task.CodeUnavailable {
		u.silent = err
	}
	return true
}

// add adds sentences without a full stop.
func (u *unread) add(texts ...string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.texts = append(u.texts, texts...)
}

// blockedWhy is the answer if a reason is all that is known.
func blockedWhy(blocked why.Reason) Why {
	return Why{
		Reasons: []why.Reason{blocked}, Warnings: []string{"what else it waits for is not known, as Redis does not answer"},
	}
}

// blockedBy returns the reason that an error of a read is; nil if it is none.
func (c *Control) blockedBy(err error) *why.Reason {
	switch {
	case redisx.IsDamage(err):
		return &why.Reason{
			Code: why.Unreadable, Detail: "A key that is needed has the wrong type in Redis, or a value that is none.",
			Do: "See what is damaged: dtsctl doctor.",
		}
	case task.CodeOf(err) != task.CodeUnavailable:
		return nil
	case redisx.IsMoving(err):
		return &why.Reason{
			Code:   why.SlotMoving,
			Detail: "The data moves to another server of the cluster, and no script runs on it meanwhile.",
			Do:     "Wait for the end of the move: redis-cli cluster nodes shows it.",
		}
	}
	r := &why.Reason{Code: why.RedisSilent, Since: c.store.DB.Link().AwaySince().UTC()}
	r.Detail = "Redis does not answer this node, so nothing is handed over."
	if outage := c.store.DB.Link().Outage(); outage != nil {
		r.Detail = "Redis is away, so nothing is handed over: " + outage.Error() + "."
	}
	r.Do = "Bring Redis back. " + config.RunsGoOn
	return r
}

// blockedByRefusal returns the reason that a Redis is that refuses writes; nil if it says nothing.
func blockedByRefusal(said string) *why.Reason {
	if said == "" {
		return nil
	}
	return &why.Reason{
		Code: why.RedisSilent, Detail: "Redis refuses writes, so nothing is handed over. It says: " + said + ".",
		Do: "Remove the cause that Redis names. " + config.RunsGoOn,
	}
}
