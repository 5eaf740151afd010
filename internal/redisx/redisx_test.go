package redisx_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestOpen_RefusesAnUnusableURLWithoutShowingItsPassword(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"":                                   "scheme must be",
		"http://127.0.0.1":                   "scheme must be",
		"redis://:secret@127.0.0.1:1/x":      "invalid database number",
		"redis://:secret pw@127.0.0.1:76x/0": "invalid",
		"redis+sentinel://u:secret@a:1,b:2":  "name the master",
		"redis+sentinel://u:secret@a:1,b:2/m/three":          "invalid database number",
		"redis+cluster://u:secret@a:1,b:2/0":                 "has no databases",
		"redis+cluster://":                                   "no host",
		"redis://:secret@127.0.0.1:1/0":                      "does not answer",
		"rediss://:secret@127.0.0.1:1?ca_file=/nowhere":      "ca_file: open /nowhere",
		"rediss+sentinel://:secret@a:1/m?cert_file=/nowhere": "cert_file and key_file: open",
		"redis://:secret@127.0.0.1:1?ca_file=/etc/passwd":    "for TLS, with a scheme that begins with rediss",
		"rediss+cluster://:secret@a:1,b:2?ca_file=redisx.go": "no certificate in PEM format",
		"redis+cluster://:secret@a:1,b:2?colour=red":         "unexpected option: colour",
		"redis+sentinel://a:1/m/0?sentinel_password=%secret": "parameters after the ? are invalid",
		"embedded://nobody":                                  "no such Redis runs in this process",
	} {
		_, err := redisx.Open(t.Context(), redisx.Options{URL: url})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %q and no password", url, err, want)
		}
	}
}

func TestOpen_ChoosesTheClientForEveryShapeOfRedis(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	redis7 := redistest.Start(t, redistest.With("--cluster-enabled", "yes"))
	one := redis7.DB(t)
	if err := one.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	for state := ""; !strings.Contains(state, "cluster_state:ok"); {
		state = one.ClusterInfo(t.Context()).Val()
	}
	db, err := redisx.Open(t.Context(), redisx.Options{URL: "redis+cluster://" + redis7.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, ok := db.UniversalClient.(*redis.ClusterClient); !ok {
		t.Errorf("a client of type %T", db.UniversalClient)
	}
}

func TestRun_RefusalIsTypedAndObserved(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	type seen struct{ script, code string }
	var got []seen
	db, err := redisx.Open(t.Context(), redisx.Options{URL: srv.URL(), Observe: func(script string, _ time.Duration, code string) {
		got = append(got, seen{script, code})
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	postpone := lua.PostponeSchedule{Lease: "{x}lease", Ticks: "{x}ticks", Fence: "1:me", Member: "default:a", Delay: 0}
	_, err = redisx.Run(t.Context(), db, postpone)
	var refusal *redisx.Refusal
	if !errors.As(err, &refusal) || refusal.Code != lua.CodeFenced || refusal.Script != "postpone_schedule" || !redisx.RefusedWith(err, lua.CodeFenced) {
		t.Errorf("got %v", err)
	}
	if err := db.MSet(t.Context(), "{x}lease", "1:me", "{x}lease:1:me", "").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := redisx.Run(t.Context(), db, postpone); err != nil {
		t.Error(err)
	}
	if want := []seen{{"postpone_schedule", "FENCED"}, {"postpone_schedule", ""}}; len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("observed %v", got)
	}
}

func TestRun_PassesOnOtherErrors(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	if err := db.Set(t.Context(), "{x}ticks", "no sorted set", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := db.MSet(t.Context(), "{x}lease", "1:me", "{x}lease:1:me", "").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := redisx.Run(t.Context(), db, lua.PostponeSchedule{Lease: "{x}lease", Ticks: "{x}ticks", Fence: "1:me", Member: "default:a", Delay: 0})
	var refusal *redisx.Refusal
	if err == nil || errors.As(err, &refusal) || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("got %v", err)
	}
}

// failing is a hook that has every script answered with an error.
type failing string

func (failing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f failing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !strings.HasPrefix(cmd.Name(), "eval") {
			return next(ctx, cmd)
		}
		cmd.SetErr(f)
		return f
	}
}

func (f failing) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			cmd.SetErr(f)
		}
		return f
	}
}

func TestIsDamage_KnowsWhatSomebodyHasWritten(t *testing.T) {
	t.Parallel()
	db, ctx := redistest.Start(t).DB(t), t.Context()
	testkit.Must(t, db.Set(ctx, "text", "garbage", 0).Err())
	testkit.Must(t, db.HSet(ctx, "hash", "number", "x").Err())
	for name, err := range map[string]error{
		"another type":              db.ZCard(ctx, "text").Err(),
		"no number":                 db.HIncrBy(ctx, "hash", "number", 1).Err(),
		"no number, for a script":   db.Eval(ctx, "return tonumber(redis.call('GET', KEYS[1])) + 1", []string{"text"}).Err(),
		"another type, in a script": db.Eval(ctx, "return redis.call('ZCARD', KEYS[1])", []string{"text"}).Err(),
	} {
		if !redisx.IsDamage(err) {
			t.Errorf("%s: %v is no damage", name, err)
		}
	}
	for name, err := range map[string]error{
		"nothing": nil, "no command": db.Do(ctx, "nonsense").Err(), "no time left": context.DeadlineExceeded,
		"not of Redis": errors.New("WRONGTYPE"),
	} {
		if redisx.IsDamage(err) {
			t.Errorf("%s: %v is damage", name, err)
		}
	}
}

func (f failing) Error() string { return string(f) }

// RedisError implements redis.Error.
func (failing) RedisError() {}

// Redis before 7.0 says first that a script failed, and where.
func TestRun_TellsWhatTheCommandInAScriptWasAnsweredByAnyRedis(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	const (
		hash    = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
		inLua   = "ERR Error running script (call to f_" + hash + "): @user_script:3: attempt to perform arithmetic on a nil value "
		before7 = "ERR Error running script (call to f_" + hash + "): @user_script:1: @user_script: 1: -"
		since7  = " script: " + hash + ", on @user_script:1."
	)
	for _, test := range []struct {
		answer                string
		says                  string // after the name of the script
		refuses, full, passes bool
	}{
		{before7 + "READONLY You can't write against a read only replica.  ", "READONLY You can't write against a read only replica.", true, false, true},
		{before7 + "NOREPLICAS Not enough good replicas to write.  ", "NOREPLICAS Not enough good replicas to write.", true, false, true},
		{before7 + "MISCONF Errors writing to the AOF file: No space left on device  ", "MISCONF Errors writing to the AOF file: No space left on device", true, false, true},
		{before7 + "OOM command not allowed when used memory > 'maxmemory'.  ", "OOM command not allowed when used memory > 'maxmemory'.", false, true, true},
		{"NOREPLICAS Not enough good replicas to write." + since7, "NOREPLICAS Not enough good replicas to write." + since7, true, false, true},
		{inLua, inLua, false, false, false},
	} {
		db := srv.DB(t)
		db.AddHook(failing(test.answer))
		call := lua.Confirm{Confirmed: "confirmed"}
		_, alone := redisx.Run(t.Context(), db, call)
		for name, err := range map[string]error{
			"Run":           alone,
			"RunEach":       redisx.RunEach[lua.ConfirmReply](t.Context(), db, []lua.Confirm{call})[0].Err,
			"RunReplicated": redisx.RunReplicated[lua.ConfirmReply](t.Context(), db, config.Durability{Replicas: 1}, []lua.Confirm{call})[0].Err,
		} {
			if want := "script confirm: " + test.says; err == nil || err.Error() != want {
				t.Errorf("%s: %v; want %s", name, err, want)
			}
			if refuses := redisx.RefusedWrites(err) != ""; refuses != test.refuses || redisx.IsFull(err) != test.full || redisx.Passes(err) != test.passes {
				t.Errorf("%s, %v: refuses writes: %t, full: %t, passes: %t; want %t, %t, %t",
					name, err, refuses, redisx.IsFull(err), redisx.Passes(err), test.refuses, test.full, test.passes)
			}
		}
	}
}

func TestPipeline_TellsEachCommandThatRedisRefusedTheConnection(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.User("dtsd", "~*", "&*", "+@all"))
	db := srv.DB(t)
	testkit.Must(t, db.Set(t.Context(), "key", "value", 0).Err())
	srv.LockOut()
	for name, pipe := range map[string]redis.Pipeliner{"pipeline": db.Pipeline(), "transaction": db.TxPipeline()} {
		first, second := pipe.Get(t.Context(), "key"), pipe.Exists(t.Context(), "key")
		_, _ = pipe.Exec(t.Context())
		for _, err := range []error{first.Err(), second.Err()} {
			if !redis.HasErrorPrefix(err, "WRONGPASS") {
				t.Errorf("%s: a command ends with %v", name, err)
			}
		}
	}
	srv.LetIn()
	if got, err := db.Get(t.Context(), "key").Result(); got != "value" || err != nil {
		t.Errorf("afterwards, the key has %q, %v", got, err)
	}
}

func TestRunEach_SurvivesARestartOfRedis(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	db := srv.DB(t)
	calls := []lua.ReadPage{{ZSet: "a", Limit: 10}, {ZSet: "b", Limit: 10}}
	if err := db.ZAdd(t.Context(), "b", redis.Z{Score: 1, Member: "x"}).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		replies := redisx.RunEach[lua.ReadPageReply](t.Context(), db, calls)
		if len(replies) != 2 || replies[0].Err != nil || replies[1].Err != nil {
			t.Fatalf("%v", replies)
		}
		if entries := replies[1].Reply.Entries; len(entries) != 1 || entries[0].Member != "x" {
			t.Errorf("%v", entries)
		}
		if err := db.ScriptFlush(t.Context()).Err(); err != nil { // as a restart does
			t.Fatal(err)
		}
	}
}

func TestListen_TellsOfEveryConnection(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	way := redistest.NewProxy(t, srv.Addr())
	db := redistest.Open(t, way.URL())
	ctx, cancel := context.WithCancel(t.Context())
	connected, lost, heard := make(chan struct{}, 10), make(chan struct{}, 10), make(chan string, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- db.Listen(ctx, redisx.Listener{
			Connected:    func(string) { connected <- struct{}{} },
			Disconnected: func() { lost <- struct{}{} },
			Message:      func(channel, payload string) { heard <- channel + " " + payload },
		}, "news")
	}()
	<-connected
	way.Cut()
	testkit.Receive(t, lost, "the end of the connection")
	way.Mend()
	<-connected
	if err := srv.DB(t).Publish(t.Context(), "news", "hello").Err(); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "news hello" {
		t.Errorf("heard %q", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(lost) != 0 {
		t.Error("the end of the context was reported as a lost connection")
	}
}

func TestOpen_CommandsObeyTheDeadlineOfTheirContext(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	db := srv.DB(t)
	srv.Pause()
	defer srv.Continue()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	watch := testkit.StartStopwatch(t)
	if err := db.Ping(ctx).Err(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if took := watch.Elapsed(); took > 2*time.Second { // go-redis would wait 3 s for an answer by itself
		t.Errorf("it took %s", took)
	}
}

// A connection that is reset between its first answer and the subscription is made anew, with the subscription.
func TestListen_SubscribesAfterAConnectionThatWasReset(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Addr()
	var resets atomic.Int32
	db, err := redisx.Open(t.Context(), redisx.Options{URL: "redis://" + addr, Dial: func(ctx context.Context) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		return resetting{conn, &resets}, err
	}})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	connected := make(chan string, 10)
	go func() {
		_ = db.Listen(t.Context(), redisx.Listener{Connected: func(channel string) { connected <- channel }, Message: func(string, string) {}}, "news")
	}()
	testkit.Receive(t, connected, "the subscription")
	if resets.Load() < 2 {
		t.Error("no connection was reset")
	}
}

// resetting is a connection that fails when it is asked to subscribe, unless two others have failed before.
type resetting struct {
	net.Conn
	resets *atomic.Int32
}

func (c resetting) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "subscribe") && c.resets.Add(1) <= 2 {
		_ = c.Close()
		return 0, syscall.ECONNRESET
	}
	return c.Conn.Write(b)
}

// A connection that swallows everything, as behind a firewall that forgot it, is given up and made anew.
func TestListen_NoticesAConnectionThatSilentlyDied(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	srv := redistest.Start(t)
	way := redistest.NewProxy(t, srv.Addr())
	db := redistest.Open(t, way.URL())
	ctx, cancel := context.WithCancel(t.Context())
	connected, ended := make(chan struct{}, 10), make(chan error, 1)
	go func() {
		ended <- db.Listen(ctx, redisx.Listener{Connected: func(string) { connected <- struct{}{} }, Message: func(string, string) {}}, "news")
	}()
	<-connected
	way.Hold()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(strings.ToLower(string(way.Held())), "hello") { // the greeting of a new connection
		select {
		case <-tick.C:
		case <-time.After(30 * time.Second):
			t.Fatal("it never connects again")
		}
	}
	way.Release()
	<-connected
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestSubscriber_ChangesItsChannelsAndKeepsThemOnANewConnection(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	way := redistest.NewProxy(t, srv.Addr())
	connected, heard := make(chan string, 10), make(chan string, 10)
	s := redistest.Open(t, way.URL()).NewSubscriber(redisx.Listener{
		Connected: func(channel string) { connected <- channel },
		Message:   func(channel, payload string) { heard <- channel + " " + payload },
	}, "a")
	s.Add("b") // before there is a connection
	s.Add("c")
	s.Remove("c")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	expect := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			got = append(got, testkit.Receive(t, connected, "a subscription"))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("connected to %v, want %v", got, want)
		}
	}
	expect("a", "b")
	s.Add("d")
	expect("d")
	s.Remove("b")
	db := srv.DB(t)
	testkit.Eventually(t, "nobody listens to b", func() bool { return db.PubSubNumSub(t.Context(), "b").Val()["b"] == 0 })
	way.Cut()
	testkit.Eventually(t, "nobody listens to a", func() bool { return db.PubSubNumSub(t.Context(), "a").Val()["a"] == 0 })
	way.Mend()
	expect("a", "d")
	for _, channel := range []string{"b", "c", "d"} {
		testkit.Must(t, db.Publish(t.Context(), channel, "hello").Err())
	}
	if got := testkit.Receive(t, heard, "a message"); got != "d hello" {
		t.Errorf("heard %q", got)
	}
	cancel()
	testkit.Must(t, testkit.Receive(t, ended, "the end"))
}

// Redis may not have been told that it was removed.
func TestSubscriber_IsConnectedToAChannelThatIsAddedRightAfterItWasRemoved(t *testing.T) {
	t.Parallel()
	connected := make(chan string, 100)
	s := redistest.Start(t).DB(t).NewSubscriber(redisx.Listener{
		Connected: func(channel string) { connected <- channel }, Message: func(string, string) {},
	}, "a")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	testkit.Receive(t, connected, "the subscription")
	for range 10 {
		s.Remove("a")
		s.Add("a")
		testkit.Receive(t, connected, "the subscription to what was added again")
	}
	cancel()
	testkit.Must(t, testkit.Receive(t, ended, "the end"))
}

// The connection is lost while the listener is called, so that nobody reads from it, and then channels are added.
func TestSubscriber_SubscribesToWhatWasAddedToALostConnection(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	db := srv.DB(t)
	connected, called, release := make(chan string, 100), make(chan struct{}), make(chan struct{})
	s := db.NewSubscriber(redisx.Listener{
		Connected: func(channel string) { connected <- channel },
		Message:   func(string, string) { close(called); <-release },
	}, "a")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	testkit.Receive(t, connected, "the subscription")
	testkit.Must(t, db.Publish(ctx, "a", "").Err())
	testkit.Receive(t, called, "the call")
	testkit.Must(t, db.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub").Err())
	for _, channel := range []string{"b", "c", "d"} {
		s.Add(channel)
	}
	close(release)
	testkit.Eventually(t, "it listens to all channels", func() bool {
		n, err := db.PubSubNumSub(ctx, "a", "b", "c", "d").Result()
		testkit.Must(t, err)
		return n["a"] == 1 && n["b"] == 1 && n["c"] == 1 && n["d"] == 1
	})
	cancel()
	testkit.Must(t, testkit.Receive(t, ended, "the end"))
}

func TestSubscriber_AddsWhileNoConnectionCanBeMade(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	way := redistest.NewProxy(t, srv.Addr())
	connected := make(chan string, 100)
	s := redistest.Open(t, way.URL()).NewSubscriber(redisx.Listener{Connected: func(channel string) { connected <- channel }, Message: func(string, string) {}}, "a")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	testkit.Receive(t, connected, "the subscription")
	way.Cut()
	testkit.Eventually(t, "nobody listens", func() bool { return srv.DB(t).PubSubNumSub(ctx, "a").Val()["a"] == 0 })
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		s.Add("b")
		s.Remove("a")
	}()
	testkit.Receive(t, changed, "the change, though nothing is connected")
	way.Mend()
	for testkit.Receive(t, connected, "the new subscription") != "b" { // a may come first, on a connection made just before
	}
	cancel()
	testkit.Must(t, testkit.Receive(t, ended, "the end"))
}

func TestOpen_SaysWhereTLSIsMissingOrNeeded(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	plain, secure := redistest.Start(t), redistest.Start(t, redistest.TLS(redistest.NewCertificates(t)))
	const without, with = "it does not speak TLS: write redis://", "it speaks TLS: write rediss://"
	for url, want := range map[string]string{
		"rediss://" + plain.Addr():                      without,
		"rediss://:secret@" + plain.Addr() + "/0":       without,
		"rediss+cluster://" + plain.Addr():              without,
		"redis://:secret@" + secure.Addr():              with,
		"redis+sentinel://" + secure.Addr() + "/master": with,
		"redis+cluster://" + secure.Addr():              with,
	} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			_, err := redisx.Open(t.Context(), redisx.Options{URL: url})
			if !errors.Is(err, redisx.ErrUnusable) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v, want %q and no password", err, want)
			}
		})
	}
}

// It may be busy: then waiting helps.
func TestOpen_WaitsForAServerThatIsSilent(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	srv := redistest.Start(t, redistest.TLS(redistest.NewCertificates(t)))
	srv.Pause()
	opened := make(chan error, 1)
	go func() {
		db, err := redisx.Open(t.Context(), redisx.Options{URL: srv.URL()})
		if err == nil {
			err = db.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("it gives up: %v", err)
	case <-time.After(1800 * time.Millisecond): // longer than it asks whether the server speaks TLS
	}
	srv.Continue()
	testkit.Must(t, testkit.Receive(t, opened, "the first answer"))
}
