package redistest_test

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func get(t *testing.T, db *redisx.DB, key string) string {
	t.Helper()
	v, err := db.Get(t.Context(), key).Result()
	testkit.Must(t, err)
	return v
}

func TestServer_SharesNoDataWithOthers(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	testkit.Must(t, a.DB(t).Set(t.Context(), "k", "v", 0).Err())
	if n := b.DB(t).DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("the second server has %d keys, want 0", n)
	}
	if got := get(t, a.DB(t), "k"); got != "v" {
		t.Errorf("another client of the first server reads %q, want v", got)
	}
}

func TestServer_PausedAnswersOnlyAfterContinue(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c := dial(t, srv.Addr())
	srv.Pause()
	send(t, c, "PING")
	testkit.Must(t, c.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("a paused server answered %d bytes", n)
	}
	srv.Continue()
	testkit.Must(t, c.SetReadDeadline(time.Time{}))
	_, err := io.ReadFull(c, make([]byte, len("+PONG\r\n")))
	testkit.Must(t, err)
}

func TestServer_PausedEndsWithItsTest(t *testing.T) {
	t.Parallel()
	var addr string
	t.Run("paused", func(t *testing.T) {
		srv := redistest.Start(t)
		addr = srv.Addr()
		srv.Pause()
	})
	if isOpen(addr) {
		t.Errorf("%s is still served after the end of its test", addr)
	}
}

func TestServer_RestartKeepsThePortAndWithAOFTheData(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opts []redistest.Option
		stop func(*redistest.Server)
		want int64
	}{
		{"killed with AOF", []redistest.Option{redistest.AOF()}, (*redistest.Server).Kill, 1},
		{"stopped with AOF", []redistest.Option{redistest.AOF()}, func(*redistest.Server) {}, 1},
		{"killed without AOF", nil, (*redistest.Server).Kill, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t, c.opts...)
			addr := srv.Addr()
			testkit.Must(t, srv.DB(t).Set(t.Context(), "k", "v", 0).Err())
			c.stop(srv)
			srv.Restart()
			if srv.Addr() != addr {
				t.Errorf("address %s became %s", addr, srv.Addr())
			}
			n, err := srv.DB(t).Exists(t.Context(), "k").Result()
			testkit.Must(t, err)
			if n != c.want {
				t.Errorf("%d keys are left, want %d", n, c.want)
			}
		})
	}
}

func TestServer_GetsItsSettings(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t, redistest.With("--maxmemory", "8mb")).DB(t)
	got, err := db.ConfigGet(t.Context(), "maxmemory").Result()
	testkit.Must(t, err)
	if got["maxmemory"] != "8388608" {
		t.Errorf("maxmemory is %q, want 8388608", got["maxmemory"])
	}
}

func TestDump_ShowsEveryTypeAndWhetherItExpires(t *testing.T) {
	t.Parallel()
	db, ctx := redistest.Start(t).DB(t), t.Context()
	_, err := db.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "string", "v", time.Hour)
		p.HSet(ctx, "hash", "a", "1", "b", "2")
		p.RPush(ctx, "list", "x", "y", "x")
		p.SAdd(ctx, "set", "n", "m")
		p.ZAdd(ctx, "zset", redis.Z{Score: 1.5, Member: "m"}, redis.Z{Score: 1e13, Member: "late"})
		p.XAdd(ctx, &redis.XAddArgs{Stream: "stream", ID: "1-1", Values: []any{"f", "v"}})
		return nil
	})
	testkit.Must(t, err)
	want := map[string]any{
		"string": redistest.Entry{Type: "string", Value: "v", TTL: true},
		"hash":   redistest.Entry{Type: "hash", Value: map[string]string{"a": "1", "b": "2"}},
		"list":   redistest.Entry{Type: "list", Value: []string{"x", "y", "x"}},
		"set":    redistest.Entry{Type: "set", Value: []string{"m", "n"}},
		"zset":   redistest.Entry{Type: "zset", Value: map[string]float64{"m": 1.5, "late": 1e13}},
		"stream": redistest.Entry{Type: "stream", Value: []redistest.StreamEntry{{ID: "1-1", Fields: map[string]any{"f": "v"}}}},
	}
	if diff := cmp.Diff(want, redistest.Dump(t, db)); diff != "" {
		t.Errorf("dump (-want +got):\n%s", diff)
	}
	testkit.Must(t, db.HSet(ctx, "hash", "b", "3").Err())
	if cmp.Equal(want, redistest.Dump(t, db)) {
		t.Error("a changed field does not show")
	}
}

func TestServer_ClockCanBeMoved(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.MovableClock(t))
	db := s.DB(t)
	ctx := t.Context()
	moved := func(by time.Duration) {
		t.Helper()
		s.MoveClock(by)
		now, err := db.Time(ctx).Result()
		if off := time.Until(now) - by; err != nil || off.Abs() > 2*time.Second {
			t.Errorf("moved by %s, the clock shows %s too much, %v", by, off, err)
		}
	}
	moved(0)
	if err := db.Set(ctx, "key", "value", 30*time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	moved(-1500 * time.Millisecond)
	moved(-time.Hour)
	if left := db.PTTL(ctx, "key").Val(); left < time.Hour {
		t.Errorf("the key lasts for %s", left)
	}
	moved(time.Minute)
	if n := db.Exists(ctx, "key").Val(); n != 0 {
		t.Error("the key has not expired")
	}
}

func TestFreePort_StaysReservedUntilTheTestEnds(t *testing.T) {
	var port int
	reserve := func() error {
		c, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			testkit.Must(t, c.Close())
		}
		return err
	}
	t.Run("reserves", func(t *testing.T) {
		port = redistest.FreePort(t)
		if reserve() == nil {
			t.Error("somebody else can reserve the port")
		}
	})
	testkit.Must(t, reserve())
}
