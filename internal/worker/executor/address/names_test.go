package address

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// silent is the look-up of a resolver that never answers, and how often it was asked.
func silent() (lookUp, *atomic.Int64) {
	var asked atomic.Int64
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	return func(ctx context.Context, network, host string) ([]netip.Addr, error) {
		asked.Add(1)
		return resolver.LookupNetIP(ctx, network, host)
	}, &asked
}

func TestCheckHost_LeavesNamesToTheProxy(t *testing.T) {
	t.Parallel()
	r := New()
	var asked *atomic.Int64
	r.LookUp, asked = silent()
	r.Protect(func() []executor.Endpoint {
		return []executor.Endpoint{{Part: "the API", Address: "0.0.0.0:8080", Allowed: true}, {Address: "redis.test:6379"}}
	})
	for _, host := range []string{
		"name.test", "name.test.", "NAME.test", "bücher.test", "192.0.2.1", "2001:db8::1", "my_host",
	} {
		for _, port := range []uint16{80, 443, 8080} {
			testkit.Must(t, r.CheckHost(t.Context(), host, port))
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the resolver was asked %d times", n)
	}
}

// A part of the installation is denied by its name, too, as far as the port is its own.
func TestCheckHost_LooksUpNamesAtOwnPorts(t *testing.T) {
	t.Parallel()
	r := own(t)
	r.Protect(func() []executor.Endpoint {
		return append(executor.RedisEndpoints("the Redis of DTS", []string{"redis.test:6379"}),
			executor.Endpoint{Part: "the API", Address: "192.0.2.1:8080", Allowed: true})
	})
	for port, denied := range map[uint16]bool{6379: true, 6380: false, 8080: false} {
		if err := r.CheckHost(t.Context(), "redis.test", port); denied != executor.IsPermanent(err) {
			t.Errorf("port %d: %v", port, err)
		}
	}
	if err := r.CheckHost(Sent(t.Context()), "redis.test", 8080); !executor.IsPermanent(err) {
		t.Errorf("sent by a target: %v, want a final error", err)
	}
}

func TestCheckHost_DeniesNamesOfCloudMetadata(t *testing.T) {
	t.Parallel()
	r := New()
	r.LookUp, _ = silent()
	for _, host := range []string{
		"metadata.google.internal", "Metadata.Google.Internal.", "metadata.tencentyun.com", "metadata.goog", "metadata",
		"METADATA", "metadata.", "instance-data", "instance-data.ec2.internal", "api.metadata.cloud.ibm.com",
		"metadata.exoscale.com",
		"169.254.169.254", "１６９.２５４.１６９.２５４", "１６９。２５４。１６９。２５４", "２８５２０３９１６６",
	} {
		if err := r.CheckHost(t.Context(), host, 443); !executor.IsPermanent(err) {
			t.Errorf("%s: %v, want a final error", host, err)
		}
	}
	testkit.Must(t, r.Allow.Set("169.254.169.254"))
	testkit.Must(t, r.CheckHost(t.Context(), "metadata.google.internal", 80))
}

func TestCheckHost_AsksOnceForManyCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := New()
		testkit.Must(t, r.Deny.Set("192.0.2.0/24"))
		asked := 0
		r.LookUp = func(ctx context.Context, _, host string) ([]netip.Addr, error) {
			asked++
			testkit.Must(t, clock.Sleep(ctx, time.Second))
			if host == "gone.test" {
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			}
			return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
		}
		for i, c := range []struct {
			host  string
			final bool
		}{{"inside.test", true}, {"gone.test", false}} {
			for round := range 2 { // the second one after the answer has expired
				done := make(chan error, 64)
				for range cap(done) {
					go func() { done <- r.CheckHost(t.Context(), strings.ToUpper(c.host), 80) }()
				}
				for range cap(done) {
					if err := <-done; err == nil || executor.IsPermanent(err) != c.final {
						t.Fatalf("%s: %v", c.host, err)
					}
				}
				_ = r.CheckHost(t.Context(), c.host+".", 443)
				if want := 2*i + round + 1; asked != want {
					t.Fatalf("%s, round %d: the resolver was asked %d times, want %d", c.host, round, asked, want)
				}
				testkit.Must(t, clock.Sleep(t.Context(), answerTime))
			}
		}
	})
}

// The first call for a name asks for the others, too, so its end is not theirs.
func TestCheckHost_OutlivesTheCallThatAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := New()
		testkit.Must(t, r.Deny.Set("192.0.2.0/24"))
		r.LookUp = func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("198.51.100.1")}, clock.Sleep(ctx, time.Second)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- r.CheckHost(short, "name.test", 80) }()
		synctest.Wait()
		testkit.Must(t, r.CheckHost(t.Context(), "name.test", 80))
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the first call: %v", err)
		}
	})
}

func TestCheckHost_WaitsForNoSilentResolver(t *testing.T) {
	t.Parallel()
	r := New()
	var asked *atomic.Int64
	r.LookUp, asked = silent()
	r.names.time = 50 * time.Millisecond
	testkit.Must(t, r.Deny.Set("192.0.2.0/24"))
	for range 10 {
		err := r.CheckHost(t.Context(), "name.test", 80)
		if err == nil || executor.IsPermanent(err) || errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "the resolver has not answered within 50ms") {
			t.Fatalf("got %v, want an error that is not final and says why", err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the resolver was asked %d times, want once", n)
	}
}

func TestCheckHost_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	r := New()
	release := make(chan struct{})
	defer close(release)
	r.LookUp = func(context.Context, string, string) ([]netip.Addr, error) { <-release; return nil, nil }
	testkit.Must(t, r.Deny.Set("192.0.2.0/24"))
	cancelled := errors.New("cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cancelled)
	if err := r.CheckHost(ctx, "name.test", 80); !errors.Is(err, cancelled) {
		t.Errorf("got %v", err)
	}
}

func TestNames_KeepABoundedNumberOfAnswers(t *testing.T) {
	t.Parallel()
	n := newNames()
	found := func(context.Context, string, string) ([]netip.Addr, error) { return nil, nil }
	for i := range 2*answersLimit + 10 {
		_, err := n.find(t.Context(), found, fmt.Sprintf("host-%d.test", i))
		testkit.Must(t, err)
	}
	if len(n.answers) > answersLimit {
		t.Errorf("it keeps %d answers", len(n.answers))
	}
	if _, err := n.find(t.Context(), found, strings.Repeat("a.", nameLimit)); err == nil {
		t.Error("a name that is too long for DNS was looked up")
	}
}
