package redisx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
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
	l.record("", clock.Now(), nil)
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
			if l.record("", start, io.EOF); l.Up() {
				t.Error("Redis counts as reachable after a broken connection")
			}
		}
		if l.record("", clock.Now(), redis.Nil); !l.Up() {
			t.Error("Redis counts as unreachable after an answer")
		}
		want := "level=ERROR msg=\"Redis unreachable\" error=EOF\nlevel=INFO msg=\"Redis back\" after=12s\n"
		if out.String() != want {
			t.Errorf("logged %q, want %q", out.String(), want)
		}
	})
}

// replyError is an error reply of Redis.
type replyError string

func (e replyError) Error() string { return string(e) }
func (e replyError) RedisError()   {}

const (
	loading  = replyError("LOADING Redis is loading the dataset in memory")
	noauth   = replyError("NOAUTH Authentication required.")
	stranger = replyError("ERR Protocol error: unauthenticated multibulk length")
	mistaken = replyError("ERR unknown command")
)

// last is the last line that was written.
func last(out *bytes.Buffer) string {
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[len(lines)-1]
}

func TestLink_IsAwayUntilRedisDoesWhatItIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := linkLoggedTo(&out)
		l.record("", clock.Now(), io.EOF)
		for _, refusal := range []error{
			loading, loading, fmt.Errorf("failed to initialize connection: %w", noauth), stranger, noauth,
		} {
			_ = clock.Sleep(t.Context(), time.Second)
			if l.record("", clock.Now(), refusal); l.Up() || l.limit("") != outageLimit {
				t.Errorf("after %v, Redis counts as reachable", refusal)
			}
		}
		if l.record("", clock.Now(), mistaken); !l.Up() {
			t.Error("Redis counts as unreachable after an answer")
		}
		want := `level=ERROR msg="Redis unreachable" error=EOF
level=ERROR msg="Redis answers, but turns this node away" error="LOADING Redis is loading the dataset in memory"
level=ERROR msg="Redis answers, but turns this node away" error="failed to initialize connection: NOAUTH Authentication required."
level=INFO msg="Redis back" after=5s
`
		if out.String() != want {
			t.Errorf("logged %s\nwant %s", out.String(), want)
		}
	})
}

func TestLink_IsAwayWhenRedisTurnsAllAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := linkLoggedTo(&out)
		for range 5 { // connections from before a change of the password still work
			l.record("", clock.Now(), noauth)
			_ = clock.Sleep(t.Context(), silence/2)
			if l.record("", clock.Now(), nil); !l.Up() || out.Len() > 0 {
				t.Fatalf("while some connections work, Redis is away: %s", out.String())
			}
		}
		if l.record("", clock.Now(), noauth); !l.Up() {
			t.Error("one refusal is an outage")
		}
		_ = clock.Sleep(t.Context(), silence)
		if l.record("", clock.Now(), noauth); l.Up() || !strings.Contains(last(&out), `"Redis unreachable" error="NOAUTH`) {
			t.Errorf("after %s of refusals: up %v, logged %q", silence, l.Up(), last(&out))
		}
		_ = clock.Sleep(t.Context(), time.Second)
		if l.record("", clock.Now(), nil); !l.Up() || l.turning.Load() != 0 || !strings.Contains(last(&out), "Redis back") {
			t.Errorf("after an answer: up %v, %d servers turn this node away, logged %q", l.Up(), l.turning.Load(), last(&out))
		}
	})
}

// Only what DTS asks for itself shows that Redis works. What prepares a connection is answered in any case.
func TestLink_IsAwayWhileRedisDoesNothing(t *testing.T) {
	t.Parallel()
	for answer, c := range map[string]struct {
		command string
		up      bool
	}{
		"MASTERDOWN Link with MASTER is down":                                  {"evalsha", false},
		"CLUSTERDOWN The cluster is down":                                      {"evalsha", false},
		"BUSY Redis is busy running a script":                                  {"get", false},
		"DENIED Redis is running in protected mode because no password is set": {"evalsha", false},
		"ERR max number of clients reached":                                    {"get", false},
		"ERR max number of clients + cluster connections reached":              {"get", false},
		string(errReplica):                                                     {"get", false},
		"NOPERM User dts has no permissions to run the 'evalsha' command":      {"evalsha", false},
		"NOPERM User dts has no permissions to run the 'config|get' command":   {"config", true},
		"READONLY You can't write against a read only replica.":                {"evalsha", true},
		"MISCONF Redis is configured to save RDB snapshots":                    {"evalsha", true},
		"NOREPLICAS Not enough good replicas to write.":                        {"evalsha", true},
		"OOM command not allowed when used memory > 'maxmemory'.":              {"evalsha", true},
		"BUSYKEY Target key name already exists.":                              {"restore", true},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := linkLoggedTo(io.Discard)
			for range 2 {
				ask(t, l, "", c.command, replyError(answer))
				ask(t, l, "", "hello", nil)
				ask(t, l, "", "publish", nil)
				ask(t, l, "", "time", nil)
				for _, answer := range answersWithoutData {
					ask(t, l, "", "evalsha", replyError(answer+" and so on"))
				}
				_ = clock.Sleep(t.Context(), silence)
			}
			if l.Up() != c.up {
				t.Errorf("%s: up %t", answer, l.Up())
			}
			if ask(t, l, "", "evalsha", nil); !l.Up() {
				t.Errorf("%s: it is away when Redis works again", answer)
			}
		})
	}
}

// Reads that are still allowed are no end of it.
func TestLink_IsAwayWhileItsUserMayRunNoScripts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := linkLoggedTo(&out)
		for range 5 {
			ask(t, l, "", "evalsha", replyError("NOPERM User dts has no permissions to run the 'evalsha' command"))
			ask(t, l, "", "get", nil)
			_ = clock.Sleep(t.Context(), silence/2)
		}
		if l.Up() || strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "NOPERM") {
			t.Errorf("up %t, logged %s", l.Up(), out.String())
		}
		if ask(t, l, "", "evalsha", nil); !l.Up() || !strings.Contains(last(&out), "Redis back") {
			t.Errorf("when it may again: up %t, logged %s", l.Up(), out.String())
		}
		if ask(t, l, "", "get", errRefused); l.Up() {
			t.Error("a later outage is none")
		}
		if ask(t, l, "", "get", nil); !l.Up() {
			t.Error("a later outage does not end")
		}
	})
}

func TestLink_IsDownBeforeRedisHasDoneAnything(t *testing.T) {
	t.Parallel()
	l := NewLink(nil)
	if l.record("", clock.Now(), loading); l.Up() {
		t.Error("a Redis that loads its data counts as one that works")
	}
}

func TestLink_ForgetsARefusalByAServerThatIsNotAskedAnyMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, refusals := range []int{1, 2} { // one begins no outage
			l := linkLoggedTo(io.Discard)
			for range refusals {
				l.record("a:1", clock.Now(), noauth)
				_ = clock.Sleep(t.Context(), silence)
			}
			if up := refusals == 1; l.Up() != up {
				t.Fatalf("after %d refusals, up %v", refusals, l.Up())
			}
			_ = clock.Sleep(t.Context(), unasked-silence-1)
			if l.record("b:1", clock.Now(), nil); l.turning.Load() != 1 {
				t.Errorf("after %d refusals, the server is forgotten before it is one that nobody asks", refusals)
			}
			_ = clock.Sleep(t.Context(), silence)
			if l.record("b:1", clock.Now(), nil); !l.Up() || l.turning.Load() != 0 {
				t.Errorf("after %d refusals: up %v, %d servers turn this node away", refusals, l.Up(), l.turning.Load())
			}
		}
	})
}

// A server that is asked once a second, while others answer all the time, still becomes an outage.
func TestLink_KeepsARefusalWhileOtherServersAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := linkLoggedTo(io.Discard)
		for range 2 {
			l.record("a:1", clock.Now(), noauth)
			for range 4 {
				_ = clock.Sleep(t.Context(), time.Second/4)
				l.record("b:1", clock.Now(), nil)
			}
		}
		if l.Up() {
			t.Error("a server that turns all away is no outage")
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
		l.record("", before, io.EOF)
		out.Reset()
		if l.record("", before, nil); l.Up() || out.Len() > 0 {
			t.Errorf("an answer to an earlier command: logged %q", out.String())
		}
		during := clock.Now()
		_ = clock.Sleep(t.Context(), time.Second)
		l.record("", during, nil)
		out.Reset()
		if l.record("", during, io.EOF); !l.Up() || out.Len() > 0 {
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
			if l.record("", clock.Now(), err); !l.Up() || out.Len() > 0 {
				t.Errorf("%v: logged %q", err, out.String())
			}
		}
		for _, err := range []error{context.DeadlineExceeded, os.ErrDeadlineExceeded} { // of a caller in a hurry
			start := clock.Now()
			_ = clock.Sleep(t.Context(), silence-1)
			if l.record("", start, err); !l.Up() {
				t.Errorf("%v after %s begins an outage", err, silence-1)
			}
			_ = clock.Sleep(t.Context(), 1)
			if l.record("", start, err); l.Up() {
				t.Errorf("%v after %s begins no outage", err, silence)
			}
			l.record("", clock.Now(), nil)
		}
	})
}

func TestLink_IsDownBeforeTheFirstAnswerAndSaysNothing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := NewLink(slog.New(slog.NewTextHandler(&out, nil)))
	if l.record("", clock.Now(), io.EOF); l.Up() {
		t.Error("it is up without an answer")
	}
	if l.record("", clock.Now(), nil); !l.Up() || out.Len() > 0 {
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
		one := hook{link: l}
		send := func(ctx context.Context) { _ = one.ProcessHook(silent)(ctx, redis.NewStatusCmd(ctx, "PING")) }
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
		if _ = one.ProcessPipelineHook(pipeline)(t.Context(), nil); left != outageLimit {
			t.Errorf("a pipeline waits %s, want %s", left, outageLimit)
		}
		l.record("", clock.Now(), nil)
		if send(t.Context()); left != answerLimit {
			t.Errorf("after the outage it waits %s, want %s", left, answerLimit)
		}
	})
}

func TestLink_KeepsTheOutagesOfTheServersOfAClusterApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := linkLoggedTo(&out)
		for range 3 {
			l.record("a:1", clock.Now(), io.EOF)
			_ = clock.Sleep(t.Context(), time.Second)
			if l.record("b:1", clock.Now(), nil); l.Up() || l.limit("a:1") != outageLimit || l.limit("b:1") != answerLimit {
				t.Errorf("up: %v, limits %s and %s", l.Up(), l.limit("a:1"), l.limit("b:1"))
			}
		}
		l.record("b:1", clock.Now(), io.EOF)
		if l.record("a:1", clock.Now(), nil); l.Up() {
			t.Error("it is up, though one server is still away")
		}
		if l.record("b:1", clock.Now(), nil); !l.Up() {
			t.Error("it is down, though both servers are back")
		}
		want := "level=ERROR msg=\"Redis unreachable\" server=a:1 error=EOF\nlevel=ERROR msg=\"Redis unreachable\" server=b:1 error=EOF\n" +
			"level=INFO msg=\"Redis back\" server=a:1 after=3s\nlevel=INFO msg=\"Redis back\" server=b:1 after=0s\n"
		if out.String() != want {
			t.Errorf("logged %q, want %q", out.String(), want)
		}
	})
}

// A server that has been replaced never answers again.
func TestLink_EndsTheOutageOfAServerThatIsNotAskedAnyMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := linkLoggedTo(&out)
		l.record("a:1", clock.Now(), io.EOF)
		_ = clock.Sleep(t.Context(), unasked-1)
		l.record("a:1", clock.Now(), io.EOF)
		_ = clock.Sleep(t.Context(), unasked-1)
		if l.record("b:1", clock.Now(), nil); l.Up() {
			t.Errorf("the outage is over %s after a failure", unasked-1)
		}
		_ = clock.Sleep(t.Context(), 1)
		out.Reset()
		if l.record("b:1", clock.Now(), nil); !l.Up() {
			t.Errorf("the outage goes on %s after the last failure", unasked)
		}
		if want := "level=INFO msg=\"Redis server not asked any more\" server=a:1 after=20s\n"; out.String() != want {
			t.Errorf("logged %q, want %q", out.String(), want)
		}
	})
}

// errRefused is the error of a server that is not there.
var errRefused = &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}

// ask has a server be asked, with err as what becomes of that.
func ask(t *testing.T, l *Link, address, command string, err error) {
	t.Helper()
	server := hook{link: l, address: address}
	_ = server.ProcessHook(func(context.Context, redis.Cmder) error { return err })(t.Context(), redis.NewCmd(t.Context(), command))
}

// answersAfter has a server be asked for data, with err as what becomes of that, and checks whether Redis counts as one that answers then.
func answersAfter(t *testing.T, l *Link, address string, err error, want bool, why string) {
	t.Helper()
	if ask(t, l, address, "get", err); l.Answers() != want {
		t.Errorf("after %q was asked (%v), it answers: %t, though %s", address, err, !want, why)
	}
}

func TestLink_AnswersWhileAServerOfAClusterDoes(t *testing.T) {
	t.Parallel()
	l := linkLoggedTo(io.Discard)
	for _, address := range []string{"a:1", "b:1"} {
		ask(t, l, address, "get", nil)
	}
	ask(t, l, "replica:1", "cluster", nil)
	answersAfter(t, l, "a:1", errRefused, true, "one server does")
	answersAfter(t, l, "b:1", errRefused, false, "only a server without data does")
	answersAfter(t, l, "b:1", nil, true, "one server does again")

	l = linkLoggedTo(io.Discard)
	ask(t, l, "", "get", nil)
	answersAfter(t, l, "", errRefused, false, "it is one server and that does not")
	answersAfter(t, l, "", nil, true, "the outage is over")
}

// A server that was replaced without dying, whose slots have moved away, or that was removed, is never away.
func TestLink_DoesNotCountOnAServerOfAClusterThatIsNotAskedAnyMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := linkLoggedTo(io.Discard)
		ask(t, l, "replaced:1", "get", nil)
		ask(t, l, "restarted:1", "get", errRefused)
		ask(t, l, "restarted:1", "get", nil) // it sends the client elsewhere
		for range int(unasked / time.Second) {
			ask(t, l, "a:1", "get", nil)
			ask(t, l, "b:1", "get", nil)
			_ = clock.Sleep(t.Context(), time.Second)
		}
		answersAfter(t, l, "a:1", errRefused, true, "one server does")
		answersAfter(t, l, "b:1", errRefused, false, "only servers do that are not asked any more")
		answersAfter(t, l, "b:1", nil, true, "one server does again")
	})
}

// When nothing has been asked for a long time, nothing is known but what the first commands bring.
func TestLink_AnswersAfterALongTimeWithoutCommandsWhenAServerOfAClusterDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := linkLoggedTo(io.Discard)
		ask(t, l, "a:1", "get", nil)
		ask(t, l, "b:1", "get", nil)
		if _ = clock.Sleep(t.Context(), time.Hour); !l.Answers() {
			t.Error("it does not answer, though nothing has failed")
		}
		answersAfter(t, l, "a:1", errRefused, false, "the only server that was asked does not")
		answersAfter(t, l, "b:1", nil, true, "one server does")
	})
}

// Clients ask any server for the map, replicas too.
func TestLink_IgnoresServersThatAreAskedForTheMapOnly(t *testing.T) {
	t.Parallel()
	l := linkLoggedTo(io.Discard)
	failing := func(context.Context, redis.Cmder) error { return errRefused }
	for name, up := range map[string]bool{"cluster": true, "command": true, "hello": true, "get": false} {
		server := hook{link: l, address: name}
		if _ = server.ProcessHook(failing)(t.Context(), redis.NewCmd(t.Context(), name)); up == l.outages[name].lasts() {
			t.Errorf("after a failure of %q, the server counts as away: %v", name, up)
		}
	}
}

// Servers close connections. What was on one is sent again: by the client of a cluster, unless the caller gives up, and for one that sends to the
// client of a server by itself.
func TestLink_TakesOneBrokenConnectionToAServerOfAClusterForNoOutage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		whole bool
		ends  []error // of the tries at the server
		up    bool
	}{
		{"repeated", true, []error{io.EOF, io.EOF, nil}, true},
		{"given up", true, []error{io.EOF}, true},
		{"broken again", true, []error{io.EOF, io.EOF}, false},
		{"sent to the server", false, []error{io.EOF, nil}, true},
		{"sent to the server, in a transaction that has no other connection", false, []error{io.EOF, io.EOF}, true},
		{"sent to the server, which has died", false, []error{io.EOF, errRefused}, false},
	} {
		l := linkLoggedTo(io.Discard)
		tries := 0
		try := func(context.Context, redis.Cmder) error { tries++; return test.ends[tries-1] }
		send := hook{link: l, address: "a:1"}.ProcessHook(try)
		if test.whole {
			server := send
			send = hook{link: l, whole: true}.ProcessHook(func(ctx context.Context, cmd redis.Cmder) (err error) {
				for range test.ends {
					err = server(ctx, cmd)
				}
				return err
			})
		}
		err := send(t.Context(), redis.NewCmd(t.Context(), "get"))
		if last := test.ends[len(test.ends)-1]; !errors.Is(err, last) || tries != len(test.ends) || l.Up() != test.up {
			t.Errorf("%s: %v after %d tries, up: %t; want %v, %d, %t", test.name, err, tries, l.Up(), last, len(test.ends), test.up)
		}
	}
}

// The client of a cluster repeats what failed. In an outage, that takes no longer than the first try may.
func TestLink_BoundsACommandWithItsRepetitions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := linkLoggedTo(io.Discard)
		l.record("a:1", clock.Now(), io.EOF)
		silent := hook{link: l, address: "a:1"}.ProcessHook(func(ctx context.Context, _ redis.Cmder) error {
			<-ctx.Done()
			return ctx.Err()
		})
		repeating := hook{link: l, whole: true}.ProcessHook(func(ctx context.Context, cmd redis.Cmder) error {
			return errors.Join(silent(ctx, cmd), silent(ctx, cmd), silent(ctx, cmd))
		})
		start := clock.Now()
		_ = repeating(t.Context(), redis.NewCmd(t.Context(), "get"))
		if took := clock.Since(start); took != outageLimit {
			t.Errorf("three tries take %s, want %s", took, outageLimit)
		}
	})
}

// Whoever needs the right tries again within deniedFor: after that time, it is back.
func TestLink_TellsForAWhileOfAScriptThatLacksARight(t *testing.T) {
	t.Parallel()
	const inside = "ERR The user executing the script can't run this command or subcommand"
	for said, c := range map[string]struct {
		command string
		alone   bool
		told    bool
	}{
		inside:                                  {"evalsha", true, true},
		"NOPERM no permissions to access a key": {"eval", false, true},
		"NOPERM no permissions to run 'config'": {"config", false, false},
		"ERR unknown command":                   {"evalsha", true, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := linkLoggedTo(io.Discard)
			cmd := redis.NewCmd(t.Context(), c.command)
			refusal := replyError(said + " script: 5f2a, on @user_script:7.")
			if c.alone {
				l.noteDenied([]redis.Cmder{cmd}, refusal)
			} else {
				cmd.SetErr(refusal)
				l.noteDenied([]redis.Cmder{redis.NewCmd(t.Context(), "evalsha"), cmd}, refusal)
			}
			err := l.Outage()
			if (err != nil) != c.told || c.told && !strings.HasSuffix(err.Error(), said) {
				t.Errorf("after %q of %s: %v", said, c.command, err)
			}
			_ = clock.Sleep(t.Context(), deniedFor)
			if err := l.Outage(); err != nil || !l.Up() {
				t.Errorf("%s later: %v, up is %v", deniedFor, err, l.Up())
			}
		})
	}
}
