package web

import (
	"errors"
	"slices"
	"sync"
)

// errUnanswered is the answer to a form that was sent again while the first one panicked.
var errUnanswered = errors.New("the form was not answered")

// sentLimit is how many forms a node remembers.
const sentLimit = 1000

// sentForms are the forms that were sent to this node, with their answers. A form that is sent again, as by a second
// click, does nothing, and gets the answer of the first, which says so: see act for one that comes late. One that
// failed, or was only checked, may be sent again. After a lost reply, or at another node, the action itself does
// nothing twice: see action.
type sentForms struct {
	mu    sync.Mutex
	forms map[string]*sentForm
	keys  []string // of forms, the oldest first
}

// sentForm is a form that was sent.
type sentForm struct {
	ended chan struct{} // closed when the action has ended; only then may the other fields be read
	done  result
	err   error
}

func (f *sentForm) hasEnded() bool {
	select {
	case <-f.ended:
		return true
	default:
		return false
	}
}

// once does what the form with a key asks for. If another request does that now, it waits and returns the same.
func (s *sentForms) once(key string, do func() (result, error)) (result, error) {
	s.mu.Lock()
	form, again := s.forms[key]
	if !again {
		form = &sentForm{ended: make(chan struct{}), err: errUnanswered}
		s.add(key, form)
	}
	s.mu.Unlock()
	if again {
		<-form.ended
		done := form.done
		done.twice = done != (result{})
		return done, form.err
	}
	defer close(form.ended)
	defer func() { // also if do panics
		if form.err != nil || form.done == (result{}) {
			s.forget(key)
		}
	}()
	form.done, form.err = do()
	return form.done, form.err
}

// add notes a form, and forgets the oldest of those that have ended.
func (s *sentForms) add(key string, form *sentForm) {
	s.forms[key] = form
	s.keys = append(s.keys, key)
	for len(s.keys) > sentLimit {
		i := slices.IndexFunc(s.keys, func(key string) bool { return s.forms[key].hasEnded() })
		if i < 0 {
			return
		}
		delete(s.forms, s.keys[i])
		s.keys = slices.Delete(s.keys, i, i+1)
	}
}

func (s *sentForms) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.forms, key)
	if i := slices.Index(s.keys, key); i >= 0 {
		s.keys = slices.Delete(s.keys, i, i+1)
	}
}
