package redisx

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
)

// linkLoggedTo returns a link that has had an answer, and writes to out, as text without times.
func linkLoggedTo(out io.Writer) *Link {
	l := NewLink(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	l.record(clock.Now(), nil)
	return l
}

func TestLink_LogsAnOutageOnceWhenItBeginsAndOnceWhenItEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := linkLoggedTo(&out)
		for range 4 {
			start := clock.Now()
			_ = clock.Sleep(t.Context(), 3*time.Second)
			if l.record(start, io.EOF); l.Up() {
				t.Error("Redis counts as reachable after a broken connection")
			}
		}
		if l.record(clock.Now(), redis.Nil); !l.Up() {
			t.Error("Redis counts as unreachable after an answer")
		}
		want := "level=ERROR msg=\"Redis unreachable\" error=EOF\nlevel=INFO msg=\"Redis back\" after=12s\n"
		if out.String() != want {
			t.Errorf("logged %q, want %q", out.String(), want)
		}
	})
}

func TestLink_IgnoresCommandsThatBeganBeforeTheOutageOrBeforeItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := linkLoggedTo(&out)
		before := clock.Now()
		_ = clock.Sleep(t.Context(), time.Second)
		l.record(before, io.EOF)
		out.Reset()
		if l.record(before, nil); l.Up() || out.Len() > 0 {
			t.Errorf("an answer to an earlier command: logged %q", out.String())
		}
		during := clock.Now()
		_ = clock.Sleep(t.Context(), time.Second)
		l.record(during, nil)
		out.Reset()
		if l.record(during, io.EOF); !l.Up() || out.Len() > 0 {
			t.Errorf("a failure of an earlier command: logged %q", out.String())
		}
	})
}

func TestLink_TakesNothingForAnOutageThatTellsNothingOfRedis(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := linkLoggedTo(&out)
		for _, err := range []error{redis.ErrClosed, context.Canceled, redis.ErrPoolExhausted, redis.ErrPoolTimeout} {
			if l.record(clock.Now(), err); !l.Up() || out.Len() > 0 {
				t.Errorf("%v: logged %q", err, out.String())
			}
		}
		for _, err := range []error{context.DeadlineExceeded, os.ErrDeadlineExceeded} { // of a caller in a hurry
			start := clock.Now()
			_ = clock.Sleep(t.Context(), silence-1)
			if l.record(start, err); !l.Up() {
				t.Errorf("%v after %s begins an outage", err, silence-1)
			}
			_ = clock.Sleep(t.Context(), 1)
			if l.record(start, err); l.Up() {
				t.Errorf("%v after %s begins no outage", err, silence)
			}
			l.record(clock.Now(), nil)
		}
	})
}

func TestLink_IsDownBeforeTheFirstAnswerAndSaysNothing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := NewLink(slog.New(slog.NewTextHandler(&out, nil)))
	if l.record(clock.Now(), io.EOF); l.Up() {
		t.Error("it is up without an answer")
	}
	if l.record(clock.Now(), nil); !l.Up() || out.Len() > 0 {
		t.Errorf("after an answer it is up: %v; logged %q", l.Up(), out.String())
	}
}

// How long a command may take follows from the context that reaches go-redis, which obeys it with all its repetitions.
func TestLink_BoundsCommandsMoreTightlyInAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := linkLoggedTo(io.Discard)
		var left time.Duration
		silent := func(ctx context.Context, _ redis.Cmder) error {
			deadline, _ := ctx.Deadline()
			left = clock.Until(deadline)
			<-ctx.Done()
			return ctx.Err()
		}
		send := func(ctx context.Context) { _ = l.ProcessHook(silent)(ctx, redis.NewStatusCmd(ctx, "PING")) }
		hurried, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if send(hurried); left != time.Millisecond {
			t.Errorf("a caller in a hurry waits %s", left)
		}
		if send(t.Context()); left != answerLimit {
			t.Errorf("the first command waits %s, want %s", left, answerLimit)
		}
		if send(t.Context()); left != outageLimit {
			t.Errorf("in the outage it waits %s, want %s", left, outageLimit)
		}
		pipeline := func(ctx context.Context, _ []redis.Cmder) error { return silent(ctx, nil) }
		if _ = l.ProcessPipelineHook(pipeline)(t.Context(), nil); left != outageLimit {
			t.Errorf("a pipeline waits %s, want %s", left, outageLimit)
		}
		l.record(clock.Now(), nil)
		if send(t.Context()); left != answerLimit {
			t.Errorf("after the outage it waits %s, want %s", left, answerLimit)
		}
	})
}
