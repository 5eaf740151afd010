package web

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/task"
)

// liveInterval is between two looks at a page that somebody watches.
const liveInterval = time.Second

// shows are the pages that are watched. All who watch the same page in the same language share one show of it, so a
// page costs Redis the same for one viewer and for hundreds.
type shows struct {
	site *Site
	mu   sync.Mutex
	all  map[string]*show
}

func newShows(s *Site) *shows { return &shows{site: s, all: map[string]*show{}} }

// show is one page that is made again each second, for its viewers.
type show struct {
	key     string
	stop    context.CancelFunc
	viewers map[chan patch]bool
	shown   map[string][]byte // the parts as they were made last, by their templates
}

// patch is a part of a page that has changed.
type patch struct {
	part string
	html []byte
}

// statePart is the part of a page that says whether it can be made: live, away while Redis cannot be used, failed, or
// gone: who reads the page again sees why. Behind that is when it was made last, if it cannot be made now.
const statePart = "state"

// failedInterval is between two tries to make a page that has failed for a reason of its own, as a panic.
const failedInterval = 10 * time.Second

// stateOf is the state of a page that was made, or not for a reason.
func stateOf(err error) string {
	switch {
	case err == nil:
		return "live"
	case edge.CodeOf(err) == task.CodeUnavailable:
		return "away"
	case edge.StatusOf(err) < http.StatusInternalServerError:
		return "gone"
	}
	return "failed"
}

// showsLimit is how many pages are live at a node. Further ones are shown, and do not change by themselves. 300 pages
// of one task each cost the node 35 % of a processor, and Redis 11 % and 20,000 commands a second, those of scripts
// included. Both grow with the number. A client's address has 250 streams, so it cannot take all pages.
const showsLimit = 300

// watch adds a viewer of a page. The channel ends if the viewer is too slow; leave must be called afterwards. Error:
// CodeOverloaded.
func (s *shows) watch(p *page, v *visit) (_ <-chan patch, leave func(), _ error) {
	viewer := make(chan patch, 4*(len(p.parts())+1))
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.all[v.key()]
	if w == nil && len(s.all) >= showsLimit {
		return nil, nil, task.Errorf(task.CodeOverloaded, "%d pages are live at this node, which are as many as may be: "+
			"close some that nobody reads, or open this one at another node", showsLimit)
	}
	if w == nil {
		ctx, stop := context.WithCancel(s.site.server.Stopping())
		w = &show{key: v.key(), stop: stop, viewers: map[chan patch]bool{}, shown: map[string][]byte{}}
		s.all[w.key] = w
		go s.run(ctx, w, p, v)
	}
	w.viewers[viewer] = true
	for _, part := range append(p.parts(), statePart) { // the page may be older
		if html, made := w.shown[part]; made {
			viewer <- patch{part, html}
		}
	}
	return viewer, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		w.drop(viewer)
		if len(w.viewers) == 0 && s.all[w.key] == w {
			w.stop()
			delete(s.all, w.key)
		}
	}, nil
}

func (w *show) drop(viewer chan patch) {
	if w.viewers[viewer] {
		delete(w.viewers, viewer)
		close(viewer)
	}
}

// run makes the parts of a page each second, and sends those that have changed.
func (s *shows) run(ctx context.Context, w *show, p *page, v *visit) {
	own := *v
	own.quiet = true
	made := "" // when the page was, behind a space
	for ctx.Err() == nil {
		parts, err := s.site.parts(ctx, p, &own)
		state, pause := stateOf(err), liveInterval
		if err == nil {
			made = " " + own.now.UTC().Format(time.RFC3339)
			s.send(w, append(parts, patch{statePart, []byte(state)}))
		} else {
			s.send(w, []patch{{statePart, []byte(state + made)}})
		}
		if state == "failed" {
			pause = failedInterval
		}
		_ = clock.Sleep(ctx, pause)
	}
}

func (s *shows) send(w *show, parts []patch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, part := range parts {
		if bytes.Equal(w.shown[part.part], part.html) {
			continue
		}
		w.shown[part.part] = part.html
		for viewer := range w.viewers {
			select {
			case viewer <- part:
			default:
				w.drop(viewer)
			}
		}
	}
}

// parts are the templates of the parts of a page that are sent again: its own, and those of the layout that count what
// needs somebody.
func (p *page) parts() []string { return append([]string{"title", "pages"}, p.live...) }

// parts makes the parts of a page that are sent again. Nobody answers for a panic here, as for that of a request.
func (s *Site) parts(ctx context.Context, p *page, v *visit) (_ []patch, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("making the parts of the page %s: %v", p.name, cause)
			s.server.Options().Log.Error("panic", "error", err, "stack", string(debug.Stack()))
		}
	}()
	shown, err := s.view(ctx, p, v)
	if err != nil {
		return nil, err
	}
	names := p.parts()
	all := make([]patch, len(names))
	for i, part := range names {
		var text bytes.Buffer
		if err := s.templates[p.name].ExecuteTemplate(&text, part, shown); err != nil {
			return nil, fmt.Errorf("making the part %s of the page %s: %w", part, p.name, err)
		}
		all[i] = patch{part, s.finished(shown.visit, text.Bytes())}
	}
	return all, nil
}

// stream sends the parts of a page as they change.
func (s *Site) stream(c echo.Context, p *page, v *visit) error {
	maps.DeleteFunc(v.query, func(name string, _ []string) bool {
		return name != "namespace" && !slices.Contains(p.asks, name)
	})
	patches, leave, err := s.shows.watch(p, v)
	if err != nil {
		return err
	}
	defer leave()
	return s.server.Stream(c, func(ctx context.Context, out *edge.Stream) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-out.Beat():
				if err := out.Alive(); err != nil {
					return err
				}
			case part, more := <-patches:
				if !more {
					return s.reload(out)
				}
				if err := s.sendPatch(out, part); err != nil {
					return err
				}
			}
		}
	})
}

func (s *Site) sendPatch(out *edge.Stream, part patch) error {
	event := "patch"
	if part.part == statePart {
		event = statePart
	}
	if err := out.Send(event, "", string(part.html)); err != nil {
		return err
	}
	return out.Flush()
}

// reload tells a viewer that was too slow to read the page again.
func (s *Site) reload(out *edge.Stream) error {
	if err := out.Send("reload", "", ""); err != nil {
		return err
	}
	return out.Flush()
}
