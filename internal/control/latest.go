package control

import (
	"time"

	"github.com/dts-sched/dts/internal/fresh"
)

const (
	latestTimeout = time.Second // of a reading
	// latestRetry is how long after a reading that failed there is none. It is longer than several that fail take one
	// after the other, as for a list of tasks in queues of silent servers: each queue is read once.
	latestRetry = 10 * time.Second
	// latestLimit is the age up to which a reading is used while another one is under way.
	latestLimit = 10 * time.Second
)

// latest are the rules for what requests look at in Redis, and use for a lifetime. The server that is asked may be
// silent, and what they want may be on others.
func latest(lifetime time.Duration) fresh.Rules {
	return fresh.Rules{
		Lifetime: lifetime, Retry: latestRetry, Limit: latestTimeout, Tolerate: latestLimit, NoWait: true,
	}
}

// ifRead is what fresh.Value.Get returns, or the zero value if the last reading failed.
func ifRead[T any](value T, err error) (none T) {
	if err != nil {
		return none
	}
	return value
}
