package address

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

const (
	lookUpTime   = 2 * time.Second // after which a resolver that has not answered counts as silent
	answerTime   = 5 * time.Second // for which an answer holds, or that there was none
	answersLimit = 1_000           // names; beyond, all answers are forgotten
	nameLimit    = 253             // bytes of a name in DNS (RFC 1035, 3.1, without the first length and the last dot)
)

// lookUp is of net.DefaultResolver, but in tests.
type lookUp func(ctx context.Context, network, host string) ([]netip.Addr, error)

// names looks names of hosts up. However many calls ask, it asks the resolver for a name once at a time, and not again
// while the answer holds.
type names struct {
	time   time.Duration // see lookUpTime
	asking singleflight.Group

	mu      sync.Mutex
	answers map[string]answer
}

// answer is what a resolver has said of a name.
type answer struct {
	found []netip.Addr
	err   error
	until time.Time // it holds
}

func newNames() *names { return &names{time: lookUpTime, answers: make(map[string]answer)} }

// find returns the addresses of a name. Errors: *net.DNSError; or ctx has ended.
func (n *names) find(ctx context.Context, ask lookUp, host string) ([]netip.Addr, error) {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if len(host) > nameLimit {
		return nil, &net.DNSError{Err: "the name is too long", Name: task.Cut(host, excerptLimit), IsNotFound: true}
	}
	if known, ok := n.known(host); ok {
		return known.found, known.err
	}
	asked := n.asking.DoChan(host, func() (any, error) {
		a := n.ask(context.WithoutCancel(ctx), ask, host)
		n.keep(host, a)
		return a, nil
	})
	select {
	case r := <-asked:
		a := r.Val.(answer)
		return a.found, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// known returns an answer that holds.
func (n *names) known(host string) (_ answer, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a, ok := n.answers[host]
	return a, ok && clock.Now().Before(a.until)
}

// ask asks the resolver.
func (n *names) ask(ctx context.Context, ask lookUp, host string) (a answer) {
	ctx, cancel := context.WithTimeout(ctx, n.time)
	defer cancel()
	a.found, a.err = ask(ctx, "ip", host)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && a.err != nil { // not the deadline of the attempt
		why := fmt.Sprintf("the resolver has not answered within %s", n.time)
		a.err = &net.DNSError{Err: why, Name: host, IsTimeout: true}
	}
	a.until = clock.Now().Add(answerTime)
	return a
}

func (n *names) keep(host string, a answer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.answers) >= answersLimit {
		clear(n.answers)
	}
	n.answers[host] = a
}
