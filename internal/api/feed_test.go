package api

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/dts-sched/dts/internal/events"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// stubSource is a source of events that a test controls.
type stubSource struct {
	logged   testkit.Log // by its hub
	mu       sync.Mutex
	dead     bool                 // the source never connects
	listener *tasks.EventListener // nil while nobody listens
}

// startHub runs a hub on the source until the test ends.
func (s *stubSource) startHub(t *testing.T) *events.Hub {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	log := slog.New(slog.NewTextHandler(&s.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	hub := events.New(events.Options{Source: s, Log: log})
	go func() { ended <- hub.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		testkit.Must(t, <-ended)
	})
	return hub
}

func (s *stubSource) ListenEvents(ctx context.Context, l tasks.EventListener) error {
	s.listen(&l)
	<-ctx.Done()
	s.listen(nil)
	return nil
}

func (s *stubSource) listen(l *tasks.EventListener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener = l
	if l != nil && !s.dead {
		l.Connected()
	}
}

// kill makes the source one that never connects.
func (s *stubSource) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
}

func (s *stubSource) listenedTo() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listener != nil
}

func (s *stubSource) publish(e task.Event) {
	s.call(func(l tasks.EventListener) { l.Event(&e) })
}

func (s *stubSource) call(f func(tasks.EventListener)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		f(*s.listener)
	}
}
