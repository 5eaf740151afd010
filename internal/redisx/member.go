package redisx

import (
	"context"
	"sync"
)

// backlogLimit is the most calls that wait for a listener of a shared subscription.
const backlogLimit = 1000

// member is a caller of ListenShared, and the calls of its listener that are still to be made. The subscription adds them, and the goroutine of
// the caller makes them.
type member struct {
	listener Listener
	channel  string
	told     chan struct{} // signalled when there is a call

	mu      sync.Mutex
	backlog []func()
}

// attend calls the listener until ctx ends.
func (m *member) attend(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.told:
		}
		for call := m.next(); call != nil && ctx.Err() == nil; call = m.next() {
			call()
		}
	}
}

// next takes the first call from the backlog; nil if there is none.
func (m *member) next() (call func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.backlog) > 0 {
		call, m.backlog = m.backlog[0], m.backlog[1:]
	}
	return call
}

func (m *member) callConnected() { m.listener.Connected(m.channel) }

func (m *member) connected() { m.tell(m.callConnected) }

func (m *member) disconnected() {
	if m.listener.Disconnected != nil {
		m.tell(m.listener.Disconnected)
	}
}

func (m *member) message(payload string) { m.tell(func() { m.listener.Message(m.channel, payload) }) }

// tell adds a call. If too many wait, Connected takes their place, as it looks at the data itself.
func (m *member) tell(call func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.backlog) == backlogLimit {
		m.backlog = []func(){m.callConnected}
	}
	m.backlog = append(m.backlog, call)
	select {
	case m.told <- struct{}{}:
	default:
	}
}
