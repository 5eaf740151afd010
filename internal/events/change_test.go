package events_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/change"
	"github.com/dts-sched/dts/internal/events"
	"github.com/dts-sched/dts/internal/testkit"
)

// anyChange wants all changes.
func anyChange(*change.Change) bool { return true }

// types receives n messages: the types of changes, or what read returns.
func types(t *testing.T, s *events.Subscription, n int) string {
	t.Helper()
	var got []string
	for range n {
		m := testkit.Receive(t, s.C(), "a message")
		got = append(got, typeOf(m))
	}
	return strings.Join(got, " ")
}

func typeOf(m events.Message) string {
	switch {
	case m.Change != nil:
		return m.Change.Type
	case m.Event != nil:
		return m.Event.Ref.ID
	}
	return string(m.Loss.Reason)
}

func TestHub_PassesChangesToThoseWhoAsk(t *testing.T) {
	source := newStubSource()
	hub, _ := start(t, source)
	plain := hub.Subscribe(events.SubscribeOptions{Buffer: 10})
	defer plain.Close()
	both := hub.Subscribe(events.SubscribeOptions{Buffer: 10, Changes: anyChange})
	defer both.Close()
	nodes := hub.Subscribe(events.SubscribeOptions{
		Buffer: 10, Filter: only("b"), Changes: func(c *change.Change) bool { return c.Kind() == change.Node },
	})
	defer nodes.Close()
	l := testkit.Receive(t, source.calls, "a listener")
	defer func() { go l.end() }()
	l.Connected()
	l.Change(&change.Change{Type: "queue.paused", At: time.UnixMilli(1)})
	l.publish("a")
	l.Change(&change.Change{Type: change.NodeLost, At: time.UnixMilli(2)})
	l.UnreadableChange(errors.New("no JSON"))
	l.publish("b")
	for s, want := range map[*events.Subscription]string{
		plain: "a b", both: "queue.paused a node.lost unreadable b", nodes: "node.lost unreadable b",
	} {
		if got := types(t, s, len(strings.Fields(want))); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestHub_KeepsChangesForThoseWhoComeBack(t *testing.T) {
	source := newStubSource()
	hub, _ := start(t, source)
	first := hub.Subscribe(events.SubscribeOptions{Buffer: 10, Changes: anyChange})
	defer first.Close()
	l := testkit.Receive(t, source.calls, "a listener")
	defer func() { go l.end() }()
	l.Connected()
	l.Change(&change.Change{Type: change.NodeJoined, At: time.UnixMilli(6000)})
	at := testkit.Receive(t, first.C(), "a change").Position
	if !strings.HasSuffix(at.String(), ".1.6000") {
		t.Errorf("the position is %s", at)
	}
	l.publish("a")
	l.UnreadableChange(errors.New("no JSON"))
	l.Change(&change.Change{Type: change.NodeLeft}) // told by a node of an earlier release, without a time
	for want, o := range map[string]events.SubscribeOptions{
		"a":                      {},
		"a unreadable node.left": {Changes: anyChange},
	} {
		o.Buffer, o.After = 10, at
		back := hub.Subscribe(o)
		defer back.Close()
		var got []string
		for m := range back.Earlier() {
			got = append(got, typeOf(m))
			if m.Change != nil && m.Change.At.IsZero() {
				t.Error("a change has no time")
			}
		}
		if words := strings.Join(got, " "); words != want {
			t.Errorf("earlier %q, want %q", words, want)
		}
		if start := back.Start().String(); !strings.HasSuffix(start, ".4.6000") { // by Redis's clock
			t.Errorf("it goes on at %s", start)
		}
	}
}
