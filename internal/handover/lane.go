package handover

import (
	"cmp"
	"time"

	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/task"
)

// Lane is where tasks of a queue wait together. Those of different fair keys or limits wait in different lanes, and
// share what room their queue has, or the lane of their type. That is their pool.
type Lane struct {
	Queue string
	Type  string // "" for the tasks of all types that have no lane of their own
	Reach string // where its tasks may run, as package route writes it; "" for any node that serves the queue
	Fair
}

// Fair is what tasks take turns by: a fair key, how many turns its tasks get for one of others, and the limits that
// they have in common. The zero value stands for tasks without any, which count as a key with the weight 1.
type Fair struct {
	Key    string
	Weight int
	Limits string // as task.JoinLimits writes them; "" for none
}

// pool returns the lane whose room a lane shares.
func (l Lane) pool() Lane { return Lane{Queue: l.Queue, Type: l.Type, Reach: l.Reach} }

func byName(a, b Lane) int {
	return cmp.Or(
		cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Type, b.Type),
		cmp.Compare(a.Reach, b.Reach), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Weight, b.Weight),
		cmp.Compare(a.Limits, b.Limits),
	)
}

// Backlog has the lanes that somebody serves and that have waiting tasks, with the rank of the first task: when it was
// due, or a time before if it has a priority. The rank is the zero time if the claim did not read it, as the quota of
// the lane was 0. If the grant was Known, the claim has looked at some lanes only, and Backlog has no others.
type Backlog map[Lane]time.Time

// Grant is how many tasks of each lane a claim may take: of Lanes as it says there, of any other with a backlog none,
// of the rest Default. A task that nobody serves is not claimed.
type Grant struct {
	Lanes   Quotas
	Default int
	Served  string // what lua.ServedText returns; "" if it is not known: then everything counts as served
	// Known says that the planner knows which lanes wait: the claim looks only at those from which it may take something,
	// and at those of due tasks. Else it looks at all.
	Known bool
	// Unnamed has the claim look at tasks without a name of their own, whether somebody serves them now: lua.FirstUnnamed
	// from the first one on, or Found.Unnamed of an earlier claim. "" stands for none.
	Unnamed string
	// Limits are those that tasks may have, and Slots what the claim may use of some of them. nil: there are none.
	Limits *limit.Table
	Slots  []limit.Grant
}

// add adds what may be claimed of a pool: of the tasks without a fair key or limits, and of the others.
func (g Grant) add(pool Lane, own Quota, keyed map[Fair]Quota) {
	g.Lanes[pool] = own
	for fair, quota := range keyed {
		lane := pool
		lane.Fair = fair
		g.Lanes[lane] = quota
	}
}

// LimitsOf returns the limits of a delivery, as Fair has them.
func (g Grant) LimitsOf(d task.Delivery) string {
	if g.Limits == nil {
		return ""
	}
	return task.JoinLimits(g.Limits.Of(limit.Subject{
		Keys: task.Definition{LimitKey: d.LimitKey}.LimitKeys(), Type: d.Type, Queue: d.Queue, Namespace: d.Ref.Namespace,
	}), d.Cost)
}

// Quotas are by lane.
type Quotas map[Lane]Quota

// Quota is how many tasks of a lane a claim may take. Of the tasks that wait it takes, after the first one, none that
// was due after UpTo; the zero time is no such bound.
type Quota struct {
	Number int
	UpTo   time.Time
	Nodes  []string // to which the tasks go, in their order; none for the queue that all nodes share
	placing
	inTurn bool // it counts as turns of the fair key, until it turns out what was claimed
}

// Outcome is what came of a grant.
type Outcome struct {
	Claimed map[Lane]int   // tasks by lane, as Count counts them
	Lengths map[string]int // deliveries that wait now, by queue to which some were handed over
	Found
}

// Found is what a claim has found in its partition. A claim that failed has found nothing: all is nil.
type Found struct {
	Backlog Backlog
	// Apart are some lanes that nobody serves and that have waiting tasks; if Known, those where this claim left tasks.
	Apart []Lane
	// Unnamed is where the next claim goes on among tasks without a name; "" at the end, or if this one did not look.
	Unnamed string
	Numbers map[Lane]int // how many tasks wait in lanes with limits, of those in Backlog
	Slots   []limit.Cap  // what there is now of the limits of which the claim might use slots
}

// Count adds claimed tasks to the numbers of Outcome.Claimed, by the quota under which the claim has taken them.
func (g Grant) Count(claimed map[Lane]int, deliveries []task.Delivery) {
	for _, d := range deliveries {
		pool := LaneOf(d)
		if _, known := g.Lanes[pool]; !known {
			pool = Lane{Queue: d.Queue}
		}
		lane := pool
		lane.Fair = Fair{d.FairKey, d.FairWeight, g.LimitsOf(d)}
		if _, granted := g.Lanes[lane]; !granted {
			lane = pool
		}
		claimed[lane]++
	}
}

// LaneOf returns the lane of a delivery's type and reach, without its fair key.
func LaneOf(d task.Delivery) Lane { return Lane{Queue: d.Queue, Type: d.Type, Reach: d.Reach} }
