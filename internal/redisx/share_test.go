package redisx_test

import (
	"context"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

// heard is what a listener was told.
type heard struct {
	connected, disconnected chan struct{}
	messages                chan string
	leave                   func() // ends listening, and waits for that
}

func listenShared(t *testing.T, db *redisx.DB, channel string) *heard {
	t.Helper()
	h := &heard{connected: make(chan struct{}, 10), disconnected: make(chan struct{}, 10), messages: make(chan string, 10)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- db.ListenShared(ctx, redisx.Listener{
			Connected:    func(string) { h.connected <- struct{}{} },
			Disconnected: func() { h.disconnected <- struct{}{} },
			Message:      func(_, payload string) { h.messages <- payload },
		}, channel)
	}()
	h.leave = func() { cancel(); testkit.Must(t, testkit.Receive(t, ended, "the end of a listener")) }
	return h
}

func TestListenShared_ManyListenOnOneConnection(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	db := srv.DB(t)
	subscriptions := func() int { return strings.Count(srv.Admin().ClientList(t.Context()).Val(), "cmd=subscribe") }
	hear := func(h *heard, channel, want string) {
		t.Helper()
		testkit.Must(t, srv.Admin().Publish(t.Context(), channel, want).Err())
		if got := testkit.Receive(t, h.messages, "a message"); got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
	first, second := listenShared(t, db, "a"), listenShared(t, db, "b")
	testkit.Receive(t, first.connected, "the first subscription")
	testkit.Receive(t, second.connected, "the second subscription")
	late := listenShared(t, db, "a")
	testkit.Receive(t, late.connected, "the subscription to a channel that there is")
	if n := subscriptions(); n != 1 {
		t.Errorf("there are %d connections, want 1", n)
	}
	hear(first, "a", "one")
	if got := testkit.Receive(t, late.messages, "a message"); got != "one" {
		t.Errorf("the other one heard %q, want %q", got, "one")
	}
	hear(second, "b", "three")
	if n := len(second.messages); n > 0 {
		t.Errorf("%d messages of another channel", n)
	}

	first.leave()
	hear(second, "b", "four")
	testkit.Must(t, srv.Admin().ClientKillByFilter(t.Context(), "type", "pubsub").Err())
	for name, h := range map[string]*heard{"second": second, "late": late} {
		testkit.Receive(t, h.disconnected, "the end of the connection of the "+name)
		testkit.Receive(t, h.connected, "another connection of the "+name)
	}
	hear(late, "a", "five")
	if n := len(first.messages); n > 0 {
		t.Errorf("who has left is told of %d messages", n)
	}
	second.leave()
	late.leave()
	testkit.Eventually(t, "nobody subscribes", func() bool { return subscriptions() == 0 })
	again := listenShared(t, db, "a")
	testkit.Receive(t, again.connected, "a subscription after all had left")
	hear(again, "a", "six")
	again.leave()
}

// A listener may send commands, and Redis may take its time to answer.
func TestListenShared_AListenerThatTakesItsTimeHoldsUpNobody(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	first, other := listenShared(t, db, "a"), listenShared(t, db, "b")
	testkit.Receive(t, first.connected, "the first subscription")
	testkit.Receive(t, other.connected, "the second subscription")
	ctx, cancel := context.WithCancel(t.Context())
	called, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- db.ListenShared(ctx, redisx.Listener{Connected: func(string) { close(called); <-release }, Message: func(string, string) {}}, "b")
	}()
	testkit.Receive(t, called, "the call that takes its time")
	testkit.Must(t, db.Publish(t.Context(), "b", "one").Err())
	if got := testkit.Receive(t, other.messages, "a message"); got != "one" {
		t.Errorf("heard %q, want %q", got, "one")
	}
	late := listenShared(t, db, "b")
	testkit.Receive(t, late.connected, "the subscription of who comes late")
	late.leave()
	first.leave()
	other.leave()
	close(release)
	cancel()
	testkit.Must(t, testkit.Receive(t, ended, "the end of the slow listener"))
}

func TestListenShared_WhoFallsBehindIsToldToLookInPlaceOfWhatItMissed(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	const sent = 3000
	ctx, cancel := context.WithCancel(t.Context())
	calls, held, release, ended := make(chan string, 2*sent), make(chan struct{}, 2*sent), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- db.ListenShared(ctx, redisx.Listener{
			Connected: func(string) { calls <- "connected" },
			Message:   func(_, payload string) { held <- struct{}{}; <-release; calls <- payload },
		}, "a")
	}()
	testkit.Receive(t, calls, "the subscription")
	other := listenShared(t, db, "b")
	testkit.Receive(t, other.connected, "the other subscription")
	testkit.Must(t, db.Publish(ctx, "a", "first").Err())
	testkit.Receive(t, held, "the first message")
	pipe := db.Pipeline()
	for range sent {
		pipe.Publish(ctx, "a", "early")
	}
	pipe.Publish(ctx, "a", "last")
	pipe.Publish(ctx, "b", "after")
	_, err := pipe.Exec(ctx)
	testkit.Must(t, err)
	testkit.Receive(t, other.messages, "what was sent after it")
	close(release)
	told, looked := 0, 0
	for call := ""; call != "last"; told++ {
		if call = testkit.Receive(t, calls, "a call"); call == "connected" {
			looked++
		}
	}
	if told > sent/2 || looked != 1 {
		t.Errorf("%d calls, of them %d of Connected; want fewer, of them 1", told, looked)
	}
	cancel()
	other.leave()
	testkit.Must(t, testkit.Receive(t, ended, "the end"))
}
