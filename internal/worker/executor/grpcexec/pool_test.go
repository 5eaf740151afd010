package grpcexec

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/address"
	"github.com/dts-sched/dts/internal/worker/executor/grpcexec/grpccall"
)

func testPool(t *testing.T, limit int, idle time.Duration) *pool {
	t.Helper()
	p := newPool(&dialer{rules: address.New()})
	p.limit, p.idle = limit, idle
	t.Cleanup(func() { testkit.Must(t, p.close()) })
	return p
}

func get(t *testing.T, p *pool, target string) *conn {
	t.Helper()
	c, err := p.get(t.Context(), grpccall.Server{Target: target})
	testkit.Must(t, err)
	return c
}

func TestPool_SharesAConnectionAmongEqualServers(t *testing.T) {
	t.Parallel()
	p := testPool(t, 10, time.Minute)
	first, second, other := get(t, p, "a:1"), get(t, p, "a:1"), get(t, p, "a:2")
	if first != second || first == other || p.open != 2 {
		t.Errorf("there are %d connections", p.open)
	}
	encrypted, err := p.get(t.Context(), grpccall.Server{Target: "a:1", Encrypted: true})
	testkit.Must(t, err)
	if encrypted == first {
		t.Error("a connection without TLS was taken for one with")
	}
	for _, c := range []*conn{first, second, other, encrypted} {
		p.put(c, false)
	}
	if get(t, p, "a:1") != first {
		t.Error("the connection was not kept")
	}
	p.put(first, false)
}

func TestPool_ClosesAnIdleConnectionForAnother(t *testing.T) {
	t.Parallel()
	p := testPool(t, 1, time.Minute)
	first := get(t, p, "a:1")
	p.put(first, false)
	second := get(t, p, "a:2")
	if first.GetState() != connectivity.Shutdown || p.open != 1 {
		t.Errorf("the first one is %s; %d are open", first.GetState(), p.open)
	}
	p.put(second, false)
}

func TestPool_WaitsWhileAllConnectionsAreInUse(t *testing.T) {
	t.Parallel()
	p := testPool(t, 1, time.Minute)
	first := get(t, p, "a:1")
	cause := errors.New("timeout")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := p.get(ctx, grpccall.Server{Target: "a:2"}); !errors.Is(err, cause) {
		t.Errorf("error is %v", err)
	}
	got := make(chan *conn, 1)
	go func() {
		c, _ := p.get(t.Context(), grpccall.Server{Target: "a:2"})
		got <- c
	}()
	p.put(first, false)
	p.put(testkit.Receive(t, got, "a connection"), false)
}

func TestPool_ReplacesAnUnusableConnectionAndLetsItsUsersEnd(t *testing.T) {
	t.Parallel()
	p := testPool(t, 10, time.Minute)
	first, same := get(t, p, "a:1"), get(t, p, "a:1")
	p.put(first, true)
	second := get(t, p, "a:1")
	if second == first || same.GetState() == connectivity.Shutdown || p.open != 2 {
		t.Errorf("the same connection: %v; the first one is %s; %d are open", second == first, same.GetState(), p.open)
	}
	p.put(same, false)
	if same.GetState() != connectivity.Shutdown || p.open != 1 {
		t.Errorf("the first one is %s; %d are open", same.GetState(), p.open)
	}
	p.put(second, false)
}

func TestPool_ClosesWhatIsIdleForLong(t *testing.T) {
	t.Parallel()
	p := testPool(t, 10, time.Millisecond)
	c := get(t, p, "a:1")
	p.put(c, false)
	testkit.Eventually(t, "the connection is closed", func() bool { return c.GetState() == connectivity.Shutdown })
}

// gRPC itself would wait longer and longer before it connects again, and fail all calls meanwhile.
func TestExecutor_ConnectsAtOnceWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	target := listener.Addr().String()
	testkit.Must(t, listener.Close())
	e := newExecutor(t)
	payload := object{"target": target, "method": unary, "descriptor_set": testingSet(t)}
	for range 3 {
		if _, err := execute(t, e, payload); err == nil || executor.IsPermanent(err) {
			t.Fatalf("without a server: %v", err)
		}
	}
	listener, err = net.Listen("tcp", target)
	testkit.Must(t, err)
	s := grpc.NewServer()
	done := make(chan error, 1)
	go func() { done <- s.Serve(listener) }()
	defer func() {
		s.Stop()
		testkit.Must(t, <-done)
	}()
	if _, err := execute(t, e, payload); err == nil || err.Error() != "UNIMPLEMENTED: unknown service grpc.testing.TestService" {
		t.Errorf("the server does not answer: %v", err)
	}
}
