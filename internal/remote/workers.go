// Package remote stands in for workers that reach DTS by HTTP. Such a worker is anybody who takes attempts through the API, extends
// their leases and reports on them: a program in any language.
//
// What a worker has begun is in Redis and in the tokens that it got, so that it can go on through any node. A node that is asked for
// attempts keeps a session with the worker: it takes deliveries for it, is woken for it, and shows it in the list of nodes, until the
// worker is silent for a while.
package remote

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/telemetry"
	"github.com/dts-sched/dts/lua"
)

// The limits of a node.
const (
	SessionsLimit = config.WorkersLimit // workers at once
	TakeLimit     = 64                  // attempts in one answer
	TakeBytes     = layout.PageBytes    // of payloads and checkpoints in one answer, unless a single attempt has more
	// NamesLimit is how many bytes the names of queues and types may have that the workers of one address bring, each
	// name counted once if the workers offer the same. It lets one worker offer 100 of each, of any length. Leaders
	// tell every claim what is served.
	NamesLimit = 32 << 10
	// LabelsLimit is how many bytes the labels of the workers of one address may have, which every node reads at each
	// heartbeat: of 8 workers with as many as one may have, or of 100 with 300 bytes each.
	LabelsLimit = 32 << 10
)

// Grace is how long after the timeout of an attempt its worker may still report on it.
const Grace = 10 * time.Second

// DefaultSilence is how long a worker may be without a call before it counts as gone. While it holds attempts, it is
// its lease if that is longer.
const DefaultSilence = 10 * time.Second

// Members is the list of nodes.
type Members interface {
	View() cluster.View
	BeatNow()
	RemoveGuest(ctx context.Context, id string) error
}

// Options says what the workers work on. All but Types, PerAddress and Silence are required.
type Options struct {
	DB      *redisx.DB // open until Run has returned
	Prefix  string     // of the keys of this installation
	Store   *store.Store
	Members Members
	Types   task.Types    // whose timeouts this node knows
	Silence time.Duration // 0 means DefaultSilence
	// PerAddress is how many workers one address may have, so that nobody takes the place of all others. 0 means
	// config.DefaultWorkersPerAddress.
	PerAddress int
	Metrics    *telemetry.Metrics
	Log        *slog.Logger
}

// Workers are the sessions of one node.
type Workers struct {
	o       Options
	labels  telemetry.Labels // types of tasks that have labels of their own
	running sync.WaitGroup   // counts the sessions that have not ended

	mu       sync.Mutex
	sessions map[string]*session // by the worker's id
	closed   bool
}

// New returns no sessions yet. Take makes them, while Run runs.
func New(o Options) *Workers {
	o.Silence = cmp.Or(o.Silence, DefaultSilence)
	o.PerAddress = cmp.Or(o.PerAddress, config.DefaultWorkersPerAddress)
	return &Workers{o: o, sessions: map[string]*session{}}
}

// Offer is what a worker can do.
type Offer struct {
	Types    []string      // of the tasks that it runs, at least one
	Queues   []string      // that it serves, at least one
	Capacity int           // most attempts at once
	Lease    time.Duration // how long its word holds that it runs an attempt
	Labels   config.Labels
}

func (o Offer) equal(other Offer) bool {
	return o.Capacity == other.Capacity && o.Lease == other.Lease && slices.Equal(o.Types, other.Types) &&
		slices.Equal(o.Queues, other.Queues) && maps.Equal(o.Labels, other.Labels)
}

// Run ends the sessions of workers that are gone, until ctx ends. Then it ends all, and returns nil. Attempts that have begun go on:
// their workers talk to other nodes.
func (w *Workers) Run(ctx context.Context) error {
	for clock.Sleep(ctx, w.o.Silence/10) == nil {
		answers := w.o.DB.Link().Answers()
		each(w.all(), func(_ int, s *session) {
			switch {
			case !answers: // nobody can call who is alive
				s.spare()
			case s.silent():
				w.end(s)
			default:
				s.dropLost(ctx)
			}
		})
	}
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	for _, s := range w.all() {
		w.end(s)
	}
	w.running.Wait()
	return nil
}

// each calls do for all sessions at once, and returns when all calls have.
func each(all []*session, do func(i int, s *session)) {
	var calls sync.WaitGroup
	for i, s := range all {
		calls.Go(func() { do(i, s) })
	}
	calls.Wait()
}

func (w *Workers) all() []*session {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*session, 0, len(w.sessions))
	for _, s := range w.sessions {
		all = append(all, s)
	}
	return all
}

// end ends a session.
func (w *Workers) end(s *session) {
	w.mu.Lock()
	if w.sessions[s.id] == s {
		delete(w.sessions, s.id)
	}
	w.mu.Unlock()
	s.stop()
}

// Take takes attempts for a worker and begins them. A repeat of a call with an id, through whatever node, gets the same attempts, as long
// as the worker holds them. Of a call without one, nobody gets the attempts if its ctx ends: they are lost, so that others follow at once.
// Errors: CodeInvalid if the id is that of a node; CodeUnavailable if this node or the caller's address has too many
// workers, or the node stops, or Redis does not answer: the same call can be repeated.
func (w *Workers) Take(ctx context.Context, id string, offer Offer, r Request) ([]*tasks.Run, error) {
	s, err := w.session(id, r.Address, offer)
	if err != nil {
		return nil, err
	}
	defer s.call()()
	s.measured(r.Machine)
	return s.take(ctx, r)
}

// session returns the session of a worker. A worker that offers something else than before gets another one.
func (w *Workers) session(id, address string, offer Offer) (*session, error) {
	if w.isNode(id) {
		return nil, task.Invalid("worker", "%q is the id of a node: choose another one", id)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sessions[id]
	switch {
	case w.closed:
		return nil, task.Errorf(task.CodeUnavailable, "this node is shutting down: ask another one")
	case s != nil && s.offer.equal(offer):
		return s, nil
	}
	if err := w.checkRoom(s, address, offer); err != nil {
		return nil, err
	}
	fresh := newSession(w, id, offer)
	fresh.address = address
	fresh.setCordon(w.o.Members.View())
	w.sessions[id] = fresh
	w.running.Go(fresh.run)
	if s != nil {
		fresh.inherit(s)
		w.running.Go(s.stop) // ends what it holds
	}
	w.o.Members.BeatNow()
	return fresh, nil
}

// checkRoom refuses one more session, which replaces another one if that is not nil. The caller holds mu. Error:
// CodeUnavailable.
func (w *Workers) checkRoom(replaced *session, address string, offer Offer) error {
	offers, labels := []lua.Offer{{Queues: offer.Queues, Types: offer.Types}}, labelBytes(offer.Labels)
	for _, s := range w.sessions {
		if s != replaced && s.address == address {
			offers = append(offers, lua.Offer{Queues: s.offer.Queues, Types: s.offer.Types})
			labels += labelBytes(s.offer.Labels)
		}
	}
	n := len(offers) - 1
	switch {
	case replaced == nil && len(w.sessions) >= SessionsLimit:
		return task.Errorf(task.CodeUnavailable, "this node has %d workers already: ask another one", SessionsLimit)
	case n >= w.o.PerAddress:
		return refusal("worker", "%d workers call this node from the address %s, and --max-workers-per-address allows no "+
			"more: ask another node", n, address)
	}
	if size := len(lua.ServedText(offers)); size > NamesLimit {
		return refusal("queues, types", "with these, the names of all workers that call this node from the address %s have %d "+
			"bytes, at most %d are allowed: name fewer, or the same as other workers, or ask another node", address, size, NamesLimit)
	}
	if labels > LabelsLimit {
		return refusal("labels", "with these, the labels of all workers that call this node from the address %s have %d "+
			"bytes, at most %d are allowed: give fewer, or ask another node", address, labels, LabelsLimit)
	}
	return nil
}

// labelBytes are how long labels are.
func labelBytes(l config.Labels) (n int) {
	for name, value := range l {
		n += len(name) + len(value)
	}
	return n
}

// refusal says that another node may take what this one does not, because of a field.
func refusal(field, format string, args ...any) error {
	return &task.Error{Code: task.CodeUnavailable, Field: field, Message: fmt.Sprintf(format, args...)}
}

func (w *Workers) isNode(id string) bool {
	return slices.ContainsFunc(w.o.Members.View().Nodes, func(n cluster.Node) bool {
		return n.ID == id && n.Via == "" && n.State != cluster.StateDead
	})
}

// Drains reports whether what a worker runs is asked to move to other workers.
func (w *Workers) Drains(worker string) bool {
	return w.o.Members.View().CordonOf(worker, worker).IsDrain()
}

// NoteCordons keeps workers that are cordoned from getting attempts. Those that are not get attempts again. It returns
// whether something has changed.
func (w *Workers) NoteCordons(v cluster.View) (changed bool) {
	for _, s := range w.all() {
		changed = s.setCordon(v) || changed
	}
	return changed
}

// Measured records what a worker says of its machine; nil for nothing.
func (w *Workers) Measured(id string, m *cluster.Machine) {
	if s := w.of(id); s != nil {
		s.measured(m)
	}
}

// Extended records that a worker has extended the leases of runs. lost are those that it does not hold any more.
func (w *Workers) Extended(id string, held, lost []*tasks.Run, lease time.Duration) {
	if s := w.of(id); s != nil {
		s.extended(held, lost, lease)
	}
}

// ExtendNow tells Redis of the runs of all workers, as it may have lost them. Their leases end when the latest one of their worker would have
// ended, and not before that of a run of this node would. Errors: those of Redis; it may not have been told of all of them.
func (w *Workers) ExtendNow(ctx context.Context) tasks.Failures {
	all := w.all()
	failures := make([]tasks.Failures, len(all))
	each(all, func(i int, s *session) { failures[i] = s.extendNow(ctx) })
	failed := make(tasks.Failures)
	for _, some := range failures {
		failed.AddAll(some)
	}
	return failed
}

// TaskOf returns the task of a run as it was when it began, if a worker has the run.
func (w *Workers) TaskOf(run *tasks.Run) (t task.Task, known bool) {
	s := w.of(run.Node())
	if s == nil {
		return task.Task{}, false
	}
	return s.taskOf(run.Task.Run)
}

// Settle ends the delivery of a run that has ended: with nil, or queue.ErrDeadLetter if its task has failed for good. If the run
// began through another node, that one ends it when it notices.
func (w *Workers) Settle(run *tasks.Run, err error) {
	if s := w.of(run.Node()); s != nil {
		s.settle(run.Task.Run, err)
	}
}

func (w *Workers) of(id string) *session {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sessions[id]
}

// Leave ends the session of a worker that stops, and removes it from the list of nodes. Errors: CodeInvalid if the id is that of a
// node; CodeUnavailable.
func (w *Workers) Leave(ctx context.Context, id string) error {
	if w.isNode(id) {
		return task.Invalid("worker", "%q is the id of a node", id)
	}
	if s := w.of(id); s != nil {
		w.end(s)
	}
	return w.o.Members.RemoveGuest(ctx, id)
}

// Guests returns the workers with a session, as they are in the list of nodes.
func (w *Workers) Guests() []cluster.Node {
	var guests []cluster.Node
	for _, s := range w.all() {
		guests = append(guests, s.describe())
	}
	return guests
}
