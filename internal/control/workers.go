package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/remote"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua/contract"
)

// The limits of workers by HTTP.
const (
	DefaultWorkerLease = 15 * time.Second
	leastWorkerLease   = time.Second
	TakeWaitLimit      = time.Minute
	workerNameLimit    = 100 // characters
	offerLimit         = 100 // types, and queues
	capacityLimit      = 10_000
	extendLimit        = 1000 // attempts in one call
)

// WorkerOffer is what a worker by HTTP can do.
type WorkerOffer = remote.Offer

// TakeRequest is one call of a worker by HTTP for attempts.
type TakeRequest = remote.Request

// ErrStopping as the cause of a context's end has TakeAttempts return what it has.
var ErrStopping = remote.ErrStopping

// Taken is an attempt that a worker by HTTP has begun.
type Taken struct {
	Task       task.Task
	Token      string
	Timeout    time.Duration
	LeaseUntil time.Time // by the clock of Redis
	// Traceparent is that of the attempt's span; "" for none.
	Traceparent string
}

// TakeAttempts takes attempts for a worker and begins them; it waits for the first one, and returns none if there is none. The attempts
// may be of any namespace. A repeat of a request with an id gets the same ones. Errors: CodeInvalid; CodeUnavailable, after which the same
// request can be repeated.
func (c *Control) TakeAttempts(ctx context.Context, who Caller, worker string, offer WorkerOffer, r TakeRequest) ([]Taken, error) {
	if _, err := c.begin(ctx, who, "takeAttempts"); err != nil {
		return nil, err
	}
	if err := checkTake(worker, offer, r); err != nil {
		return nil, err
	}
	if c.workers == nil {
		return nil, task.Errorf(task.CodeUnavailable, "this node takes no attempts for workers")
	}
	r.Address = who.Address
	runs, err := c.workers.Take(ctx, worker, offer, r)
	if err != nil {
		return nil, err
	}
	taken := make([]Taken, len(runs))
	for i, r := range runs {
		timeout := r.Limit.Sub(r.Task.StartedAt) - remote.Grace
		taken[i] = Taken{
			Task: r.Task, Token: r.Token(), Timeout: timeout, LeaseUntil: r.Task.StartedAt.Add(offer.Lease),
			Traceparent: c.tracer.Lend(r.Task),
		}
	}
	return taken, nil
}

// ValidateWorkerName checks a name that a worker by HTTP chooses, for itself or for a call, and that a field has. Error: CodeInvalid.
func ValidateWorkerName(field, name string) error {
	if len(name) > workerNameLimit {
		return task.Invalid(field, "is %d characters long, at most %d are allowed", len(name), workerNameLimit)
	}
	if !workerName.MatchString(name) {
		return task.Invalid(field, "%q must be 1 to %d characters of A-Z a-z 0-9 . _ -", name, workerNameLimit)
	}
	return nil
}

var workerName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func checkTake(worker string, offer WorkerOffer, r TakeRequest) error {
	if err := ValidateWorkerName("worker", worker); err != nil {
		return err
	}
	switch {
	case len(offer.Types) < 1 || len(offer.Types) > offerLimit:
		return task.Invalid("types", "has %d entries, must have 1 to %d", len(offer.Types), offerLimit)
	case len(offer.Queues) < 1 || len(offer.Queues) > offerLimit:
		return task.Invalid("queues", "has %d entries, must have 1 to %d", len(offer.Queues), offerLimit)
	case offer.Capacity < 1 || offer.Capacity > capacityLimit:
		return task.Invalid("capacity", "%d must be 1 to %d", offer.Capacity, capacityLimit)
	case r.Limit < 1 || r.Limit > remote.TakeLimit:
		return task.Invalid("max", "%d must be 1 to %d", r.Limit, remote.TakeLimit)
	case r.Wait < 0 || r.Wait > TakeWaitLimit:
		return task.Invalid("wait", "%s must be 0 to %s", r.Wait, TakeWaitLimit)
	}
	if r.ID != "" {
		if err := ValidateWorkerName("request", r.ID); err != nil {
			return err
		}
	}
	if err := offer.Labels.Check(); err != nil {
		return task.Invalid("labels", "%v", err)
	}
	return errors.Join(checkMachine(r.Machine), checkWorkerLease(offer.Lease))
}

// checkMachine refuses what a worker cannot have measured.
func checkMachine(m *cluster.Machine) error {
	if field, fault := m.Check(); field != "" {
		return task.Invalid("machine."+field, "%s", fault)
	}
	return nil
}

func checkWorkerLease(lease time.Duration) error {
	if lease < leastWorkerLease || lease > contract.WorkerLeaseLimit {
		return task.Invalid("lease", "%s must be %s to %s", lease, leastWorkerLease, contract.WorkerLeaseLimit)
	}
	return nil
}

// Held is an attempt that a worker by HTTP holds, by its word.
type Held struct {
	ID      task.Ref
	Attempt int
	Token   string
}

// Extension is one call of a worker by HTTP to extend the leases of attempts.
type Extension struct {
	Attempts []Held
	Lease    time.Duration
	Machine  *cluster.Machine // of the worker; nil if it does not say
}

// Verdict says whether a worker goes on with an attempt.
type Verdict string

// The verdicts.
const (
	VerdictRunning   Verdict = "running"   // go on
	VerdictCancelled Verdict = "cancelled" // stop, and finish it as cancelled: somebody cancelled the task
	VerdictTimeout   Verdict = "timeout"   // stop, and finish it as timed out
	VerdictLost      Verdict = "lost"      // drop it: it has ended, or another run has it
	VerdictUnknown   Verdict = "unknown"   // its server of the cluster did not answer: go on until the last lease ends, and ask again
)

// Extended is what a worker is told of an attempt that it extends.
type Extended struct {
	Verdict Verdict
	Move    bool // somebody asks that the worker gives the attempt up; with VerdictRunning only
}

// ExtendAttempts extends the leases of attempts that a worker runs, and returns a verdict for each, in order. It counts as a sign of life
// of the worker, also without attempts. Errors: CodeInvalid, also for a token that is none of its attempt; CodeUnavailable if none has a
// verdict, after which leases may not have been extended.
func (c *Control) ExtendAttempts(ctx context.Context, who Caller, worker string, e Extension) ([]Extended, error) {
	if _, err := c.begin(ctx, who, "extendAttempts"); err != nil {
		return nil, err
	}
	err := errors.Join(ValidateWorkerName("worker", worker), checkWorkerLease(e.Lease), checkMachine(e.Machine))
	if err != nil {
		return nil, err
	}
	if len(e.Attempts) > extendLimit {
		return nil, task.Invalid("attempts", "has %d entries, at most %d are allowed", len(e.Attempts), extendLimit)
	}
	runs := make([]*tasks.Run, len(e.Attempts))
	for i, a := range e.Attempts {
		run, err := c.runWith(a.ID, a.Attempt, a.Token)
		if err != nil {
			return nil, task.Invalid(fmt.Sprintf("attempts[%d].token", i), "is not the token of attempt %d of task %q", a.Attempt, a.ID.ID)
		}
		runs[i] = run
	}
	if c.workers != nil {
		c.workers.Measured(worker, e.Machine)
	}
	extended, failure := c.extendAttempts(ctx, worker, runs, e.Lease)
	if failure != nil && !slices.ContainsFunc(extended, func(e Extended) bool { return e.Verdict != VerdictUnknown }) {
		return nil, &task.Error{Code: task.CodeUnavailable, Message: "cannot extend the leases: try again", Err: failure}
	}
	return extended, nil
}

// extendAttempts returns a verdict for each run, VerdictUnknown where Redis gave no answer, and an error if there are such. It does not
// wait for long: a silent server of a cluster must not cost the worker its leases on the others.
func (c *Control) extendAttempts(ctx context.Context, worker string, runs []*tasks.Run, lease time.Duration) (all []Extended, failure error) {
	ctx, cancel := context.WithTimeout(ctx, lease/3)
	defer cancel()
	all = make([]Extended, len(runs))
	drains := c.workers != nil && c.workers.Drains(worker)
	var held, lost []*tasks.Run
	for i, e := range c.store.Tasks.ExtendFor(ctx, lease, runs) {
		verdict := verdictOf(runs[i], e)
		all[i] = Extended{Verdict: verdict, Move: verdict == VerdictRunning && (e.Moving || drains)}
		switch verdict {
		case VerdictUnknown:
			failure = cmp.Or(failure, e.Err)
		case VerdictLost:
			lost = append(lost, runs[i])
		default:
			held = append(held, runs[i])
		}
	}
	if c.workers != nil {
		c.workers.Extended(worker, held, lost, lease)
	}
	return all, failure
}

// verdictOf is what follows from extending the lease of a run.
func verdictOf(run *tasks.Run, e tasks.Extended) Verdict {
	switch {
	case errors.Is(e.Err, tasks.ErrStale):
		return VerdictLost
	case errors.Is(e.Err, tasks.ErrOver): // and no leader has ended it, as after an outage: its end is accepted still
		return VerdictTimeout
	case e.Err != nil:
		return VerdictUnknown
	case e.Cancelled:
		return VerdictCancelled
	case !run.Limit.IsZero() && e.Now.After(run.Limit.Add(-remote.Grace)):
		return VerdictTimeout
	}
	return VerdictRunning
}

// LeaveWorker takes a worker by HTTP off the list of nodes. What it still runs is lost when its lease is over.
// Errors: CodeInvalid, CodeUnavailable.
func (c *Control) LeaveWorker(ctx context.Context, who Caller, worker string) error {
	if _, err := c.begin(ctx, who, "leaveWorker"); err != nil {
		return err
	}
	if err := ValidateWorkerName("worker", worker); err != nil {
		return err
	}
	if c.workers == nil {
		return nil
	}
	return c.workers.Leave(ctx, worker)
}
