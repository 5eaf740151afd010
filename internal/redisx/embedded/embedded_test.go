package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/redisx/embedded"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// hidden starts an embedded Redis without a port and opens it.
func hidden(t *testing.T, change ...func(*redisx.Options)) (*embedded.Server, *redisx.DB) {
	t.Helper()
	e, err := embedded.StartHidden()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	o := redisx.Options{URL: e.URL(), Dial: e.Dial}
	for _, c := range change {
		c(&o)
	}
	db, err := redisx.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return e, db
}

func TestHidden_LivesInTheTimeOfItsBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, db := hidden(t)
		ctx := t.Context()
		if err := db.Set(ctx, "k", "v", 30*24*time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		start := db.Time(ctx).Val()
		for day := 1; day <= 31; day++ {
			_ = clock.Sleep(ctx, 24*time.Hour)
			if passed := db.Time(ctx).Val().Sub(start); passed != time.Duration(day)*24*time.Hour {
				t.Fatalf("after %d days its clock has moved on by %s", day, passed)
			}
			if exists := db.Exists(ctx, "k").Val() == 1; exists != (day < 30) {
				t.Fatalf("after %d days a key that lives for 30 exists: %v", day, exists)
			}
		}
	})
}

func TestHidden_TakesPipelinesOfAnySize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, db := hidden(t)
		value := bytes.Repeat([]byte("x"), 1000)
		pipe := db.Pipeline()
		for i := range 2000 {
			pipe.Set(t.Context(), fmt.Sprint(i), value, 0)
			pipe.Get(t.Context(), fmt.Sprint(i))
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := db.DBSize(t.Context()).Val(); n != 2000 {
			t.Errorf("%d keys are there, want 2000", n)
		}
	})
}

func TestHidden_IsNotBlockedByASlowSubscriber(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, db := hidden(t)
		sub := db.Subscribe(t.Context(), "news")
		defer func() { _ = sub.Close() }()
		if _, err := sub.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		const many = 500
		for i := range many {
			if err := db.Publish(t.Context(), "news", i).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for i := range many {
			got, err := sub.ReceiveMessage(t.Context())
			if err != nil || got.Payload != fmt.Sprint(i) {
				t.Fatalf("received %v, %v, want %d", got, err, i)
			}
		}
	})
}

// A subscription of a hundred days in which nothing happens costs a ping each PingAfter, and no connection.
func TestHidden_KeepsAQuietSubscription(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		_, db := hidden(t, func(o *redisx.Options) {
			dial := o.Dial
			o.Dial = func(ctx context.Context) (net.Conn, error) { dials++; return dial(ctx) }
			o.PingAfter = time.Hour
		})
		ctx, cancel := context.WithCancel(t.Context())
		connected, heard, ended := make(chan struct{}, 10), make(chan string, 1), make(chan error, 1)
		go func() {
			ended <- db.Listen(ctx, redisx.Listener{
				Connected: func(string) { connected <- struct{}{} },
				Message:   func(_, payload string) { heard <- payload },
			}, "news")
		}()
		<-connected
		before := dials
		_ = clock.Sleep(ctx, 100*24*time.Hour)
		if dials != before || len(connected) != 0 {
			t.Errorf("it connected again %d times", dials-before)
		}
		if err := db.Publish(ctx, "news", "hello").Err(); err != nil {
			t.Fatal(err)
		}
		if got := <-heard; got != "hello" {
			t.Errorf("heard %q", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestHidden_FailsCommandsAfterClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, db := hidden(t)
		waiting := make(chan error, 1)
		go func() { waiting <- db.BLPop(context.Background(), 0, "list").Err() }()
		synctest.Wait()
		e.Close()
		if err := <-waiting; err == nil || errors.Is(err, redis.Nil) {
			t.Errorf("a command that waited ended with %v", err)
		}
		if err := db.Ping(t.Context()).Err(); err == nil {
			t.Error("it still answers")
		}
		if _, err := redisx.New(redisx.Options{URL: e.URL()}); err == nil || !strings.Contains(err.Error(), "no such Redis runs in this process") {
			t.Errorf("its URL: %v", err)
		}
	})
}

func TestStart_WithAPortCanBeReachedBothWays(t *testing.T) {
	t.Parallel()
	e, err := embedded.Start("")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for i, o := range []redisx.Options{{URL: e.URL()}, {URL: e.URL(), Dial: e.Dial}} {
		db, err := redisx.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if n := db.Incr(t.Context(), "n").Val(); n != int64(i+1) {
			t.Errorf("counted %d, want %d", n, i+1)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
