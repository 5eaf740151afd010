// Package bulks keeps bulk actions in Redis: what is done with all tasks that match a filter, and how far that is.
package bulks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// State is how far a bulk action is.
type State string

// The states.
const (
	Running  State = "running"
	Stopping State = "stopping" // somebody has stopped it, and it ends with the present piece
	Stopped  State = "stopped"
	Done     State = "done"
	Failed   State = "failed" // it could not go on
)

// Ended reports whether nothing happens any more.
func (s State) Ended() bool { return s == Stopped || s == Done || s == Failed }

// Bulk is a bulk action.
type Bulk struct {
	ID        string        `json:"id"`
	Action    string        `json:"action"`
	Filter    tasks.Filter  `json:"filter"`
	ToQueue   string        `json:"to_queue,omitempty"` // of a requeue
	Spread    time.Duration `json:"spread,omitempty"`   // of a retry: over which time the tasks become due
	Note      string        `json:"note,omitempty"`
	Name      string        `json:"name,omitempty"` // of who started it, with Verified and Address as those of a caller
	Verified  bool          `json:"verified,omitempty"`
	Address   string        `json:"address,omitempty"`
	State     State         `json:"state"`
	Total     int           `json:"total"` // tasks that matched at the start
	About     bool          `json:"about,omitempty"`
	Error     string        `json:"error,omitempty"`
	AsOf      time.Time     `json:"as_of"`
	StartedAt time.Time     `json:"started_at"`
	EndedAt   time.Time     `json:"ended_at,omitzero"`
	Progress
	// After is the last task that it came by.
	After *index.Position `json:"after,omitempty"`

	stored string // as it was read
}

// Progress is how many tasks a bulk action came by.
type Progress struct {
	Changed int `json:"changed"` // with which it was done
	Skipped int `json:"skipped"` // that no longer matched
	Failed  int `json:"failed"`  // with which it could not be done
}

// With merges the progress into the action as it is stored. It goes on to stop if that is so.
func (b Bulk) With(progress Bulk) Bulk {
	stored, state := b.stored, progress.State
	if !state.Ended() {
		state = b.State
	}
	b = progress
	b.stored, b.State = stored, state
	return b
}

// Limit is how many bulk actions are kept, and how many can run.
const Limit = 100

// ErrChanged is returned if somebody else has changed a bulk action.
var ErrChanged = errors.New("the bulk action was changed meanwhile")

// Bulks is the bulk actions of an installation.
type Bulks struct{ l *layout.Layout }

// New returns those of an installation.
func New(l *layout.Layout) *Bulks { return &Bulks{l} }

// CodeNotFound is the code of errors for a bulk action that does not exist.
const CodeNotFound task.Code = "bulk_not_found"

func notFound(id string) error {
	return &task.Error{Code: CodeNotFound, Message: fmt.Sprintf("no bulk action %q: the newest %d are kept", id, Limit)}
}

// Get reads one. Errors: CodeNotFound, CodeUnavailable, CodeUnreadable.
func (s *Bulks) Get(ctx context.Context, id string) (Bulk, error) {
	text, err := s.l.DB.HGet(ctx, string(s.l.Keys.Bulks()), id).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return Bulk{}, notFound(id)
	case err != nil:
		return Bulk{}, layout.Unavailable(err)
	}
	return decode(id, text)
}

func decode(id, text string) (Bulk, error) {
	var b Bulk
	from := json.NewDecoder(strings.NewReader(text))
	from.DisallowUnknownFields() // what a newer release asks for besides must not be left out
	if err := from.Decode(&b); err != nil || b.ID != id {
		return Bulk{}, task.Errorf(task.CodeUnreadable, "the bulk action %q cannot be read", id)
	}
	b.stored = text
	return b, nil
}

// List reads all, those first that were started last. It leaves out what cannot be read, as redisx.LeavingOut says.
// Error: CodeUnavailable.
func (s *Bulks) List(ctx context.Context) ([]Bulk, error) {
	found, err := s.l.DB.HGetAll(ctx, string(s.l.Keys.Bulks())).Result()
	if err != nil && !redisx.LeaveOutKey(ctx, string(s.l.Keys.Bulks()), err) {
		return nil, layout.Unavailable(err)
	}
	all := make([]Bulk, 0, len(found))
	for id, text := range found {
		b, err := decode(id, text)
		if err != nil {
			redisx.LeaveOut(ctx, "%v, so it is left out", err)
			continue
		}
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b Bulk) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), cmp.Compare(b.ID, a.ID))
	})
	return all, nil
}

// Create writes a new one, and tells the leader. If there is one with its ID, it stays, and is returned. If there are
// too many, those go that ended first. Errors: CodeOverloaded if none of them has ended, CodeUnavailable,
// CodeUnreadable.
func (s *Bulks) Create(ctx context.Context, b Bulk) (Bulk, error) {
	all, err := s.List(ctx)
	if err != nil {
		return b, err
	}
	var gone []string
	for _, old := range slices.Backward(all) {
		if old.ID == b.ID {
			return old, nil
		}
		if len(all)-len(gone) >= Limit && old.State.Ended() {
			gone = append(gone, old.ID)
		}
	}
	if len(all)-len(gone) >= Limit {
		return b, task.Errorf(task.CodeOverloaded, "%d bulk actions run: wait for one to end, or stop one", len(all))
	}
	id := b.ID
	b, err = s.write(ctx, b, gone)
	if errors.Is(err, ErrChanged) { // it came meanwhile
		return s.Get(ctx, id)
	}
	if err == nil {
		s.l.DB.Publish(ctx, string(s.l.Keys.Wake(0)), layout.BulkWake) // if that is lost, the leader looks soon
	}
	return b, err
}

// Update writes what was changed in one that was read. Errors: ErrChanged, CodeUnavailable.
func (s *Bulks) Update(ctx context.Context, b Bulk) (Bulk, error) { return s.write(ctx, b, nil) }

func (s *Bulks) write(ctx context.Context, b Bulk, gone []string) (Bulk, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return b, err
	}
	_, err = redisx.Run(ctx, s.l.DB, lua.WriteBulk{
		Bulks: s.l.Keys.Bulks(), ID: b.ID, Before: b.stored, After: string(text), Gone: gone,
	})
	switch {
	case redisx.RefusedWith(err, lua.CodeChanged):
		return b, ErrChanged
	case err != nil:
		return b, layout.Unavailable(err)
	}
	b.stored = string(text)
	return b, nil
}

// Stop has a bulk action end with its present piece. One that has ended stays as it is. Errors: those of Get.
func (s *Bulks) Stop(ctx context.Context, id string) (Bulk, error) {
	for {
		b, err := s.Get(ctx, id)
		if err != nil || b.State != Running {
			return b, err
		}
		b.State = Stopping
		if b, err = s.Update(ctx, b); !errors.Is(err, ErrChanged) {
			return b, err
		}
	}
}
