package doctor

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
)

// reachable is the check whether Redis does anything for this node.
const reachable = "redis-reachable"

// judgeReachable judges a server that answers.
func judgeReachable(ctx context.Context, server redis.Cmdable) (Severity, string, error) {
	start := clock.Now()
	if err := server.Ping(ctx).Err(); err != nil {
		return Unknown, "", err
	}
	return OK, "answers in " + clock.Since(start).Round(10*time.Microsecond).String(), nil
}

// Away returns what can be said while Redis does not answer: why, which is said, and how the nodes were at their last
// heartbeats, if that is known. Errors: CodeInvalid, as of Examine.
func (d *Doctor) Away(r Request, said string, nodes []cluster.Node, at time.Time) (Report, error) {
	e, err := d.begin(r)
	if err != nil {
		return Report{}, err
	}
	for name := range e.results {
		switch {
		case name == reachable:
			e.verdict(name, Error, said)
		case name == "nodes" && !at.IsZero():
			e.judgeNodes(nodes)
			e.results[name].Detail += ", at the heartbeat of " + at.UTC().Format(time.RFC3339)
		default:
			e.notLooked("nothing was looked at, as Redis is away", name)
		}
	}
	return e.report(""), nil
}
