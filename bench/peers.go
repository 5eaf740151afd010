package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// peer is a library for tasks, in the form in which people use it: one program that submits, leads and works, on a
// server of its own.
type peer struct {
	name     string
	library  string // with its version
	settings string // what differs from its own ones
	argv     []string
	server   newServer
	bulk     bool // it has a call that submits many tasks
}

// newServer starts an empty server.
type newServer func(ctx context.Context) (peerServer, error)

// peerServer is what a peer keeps its tasks in.
type peerServer interface {
	url() string
	cpu(ctx context.Context) (float64, error) // that it has used, in seconds
	stop() error
}

const (
	ownPeer    = "DTS"
	peerBatch  = 1000                  // tasks in a call that submits many
	peerStore  = 8 * time.Second       // for storing the tasks of a herd
	peerSettle = 50 * time.Millisecond // before a herd, the costs are read
	peerLimit  = 10 * time.Minute      // for a round of all peers
)

// The figures of a peer.
const (
	peerRate   = "rate"
	peerRatio  = "DTS / it"
	peerFirst  = "first handler after"
	peerLast   = "all ended after"
	peerServes = "CPU of the server"
	peerSelf   = "CPU of the program"
)

// peerColumns are the figures of a peer, in their order.
var peerColumns = []string{peerRate, peerRatio, peerLast, peerFirst, peerServes, peerSelf}

// peerFigures is what came of a peer in a round.
type peerFigures struct {
	rate         float64 // tasks a second
	server, self float64 // CPU of the server and of the program, in us a task
	first, last  float64 // ms to the first handler, and to the last write; 0 where the row does not tell
}

// peerRows are the rows of the peers, which are measured only if they are asked for.
func peerRows(peers []peer) []row {
	withBulk := slices.DeleteFunc(slices.Clone(peers), func(p peer) bool { return !p.bulk })
	return []row{
		peerRow(peers, row{
			name: "peers-drain", title: "Drain of a full backlog",
			method: "All tasks are stored, many in each call where the library has that, and then the worker starts. " +
				"From the start of the first handler to the last write about the last task.",
		}, onServer((*peerRun).drain)),
		peerRow(peers, row{
			name: "peers-herd", title: "Herd: tasks due at one instant",
			method: "The worker runs and has nothing to do; all tasks are stored before they are due. " +
				"From that instant to the last write about the last task.",
		}, onServer((*peerRun).herd)),
		peerRow(peers, row{
			name: "peers-submit", title: "Submission, one task in each call",
			method: "64 submitters at once, goroutines or asynchronous functions, while no worker runs.",
		}, onServer((*peerRun).single)),
		peerRow(withBulk, row{
			name: "peers-bulk", title: "Submission, many tasks in each call",
			method: "1,000 tasks in each call, 8 calls at once, while no worker runs. " +
				"A library without such a call is not here.",
		}, onServer((*peerRun).many)),
	}
}

// measurePeer is one run of a peer.
type measurePeer func(ctx context.Context, b *bench, p peer) (peerFigures, error)

// peerRow measures each peer once in each round, one after the other; the next round begins with the next one.
func peerRow(peers []peer, r row, measure measurePeer) row {
	r.limit = peerLimit
	r.run = func(ctx context.Context, b *bench) (figures, error) {
		of := make(map[string]peerFigures)
		for i := range peers {
			p := peers[(i+b.round)%len(peers)]
			one, err := measure(ctx, b, p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			of[p.name] = one
		}
		var f figures
		for _, p := range peers {
			f.addPeer(p.name, of[p.name], of[ownPeer])
		}
		return f, nil
	}
	return r
}

// addPeer adds the figures of a peer, beside those of DTS in the same round.
func (f *figures) addPeer(name string, of, own peerFigures) {
	f.add(peerFigure(name, peerRate), of.rate, "tasks/s")
	if name != ownPeer {
		f.add(peerFigure(name, peerRatio), own.rate/of.rate, "x")
	}
	if of.first != 0 {
		f.add(peerFigure(name, peerFirst), of.first, "ms")
	}
	if of.last != 0 {
		f.add(peerFigure(name, peerLast), of.last, "ms")
	}
	f.add(peerFigure(name, peerServes), of.server, "µs/task")
	f.add(peerFigure(name, peerSelf), of.self, "µs/task")
}

// peerFigure is the name of a figure of a peer.
func peerFigure(peer, column string) string { return peer + ": " + column }

// peerRun is one run of a program, on a new server.
type peerRun struct {
	peer   peer
	tasks  int
	server peerServer
	*peerProcess
}

// onServer measures in a process of the peer's own, on a server of its own.
func onServer(measure func(r *peerRun, ctx context.Context) (peerFigures, error)) measurePeer {
	return func(ctx context.Context, b *bench, p peer) (peerFigures, error) { return b.runPeer(ctx, p, measure) }
}

func (b *bench) runPeer(
	ctx context.Context, p peer, measure func(*peerRun, context.Context) (peerFigures, error),
) (f peerFigures, err error) {
	keep := len(b.cleanups)
	defer func() { err = errors.Join(err, b.unwind(keep)) }()
	server, err := p.server(ctx)
	if err != nil {
		return f, err
	}
	b.cleanup(server.stop)
	process, err := b.startPeer(ctx, p.argv, server.url())
	if err != nil {
		return f, err
	}
	return measure(&peerRun{peer: p, tasks: b.size.tasks, server: server, peerProcess: process}, ctx)
}

// early is how long before a task is due it may begin. The other libraries promise no instant: theirs only finds tasks
// that did not wait at all.
func (p peer) early() time.Duration {
	if p.name == ownPeer {
		return time.Millisecond // the programs round times
	}
	return peerSettle
}

// batch is how many tasks are in a call that only fills the server.
func (r *peerRun) batch() int {
	if r.peer.bulk {
		return peerBatch
	}
	return 1
}

func (r *peerRun) drain(ctx context.Context) (f peerFigures, err error) {
	if _, err := r.ask(step{Do: "submit", Batch: r.batch()}); err != nil {
		return f, err
	}
	return r.costs(ctx, func() (f peerFigures, err error) {
		begin := instant(clock.Now())
		if _, err := r.ask(step{Do: "work"}); err != nil {
			return f, err
		}
		done, err := r.ask(step{Do: "await"})
		return r.until(done, done.First, begin), err
	}, true)
}

func (r *peerRun) herd(ctx context.Context) (f peerFigures, err error) {
	if _, err := r.ask(step{Do: "work"}); err != nil {
		return f, err
	}
	due := clock.Now().Add(peerStore).Truncate(time.Second).Add(time.Second)
	if _, err := r.ask(step{Do: "submit", Batch: r.batch(), Due: due.UnixMilli()}); err != nil {
		return f, err
	}
	if clock.Until(due) < peerSettle {
		return f, fmt.Errorf("storing %d tasks took too long for a herd", r.tasks)
	}
	if err := clock.Sleep(ctx, clock.Until(due)-peerSettle); err != nil {
		return f, err
	}
	return r.costs(ctx, func() (peerFigures, error) {
		done, err := r.ask(step{Do: "await"})
		if err == nil && done.First < instant(due.Add(-r.peer.early())) {
			err = errors.New("a task ran before it was due")
		}
		f := r.until(done, instant(due), instant(due))
		f.last = (done.Last - instant(due)) * 1000
		return f, err
	}, true)
}

func (r *peerRun) single(ctx context.Context) (peerFigures, error) { return r.submit(ctx, 1) }
func (r *peerRun) many(ctx context.Context) (peerFigures, error)   { return r.submit(ctx, peerBatch) }

func (r *peerRun) submit(ctx context.Context, batch int) (peerFigures, error) {
	return r.costs(ctx, func() (f peerFigures, err error) {
		done, err := r.ask(step{Do: "submit", Batch: batch})
		f.rate = float64(r.tasks) / done.Seconds
		return f, err
	}, false)
}

// until is the rate of a run from a time to its last write, and how long after due its first handler began.
func (r *peerRun) until(done stepDone, from, due float64) peerFigures {
	return peerFigures{rate: float64(r.tasks) / (done.Last - from), first: (done.First - due) * 1000}
}

// costs measures the CPU of f. If tasks run in it, the program must have run each of them once, and the server must
// have all of them as ended well.
func (r *peerRun) costs(ctx context.Context, f func() (peerFigures, error), ran bool) (out peerFigures, err error) {
	serverBefore, err := r.server.cpu(ctx)
	if err != nil {
		return out, err
	}
	selfBefore, err := r.cpu()
	if err != nil {
		return out, err
	}
	if out, err = f(); err != nil {
		return out, err
	}
	self, err := r.cpu()
	if err != nil {
		return out, err
	}
	server, err := r.server.cpu(ctx)
	if err != nil {
		return out, err
	}
	out.server = (server - serverBefore) / float64(r.tasks) * 1e6
	out.self = (self - selfBefore) / float64(r.tasks) * 1e6
	if !ran {
		return out, nil
	}
	checked, err := r.ask(step{Do: "check"})
	if err == nil && (checked.Handled != r.tasks || checked.Ended != r.tasks) {
		err = fmt.Errorf("of %d tasks, %d were handled and %d have ended", r.tasks, checked.Handled, checked.Ended)
	}
	return out, err
}
