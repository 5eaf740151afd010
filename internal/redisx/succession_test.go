package redisx_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// open returns a client of a Redis that obeys a succession. It is closed when the test ends.
func open(t *testing.T, url string, s *redisx.Succession, vital bool) *redisx.DB {
	t.Helper()
	db, err := redisx.Open(t.Context(), redisx.Options{URL: url, Succession: s, Vital: vital})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestSuccession_OnlyVitalClientsReachAnotherPrimaryAtOnce(t *testing.T) {
	t.Parallel()
	for name, takeOver := range map[string]func(*redistest.Pair){
		"failover": (*redistest.Pair).FailOver,
		"restart":  func(p *redistest.Pair) { p.Primary.Restart() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair := redistest.StartPair(t)
			s := redisx.NewSuccession(time.Hour)
			vital, other := open(t, pair.URL(), s, true), open(t, pair.URL(), s, false)
			pair.Cut()
			pair.Mend()
			testkit.Must(t, other.Ping(t.Context()).Err())
			if s.Within(time.Hour) {
				t.Error("a new connection to the same primary counts as another one")
			}

			takeOver(pair)
			testkit.Must(t, vital.Ping(t.Context()).Err())
			testkit.Receive(t, s.Changed(), "another primary")
			if !s.Within(time.Hour) {
				t.Error("another primary has not taken over")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := other.Ping(ctx).Err(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a client that is not vital: %v, want to wait", err)
			}
		})
	}
}

// Redis names its history anew when the first replica comes, but has lost nothing.
func TestSuccession_TakesAFirstReplicaForNoFailover(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	server := redistest.Start(t, redistest.With("--repl-diskless-sync-delay", "0"))
	way := redistest.NewProxy(t, server.Addr())
	s := redisx.NewSuccession(time.Hour)
	other := open(t, way.URL(), s, false)
	before, err := redisx.Info(t.Context(), other, "replication")
	testkit.Must(t, err)
	redistest.Start(t).Follow(server)
	way.Cut()
	way.Mend()
	testkit.Must(t, other.Set(t.Context(), "k", "v", 0).Err())
	after, err := redisx.Info(t.Context(), other, "replication")
	testkit.Must(t, err)
	if s.Within(time.Hour) || before["master_replid"] == after["master_replid"] {
		t.Errorf("another primary has taken over, with the history %s before and %s after",
			before["master_replid"], after["master_replid"])
	}
	server.Restart()
	waits(t, other, s)
}

// A connection to a replica would stay when that takes over, and nobody would ask on it who answers.
func TestSuccession_OthersWaitForAReplicaThatTakesOverAfterTheyHaveFoundIt(t *testing.T) {
	t.Parallel()
	pair := redistest.StartPair(t)
	s := redisx.NewSuccession(time.Hour)
	other := open(t, pair.URL(), s, false)
	pair.SwitchOver()
	if err := other.Get(t.Context(), "k").Err(); !strings.Contains(redisx.RefusedWrites(err), "it is a replica") {
		t.Errorf("a replica was read: %v", err)
	}
	testkit.Must(t, pair.Replica.Admin().ReplicaOf(t.Context(), "NO", "ONE").Err())
	waits(t, other, s)
}

// Redis keeps the connections of clients when a primary becomes a replica, and a primary again. Then it has lost what the other one did not have.
func TestSuccession_OthersWaitForAPrimaryThatWasAReplicaMeanwhile(t *testing.T) {
	t.Parallel()
	pair := redistest.StartPair(t)
	first, second := pair.Primary, pair.Replica
	s := redisx.NewSuccession(time.Hour)
	vital, other := open(t, first.URL(), s, true), open(t, first.URL(), s, false)
	pair.Detach()
	first.Follow(second)
	if err := vital.Set(t.Context(), "k", "v", 0).Err(); redisx.RefusedWrites(err) == "" {
		t.Errorf("a replica was written to: %v", err)
	}
	testkit.Must(t, first.Admin().ReplicaOf(t.Context(), "NO", "ONE").Err())
	waits(t, other, s)
	testkit.Must(t, vital.Set(t.Context(), "k", "v", 0).Err())
}

// waits checks that a script of a client notices that another primary has taken over, and waits then.
func waits(t *testing.T, db *redisx.DB, s *redisx.Succession) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := redisx.Run(ctx, db, lua.Confirm{Confirmed: lua.NewKeyspace("", 0).Partition(0).Confirmed()})
		ended <- err
	}()
	testkit.Eventually(t, "another primary has taken over", func() bool { return s.Within(time.Hour) })
	cancel()
	if err := testkit.Receive(t, ended, "the end of the script"); !errors.Is(err, context.Canceled) {
		t.Errorf("a script of a client that is not vital: %v, want to wait", err)
	}
}

// A client of a cluster that has read its map is connected to replicas, too, before one of them takes over.
func TestSuccession_OthersWaitInAClusterAsWell(t *testing.T) {
	t.Parallel()
	for name, takeOver := range map[string]func(*redistest.Cluster){
		"failover": func(c *redistest.Cluster) { c.Failover("k") },
		"death":    func(c *redistest.Cluster) { c.Primary("k").Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartCluster(t)
			s := redisx.NewSuccession(time.Hour)
			vital, other := open(t, cluster.URL(), s, true), open(t, cluster.URL(), s, false)
			for _, db := range []*redisx.DB{vital, other} {
				testkit.Must(t, db.Set(t.Context(), "k", "v", 0).Err())
			}
			takeOver(cluster)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for !s.Within(time.Hour) && ctx.Err() == nil {
				call, cancel := context.WithTimeout(ctx, time.Second)
				if err := other.Get(call, "k").Err(); err == nil {
					t.Error("the primary that took over answered a client that is not vital")
				}
				cancel()
			}
			testkit.Receive(t, s.Changed(), "another primary")
			testkit.Eventually(t, "an answer to the vital client", func() bool { return vital.Get(t.Context(), "k").Val() == "v" })
			call, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := other.Get(call, "k").Err(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a client that is not vital: %v, want to wait", err)
			}
		})
	}
}

// A client stays connected to a primary of a cluster that becomes a replica, and a primary again.
func TestSuccession_NoticesAPrimaryOfAClusterThatTakesOverAgain(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	s := redisx.NewSuccession(time.Hour)
	db := open(t, cluster.URL(), s, true)
	for _, what := range []string{"a primary", "another one", "the first one again"} {
		if what != "a primary" {
			cluster.Failover("k")
		}
		testkit.Eventually(t, "an answer of "+what, func() bool { return db.Set(t.Context(), "k", "v", 0).Err() == nil })
		if what != "a primary" {
			testkit.Receive(t, s.Changed(), what)
		}
	}
}

// asking is a connection on which change may change the question who the server is; "" sends it only with what is sent next.
type asking struct {
	net.Conn
	change func(question string) string
	held   string
}

func (c *asking) Write(b []byte) (int, error) {
	text := string(b)
	if strings.Contains(text, "\r\ninfo\r\n") {
		if text = c.change(text); text == "" {
			c.held = string(b)
			return len(b), nil
		}
	}
	_, err := c.Conn.Write([]byte(c.held + text))
	c.held = ""
	return len(b), err
}

// dialAsking returns a dialer whose first connection is an asking one, and how many it has made.
func dialAsking(addr string, change func(question string) string) (dial func(context.Context) (net.Conn, error), made *atomic.Int32) {
	made = new(atomic.Int32)
	return func(ctx context.Context) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if made.Add(1) == 1 {
			conn = &asking{Conn: conn, change: change}
		}
		return conn, err
	}, made
}

// The late answer is not taken for that to the first command of the connection, and that command does not pass by the wait for another primary.
func TestSuccession_ClosesAConnectionOnWhichTheServerDoesNotTellInTimeWhoItIs(t *testing.T) {
	t.Parallel()
	for name, vital := range map[string]bool{"vital": true, "other": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			dial, made := dialAsking(srv.Addr(), func(string) string { return "" })
			db, err := redisx.New(redisx.Options{URL: srv.URL(), Succession: redisx.NewSuccession(time.Hour), Vital: vital, FailFast: true, Dial: dial})
			testkit.Must(t, err)
			defer func() { _ = db.Close() }()
			if answer, err := db.Ping(t.Context()).Result(); !redisx.Unanswered(err) {
				t.Errorf("the first command got %.20q, %v; want no answer", answer, err)
			}
			if answer, err := db.Ping(t.Context()).Result(); answer != "PONG" || made.Load() != 2 {
				t.Errorf("the next command got %.20q, %v, on connection %d; want PONG on the second one", answer, err, made.Load())
			}
		})
	}
}

// Who is never told cannot notice another primary. Who may be told later does not get through before.
func TestSuccession_LetsThroughWhomTheServerNeverTellsWhoItIs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		question string // what is asked in place of INFO replication
		refused  string
	}{
		"no right to ask": {"echo replication", ""},
		"no such command": {"what replication", ""},
		"no such section": {"hget replication", ""}, // as servers that are like Redis
		"for a while":     {"eval \"return redis.error_reply('BUSY running a script')\" 0", "BUSY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			testkit.Must(t, srv.Admin().ACLSetUser(t.Context(), "default", "-echo").Err())
			dial, _ := dialAsking(srv.Addr(), func(string) string { return test.question + "\r\n" })
			db, err := redisx.New(redisx.Options{URL: srv.URL(), Succession: redisx.NewSuccession(time.Hour), Dial: dial})
			testkit.Must(t, err)
			defer func() { _ = db.Close() }()
			if err := db.Ping(t.Context()).Err(); (err == nil) != (test.refused == "") || err != nil && !strings.HasPrefix(err.Error(), test.refused) {
				t.Errorf("got %v, want %q", err, test.refused)
			}
		})
	}
}

func TestSuccession_OthersReachThePrimaryWhenItIsSettled(t *testing.T) {
	t.Parallel()
	const settle = 200 * time.Millisecond
	pair := redistest.StartPair(t)
	db, err := redisx.Open(t.Context(), redisx.Options{URL: pair.URL(), Succession: redisx.NewSuccession(settle)})
	testkit.Must(t, err)
	defer func() { _ = db.Close() }()
	pair.FailOver()
	start := time.Now()
	testkit.Must(t, db.Ping(t.Context()).Err())
	if took := time.Since(start); took < settle {
		t.Errorf("answered after %s, want to wait for %s", took, settle)
	}
}

// A command whose time is over while its connection waits says nothing of Redis, which answers others.
func TestSuccession_WaitingForAPrimaryIsNoOutage(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var log logged
	link, s := redisx.NewLink(slog.New(slog.NewTextHandler(&log, nil))), redisx.NewSuccession(time.Hour)
	db, err := redisx.Open(t.Context(), redisx.Options{URL: srv.URL(), Link: link, Succession: s})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	vital, err := redisx.New(redisx.Options{URL: srv.URL(), Link: link, Succession: s, Vital: true})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = vital.Close() })
	srv.Restart()
	testkit.Eventually(t, "Redis is back", func() bool { return vital.Ping(t.Context()).Err() == nil && link.Up() })
	call, cancel := context.WithTimeout(t.Context(), time.Second) // longer than the silence that begins an outage
	defer cancel()
	before := log.count("Redis unreachable")
	if err := ignoreNil(db.Get(call, "x").Err()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the command ends with %v, want to wait", err)
	}
	if n := log.count("Redis unreachable") - before; n > 0 || !link.Up() {
		t.Errorf("%d outages were told of, up: %t", n, link.Up())
	}
}

// Who joins does not know which primary was there before.
func TestSuccession_AProcessThatJoinsWaitsForAPrimaryThatMayHaveTakenOver(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		happened func(*redistest.Pair)
		join     func(*redisx.Succession)
		waits    bool
	}{
		"after a failover":                   {(*redistest.Pair).FailOver, func(s *redisx.Succession) { s.Join(false) }, true},
		"after an outage":                    {func(p *redistest.Pair) { p.Primary.Restart() }, func(s *redisx.Succession) { s.Join(true) }, true},
		"after nothing":                      {func(*redistest.Pair) {}, func(s *redisx.Succession) { s.Join(false) }, false},
		"to ask something, after a failover": {(*redistest.Pair).FailOver, func(*redisx.Succession) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair := redistest.StartPair(t)
			test.happened(pair)
			const settle = 500 * time.Millisecond
			s := redisx.NewSuccession(settle)
			test.join(s)
			start := time.Now()
			testkit.Must(t, open(t, pair.URL(), s, true).Ping(t.Context()).Err())
			open(t, pair.URL(), s, false)
			if took := time.Since(start); took < settle == test.waits {
				t.Errorf("answered after %s; want to wait for %s: %t", took, settle, test.waits)
			}
			if s.Within(time.Hour) {
				t.Error("it counts as another primary")
			}
		})
	}
}

func TestSuccession_OthersWaitUntilThePrimaryIsTold(t *testing.T) {
	t.Parallel()
	pair := redistest.StartPair(t)
	s := redisx.NewSuccession(time.Millisecond)
	s.SetTelling(true)
	vital, other := open(t, pair.URL(), s, true), open(t, pair.URL(), s, false)
	pair.FailOver()
	testkit.Must(t, vital.Ping(t.Context()).Err())
	testkit.Eventually(t, "the time to settle is over", func() bool { return !s.Within(time.Millisecond) })
	if all, done := s.Told(map[string]bool{"": true}); all || done {
		t.Errorf("it could not be told: all could: %t, none has to be: %t", all, done)
	}
	call, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := other.Ping(call).Err(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it is told: %v, want to wait", err)
	}
	before := s.Last()
	if all, done := s.Told(nil); !all || done || !s.Last().After(before) {
		t.Errorf("all could be told: %t; none has to be again: %t; the time to settle began at %s, and before at %s", all, done, s.Last(), before)
	}
	testkit.Eventually(t, "it has settled", func() bool { _, done := s.Told(nil); return done })
	testkit.Must(t, other.Ping(t.Context()).Err())
}

// A server that has nothing to do with a failover must not keep the work of the primary back that has taken over, nor may one that could be told let
// work begin at one that could not.
func TestSuccession_OthersWaitOnlyForThePrimaryThatIsNotTold(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	s := redisx.NewSuccession(time.Millisecond)
	s.SetTelling(true)
	vital, other := open(t, cluster.URL(), s, true), open(t, cluster.URL(), s, false)
	keys := []string{"a", "b", "c"} // on the three servers
	set := func(key string) {
		testkit.Eventually(t, "an answer for "+key, func() bool { return vital.Set(t.Context(), key, "v", 0).Err() == nil })
	}
	for _, key := range keys {
		set(key)
	}
	before := cluster.Primary("a").Addr()
	for _, key := range keys[:2] {
		cluster.Failover(key)
	}
	for _, key := range keys[:2] {
		set(key)
	}
	first, unrelated := cluster.Primary("a").Addr(), cluster.Primary("c").Addr()
	for _, address := range []string{first, before} {
		if all, done := s.Told(map[string]bool{address: true, unrelated: true}); all || done {
			t.Errorf("all could be told without %s: %t; none has to be again: %t", address, all, done)
		}
		testkit.Must(t, other.Get(t.Context(), "b").Err())
		call, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := other.Get(call, "a").Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without %s: %v, want to wait", address, err)
		}
	}
	testkit.Eventually(t, "all have settled", func() bool { _, done := s.Told(map[string]bool{unrelated: true}); return done })
	for _, key := range keys {
		testkit.Must(t, other.Get(t.Context(), key).Err())
	}
}

func TestRunReplicated_FailsUnlessReplicasHaveEverything(t *testing.T) {
	t.Parallel()
	pair := redistest.StartPair(t)
	db := redistest.Open(t, pair.URL())
	d := config.Durability{Replicas: 1, Timeout: 2 * time.Second}
	run := func() []redisx.Result[lua.ConfirmReply] {
		keys := lua.NewKeyspace("", 0)
		calls := []lua.Confirm{{Confirmed: keys.Partition(0).Confirmed()}, {Confirmed: keys.Partition(1).Confirmed()}}
		return redisx.RunReplicated[lua.ConfirmReply](t.Context(), db, d, calls)
	}
	testkit.Must(t, db.Set(t.Context(), "before", "x", 0).Err())
	for _, result := range run() {
		testkit.Must(t, result.Err)
	}
	if got := get(t, pair.Replica.DB(t), "before"); got != "x" {
		t.Errorf("the replica has %q, want x", got)
	}
	pair.Detach()
	d.Timeout = 50 * time.Millisecond
	for _, result := range run() {
		if result.Err == nil {
			t.Error("a replica that follows no longer has confirmed")
		}
	}
}

func get(t *testing.T, db *redisx.DB, key string) string {
	t.Helper()
	value, err := db.Get(t.Context(), key).Result()
	testkit.Must(t, err)
	return value
}
