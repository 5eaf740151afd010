package events_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/events"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// stubSource is a source that a test controls. Each call of ListenEvents arrives on calls.
type stubSource struct{ calls chan *listening }

type listening struct {
	tasks.EventListener
	ctx  context.Context
	done chan error // makes ListenEvents return; it does not before
}

func newStubSource() stubSource { return stubSource{make(chan *listening, 1)} }

func (s stubSource) ListenEvents(ctx context.Context, l tasks.EventListener) error {
	call := &listening{l, ctx, make(chan error, 1)}
	s.calls <- call
	return <-call.done
}

// end lets ListenEvents return after its context has ended.
func (l *listening) end() {
	<-l.ctx.Done()
	l.done <- nil
}

func (l *listening) publish(ids ...string) {
	for _, id := range ids {
		l.Event(&task.Event{Type: "task.running", Ref: task.Ref{Namespace: "default", ID: id}, At: time.UnixMilli(5000)})
	}
}

// start runs a hub until the test ends, or until stop is called.
func start(t testing.TB, source events.Source) (hub *events.Hub, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	hub = events.New(events.Options{Source: source, Log: slog.New(slog.DiscardHandler)})
	ended := make(chan error, 1)
	go func() { ended <- hub.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := testkit.Receive(t, ended, "the end of Run"); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return hub, stop
}

// read receives n messages: the ids of their tasks, or the reasons of losses.
func read(t testing.TB, s *events.Subscription, n int) string {
	t.Helper()
	var got []string
	for range n {
		switch m := testkit.Receive(t, s.C(), "a message"); {
		case m.Loss != nil:
			got = append(got, fmt.Sprintf("%s:%d", m.Loss.Reason, m.Loss.Count))
		case m.Event != nil:
			got = append(got, m.Event.Ref.ID)
		default:
			got = append(got, "closed")
		}
	}
	return strings.Join(got, " ")
}

func only(id string) func(*task.Event) bool {
	return func(e *task.Event) bool { return e.Ref.ID == id }
}

func isReady(s *events.Subscription) bool {
	select {
	case <-s.Ready():
		return true
	default:
		return false
	}
}

func TestHub_PassesEventsToAllWhoWantThem(t *testing.T) {
	source := newStubSource()
	hub, _ := start(t, source)
	all := hub.Subscribe(events.SubscribeOptions{Buffer: 10})
	defer all.Close()
	one := hub.Subscribe(events.SubscribeOptions{Buffer: 10, Filter: only("b")})
	defer one.Close()
	l := testkit.Receive(t, source.calls, "a listener")
	defer func() { go l.end() }()
	if isReady(all) || isReady(one) {
		t.Error("ready before the source is connected")
	}
	l.Connected()
	late := hub.Subscribe(events.SubscribeOptions{Buffer: 10})
	defer late.Close()
	for _, s := range []*events.Subscription{all, one, late} {
		if !isReady(s) {
			t.Error("not ready though the source is connected")
		}
	}
	l.publish("a", "b", "c", "b")
	for s, want := range map[*events.Subscription]string{all: "a b c b", one: "b b", late: "a b c b"} {
		if got := read(t, s, len(strings.Fields(want))); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestMessage_TextIsMadeOnceForAllReaders(t *testing.T) {
	source := newStubSource()
	hub, _ := start(t, source)
	var readers []*events.Subscription
	for range 10 {
		s := hub.Subscribe(events.SubscribeOptions{Buffer: 10})
		defer s.Close()
		readers = append(readers, s)
	}
	l := testkit.Receive(t, source.calls, "a listener")
	defer func() { go l.end() }()
	l.Connected()
	l.publish("a", "b")
	made := 0
	ids := events.NewFormat(func(m events.Message) ([]byte, error) { made++; return []byte(m.Event.Ref.ID), nil })
	for _, want := range []string{"a", "b"} {
		for _, s := range readers {
			m := testkit.Receive(t, s.C(), "a message")
			if got, err := m.Text(ids); string(got) != want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		}
	}
	if made != 2 {
		t.Errorf("2 events for 10 readers were encoded %d times", made)
	}
}

func TestMessage_TextHasTheFormatAskedFor(t *testing.T) {
	source := newStubSource()
	hub, _ := start(t, source)
	s := hub.Subscribe(events.SubscribeOptions{Buffer: 10})
	defer s.Close()
	l := testkit.Receive(t, source.calls, "a listener")
	defer func() { go l.end() }()
	l.Connected()
	l.publish("a")
	ids := events.NewFormat(func(m events.Message) ([]byte, error) { return []byte(m.Event.Ref.ID), nil })
	types := events.NewFormat(func(m events.Message) ([]byte, error) { return []byte(m.Event.Type), nil })
	errOdd := errors.New("cannot be written")
	none := events.NewFormat(func(events.Message) ([]byte, error) { return nil, errOdd })
	m := testkit.Receive(t, s.C(), "a message")
	for range 2 {
		for format, want := range map[*events.Format]string{ids: "a", types: "task.running"} {
			if got, err := m.Text(format); string(got) != want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		}
		if got, err := m.Text(none); !errors.Is(err, errOdd) {
			t.Errorf("got %q, %v, want an error", got, err)
		}
	}
}

func TestHub_ASlowReaderLosesItsOwnSubscriptionOnly(t *testing.T) {
	source := newStubSource()
	hub, _ := start(t, source)
	slow := hub.Subscribe(events.SubscribeOptions{Buffer: 2, Filter: func(e *task.Event) bool { return e.Ref.ID != "unwanted" }})
	defer slow.Close()
	quick := hub.Subscribe(events.SubscribeOptions{Buffer: 1})
	defer quick.Close()
	l := testkit.Receive(t, source.calls, "a listener")
	defer func() { go l.end() }()
	l.Connected()
	for _, id := range []string{"a", "unwanted", "b", "c", "unwanted", "d"} {
		l.publish(id)
		if got := read(t, quick, 1); got != id {
			t.Errorf("the quick reader got %q, want %q", got, id)
		}
	}
	if err := slow.Err(); !errors.Is(err, events.ErrSlow) {
		t.Errorf("Err: %v", err)
	}
	if got := read(t, slow, 3); got != "a b closed" {
		t.Errorf("the slow reader got %q", got)
	}
	if got := slow.Missed(); got != 2 { // c and d
		t.Errorf("it missed %d events, want 2", got)
	}
	if err := quick.Err(); err != nil {
		t.Errorf("the quick reader: %v", err)
	}
}

func TestHub_TellsEverybodyOfLostEvents(t *testing.T) {
	source := newStubSource()
	hub, _ := start(t, source)
	s := hub.Subscribe(events.SubscribeOptions{Buffer: 10, Filter: only("a")})
	defer s.Close()
	l := testkit.Receive(t, source.calls, "a listener")
	defer func() { go l.end() }()
	l.Connected()
	l.publish("a")
	l.Connected()
	l.publish("a")
	l.Unreadable(errors.New("no JSON"))
	if got, want := read(t, s, 4), "a connection_lost:0 a unreadable:1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHub_MakesReadersWaitWhileTheConnectionIsLost(t *testing.T) {
	source := newStubSource()
	hub, _ := start(t, source)
	early := hub.Subscribe(events.SubscribeOptions{Buffer: 10})
	defer early.Close()
	l := testkit.Receive(t, source.calls, "a listener")
	defer func() { go l.end() }()
	l.Connected()
	l.Disconnected()
	late := hub.Subscribe(events.SubscribeOptions{Buffer: 10})
	defer late.Close()
	if isReady(late) {
		t.Error("a reader is ready though the connection is lost")
	}
	l.Connected()
	if !isReady(late) {
		t.Error("a reader is not ready though the connection is restored")
	}
	l.publish("a")
	if got, want := read(t, early, 2), "connection_lost:0 a"; got != want {
		t.Errorf("the early reader got %q, want %q", got, want)
	}
	if got, want := read(t, late, 1), "a"; got != want {
		t.Errorf("the late reader got %q, want %q", got, want)
	}
}

func TestHub_ListensWhileItHasSubscribers(t *testing.T) {
	source := newStubSource()
	hub, _ := start(t, source)
	a := hub.Subscribe(events.SubscribeOptions{})
	first := testkit.Receive(t, source.calls, "a listener")
	first.Connected()
	b := hub.Subscribe(events.SubscribeOptions{})
	a.Close()
	a.Close()
	if first.ctx.Err() != nil {
		t.Fatal("it stopped listening though there is a subscriber")
	}
	b.Close()
	testkit.Receive(t, first.ctx.Done(), "the end of the listening")

	// The source has not noticed yet.
	c := hub.Subscribe(events.SubscribeOptions{Buffer: 10})
	first.Connected()
	first.publish("too late")
	first.Unreadable(errors.New("too late"))
	if isReady(c) || len(c.C()) > 0 {
		t.Error("a subscriber was served by a listener that had ended")
	}
	first.end()
	second := testkit.Receive(t, source.calls, "another listener")
	second.Connected()
	testkit.Receive(t, c.Ready(), "readiness")
	second.publish("a")
	if got := read(t, c, 1); got != "a" {
		t.Errorf("got %q", got)
	}
	c.Close()
	second.end()
}

func TestHub_EndsSubscriptionsWhenItStops(t *testing.T) {
	source := newStubSource()
	hub, stop := start(t, source)
	before := hub.Subscribe(events.SubscribeOptions{})
	l := testkit.Receive(t, source.calls, "a listener")
	go l.end()
	stop()
	after := hub.Subscribe(events.SubscribeOptions{})
	for name, s := range map[string]*events.Subscription{"before": before, "after": after} {
		if got := read(t, s, 1); got != "closed" || !errors.Is(s.Err(), events.ErrStopped) || !isReady(s) {
			t.Errorf("subscribed %s: got %q, %v, ready %t", name, got, s.Err(), isReady(s))
		}
		s.Close()
		if err := s.Err(); !errors.Is(err, events.ErrStopped) {
			t.Errorf("subscribed %s, after Close: %v", name, err)
		}
	}
}

func TestHub_FailsWithItsSource(t *testing.T) {
	source := newStubSource()
	hub := events.New(events.Options{Source: source, Log: slog.New(slog.DiscardHandler)})
	ended := make(chan error, 1)
	go func() { ended <- hub.Run(t.Context()) }()
	s := hub.Subscribe(events.SubscribeOptions{})
	defer s.Close()
	broken := errors.New("broken")
	testkit.Receive(t, source.calls, "a listener").done <- broken
	if err := testkit.Receive(t, ended, "the end of Run"); !errors.Is(err, broken) {
		t.Errorf("Run: %v", err)
	}
	if got := read(t, s, 1); got != "closed" || !errors.Is(s.Err(), events.ErrStopped) {
		t.Errorf("got %q, %v", got, s.Err())
	}
}

func TestSubscription_CloseEndsIt(t *testing.T) {
	source := newStubSource()
	hub, _ := start(t, source)
	s := hub.Subscribe(events.SubscribeOptions{})
	go testkit.Receive(t, source.calls, "a listener").end()
	s.Close()
	if got := read(t, s, 1); got != "closed" || s.Err() != nil {
		t.Errorf("got %q, %v", got, s.Err())
	}
}

func TestSubscription_SignalStaysThoughItsReaderIsSlow(t *testing.T) {
	source := newStubSource()
	hub, _ := start(t, source)
	s := hub.Subscribe(events.SubscribeOptions{Signal: true})
	defer s.Close()
	l := testkit.Receive(t, source.calls, "a listener")
	defer func() { go l.end() }()
	l.Connected()
	l.publish("a", "b", "c")
	l.Connected()
	if got := read(t, s, 1); got != "a" || len(s.C()) != 0 || s.Err() != nil {
		t.Errorf("got %q, %d more, %v", got, len(s.C()), s.Err())
	}
	l.Connected()
	if got := read(t, s, 1); got != "connection_lost:0" {
		t.Errorf("got %q", got)
	}
}

// BenchmarkHub_Pass passes an event to 100 readers, one of whom wants it.
func BenchmarkHub_Pass(b *testing.B) {
	source := newStubSource()
	hub, _ := start(b, source)
	var wanting *events.Subscription
	for i := range 100 {
		s := hub.Subscribe(events.SubscribeOptions{Filter: only(fmt.Sprint(i)), Buffer: 1024})
		defer s.Close()
		if i == 50 {
			wanting = s
		}
	}
	l := testkit.Receive(b, source.calls, "a listener")
	defer func() { go l.end() }()
	l.Connected()
	e := &task.Event{Type: "task.running", Ref: task.Ref{Namespace: "default", ID: "50"}}
	for b.Loop() {
		l.Event(e)
		<-wanting.C()
	}
}

func TestHub_SendsWhatAReaderMissed(t *testing.T) {
	source := newStubSource()
	hub, _ := start(t, source)
	stays := hub.Subscribe(events.SubscribeOptions{Buffer: 10})
	defer stays.Close()
	l := testkit.Receive(t, source.calls, "a listener")
	defer func() { go l.end() }()
	l.Connected()
	gone := hub.Subscribe(events.SubscribeOptions{Buffer: 10})
	l.publish("a")
	at := testkit.Receive(t, gone.C(), "a message").Position
	gone.Close()
	l.publish("b", "unwanted", "c")
	l.Disconnected()
	back := hub.Subscribe(events.SubscribeOptions{
		Buffer: 10, After: at, Filter: func(e *task.Event) bool { return e.Ref.ID != "unwanted" },
	})
	defer back.Close()
	l.Connected()
	l.publish("d")
	if got, want := earlier(back), "b c connection_lost:0"; got != want {
		t.Errorf("earlier: %q, want %q", got, want)
	}
	if got := read(t, back, 1); got != "d" {
		t.Errorf("then %q", got)
	}
	elsewhere, _ := events.ParsePosition("OTHER.1.1")
	lost := hub.Subscribe(events.SubscribeOptions{Buffer: 10, After: elsewhere})
	defer lost.Close()
	if got, want := earlier(lost), "not_kept:0 a b unwanted c connection_lost:0 d"; got != want {
		t.Errorf("of another hub: %q, want %q", got, want)
	}
}

// A reader that is slow with what it has missed keeps nothing of it alive: what the hub has dropped meanwhile is told.
func TestHub_TellsASlowReaderWhatIsNotKept(t *testing.T) {
	source := newStubSource()
	hub, _ := start(t, source)
	first := hub.Subscribe(events.SubscribeOptions{Buffer: 1})
	defer first.Close()
	l := testkit.Receive(t, source.calls, "a listener")
	defer func() { go l.end() }()
	l.Connected()
	l.publish("a")
	at := testkit.Receive(t, first.C(), "a message").Position
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	l.publish(many...)
	back := hub.Subscribe(events.SubscribeOptions{After: at})
	defer back.Close()
	var got []string
	for m := range back.Earlier() {
		if m.Loss != nil {
			got = append(got, string(m.Loss.Reason))
			continue
		}
		if got = append(got, m.Event.Ref.ID); len(got) == 1 {
			l.Event(&task.Event{Text: strings.Repeat("x", 16<<20)}) // there is no room for others
		}
	}
	if n := len(got); n < 2 || n > 100 || got[0] != "0" || got[n-1] != "not_kept" {
		t.Errorf("it got %d messages: %v", n, got)
	}
}

// earlier is what a reader has missed, as read returns it.
func earlier(s *events.Subscription) string {
	var got []string
	for m := range s.Earlier() {
		if m.Loss != nil {
			got = append(got, fmt.Sprintf("%s:%d", m.Loss.Reason, m.Loss.Count))
		} else {
			got = append(got, m.Event.Ref.ID)
		}
	}
	return strings.Join(got, " ")
}

// A hub listens on for readers of events, and not for those that only want a signal.
func TestHub_LingersForReadersThatComeBack(t *testing.T) {
	source := newStubSource()
	ctx, cancel := context.WithCancel(context.Background())
	hub := events.New(events.Options{Source: source, Log: slog.New(slog.DiscardHandler), Linger: time.Hour})
	ended := make(chan error, 1)
	go func() { ended <- hub.Run(ctx) }()
	defer func() {
		cancel()
		testkit.Must(t, testkit.Receive(t, ended, "the end of Run"))
	}()
	signal := hub.Subscribe(events.SubscribeOptions{Signal: true})
	first := testkit.Receive(t, source.calls, "a listener")
	signal.Close()
	testkit.Receive(t, first.ctx.Done(), "the end of the listening")
	first.end()

	reader := hub.Subscribe(events.SubscribeOptions{Buffer: 10})
	second := testkit.Receive(t, source.calls, "another listener")
	defer func() { go second.end() }()
	second.Connected()
	second.publish("a")
	at := testkit.Receive(t, reader.C(), "a message").Position
	reader.Close()
	second.publish("b")
	if second.ctx.Err() != nil {
		t.Fatal("it does not listen on")
	}
	back := hub.Subscribe(events.SubscribeOptions{Buffer: 10, After: at})
	defer back.Close()
	if got := earlier(back); got != "b" {
		t.Errorf("got %q", got)
	}
}
