package server

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
)

// pageLimit is the most rows that the server puts into one page.
const pageLimit = 500

// Window is how much of a list is wanted: the first Limit rows, at least 1, or All; from Cursor on, or from the start
// if that is nil. Unless All are wanted, no further page is read after the time Within.
type Window struct {
	Limit  int
	All    bool
	Cursor *string
	Within time.Duration
}

// Pages is the joined pages of a list.
type Pages[T any] struct {
	Rows     []T
	Count    int                        // of the rows, also of those that were passed on
	More     bool                       // the list goes on, at Next
	Next     string                     // a cursor
	Late     bool                       // there are fewer rows than wanted, as the time is over
	Warnings []string                   // what cannot be read, and is left out
	Rest     map[string]json.RawMessage // the page read last, without its rows
	name     string                     // of the pages' field that has the rows
	items    []json.RawMessage          // the rows as the server sent them
}

// Reader reads one page of a list from a cursor on.
type Reader func(limit int, cursor *string) (json.RawMessage, error)

// ReadPages reads pages until there are as many rows as wanted. The rows are in the field name of each page.
func ReadPages[T any](w Window, name string, read Reader) (Pages[T], error) {
	return PassPages[T](w, name, read, nil)
}

// PassPages is ReadPages. It passes the rows of each page to take, and does not keep them, unless take is nil.
func PassPages[T any](w Window, name string, read Reader, take func([]T) error) (Pages[T], error) {
	p := Pages[T]{name: name, items: []json.RawMessage{}}
	for cursor, started := w.Cursor, clock.Now(); ; {
		limit := pageLimit
		if !w.All {
			limit = min(limit, w.Limit-p.Count)
		}
		page, err := read(limit, cursor)
		if err != nil {
			return p, err
		}
		if cursor, err = p.add(page); err != nil {
			return p, rest.Misunderstood(err)
		}
		if take != nil {
			if err := take(p.Rows); err != nil {
				return p, err
			}
			p.Rows, p.items = nil, nil
		}
		if p.More = cursor != nil; !p.More {
			return p, nil
		}
		p.Next = *cursor
		if w.All {
			continue
		}
		enough := p.Count >= w.Limit
		if p.Late = !enough && clock.Since(started) >= w.Within; enough || p.Late {
			return p, nil
		}
	}
}

// add appends a page. It returns the cursor of the next one, nil if there is none.
func (p *Pages[T]) add(page json.RawMessage) (cursor *string, err error) {
	p.Rest = nil
	if err := json.Unmarshal(page, &p.Rest); err != nil {
		return nil, err
	}
	var (
		rows  []T
		items []json.RawMessage
	)
	if err := json.Unmarshal(p.Rest[p.name], &rows); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(p.Rest[p.name], &items); err != nil {
		return nil, err
	}
	if next, ok := p.Rest["next_cursor"]; ok {
		if err := json.Unmarshal(next, &cursor); err != nil {
			return nil, err
		}
	}
	if err := p.addWarnings(); err != nil {
		return nil, err
	}
	delete(p.Rest, p.name)
	p.Count += len(rows)
	p.Rows, p.items = append(p.Rows, rows...), append(p.items, items...)
	return cursor, nil
}

// addWarnings adds the warnings of a page that was read, each one once.
func (p *Pages[T]) addWarnings() error {
	raw, ok := p.Rest["warnings"]
	if !ok {
		return nil
	}
	var warnings []string
	if err := json.Unmarshal(raw, &warnings); err != nil {
		return err
	}
	for _, w := range warnings {
		if !slices.Contains(p.Warnings, w) {
			p.Warnings = append(p.Warnings, w)
		}
	}
	return nil
}

// JSON returns the list as one page that has all the rows.
func (p *Pages[T]) JSON() (json.RawMessage, error) {
	page := make(map[string]any, len(p.Rest)+1)
	for name, value := range p.Rest {
		page[name] = value
	}
	if len(p.Warnings) > 0 {
		page["warnings"] = p.Warnings
	}
	page[p.name] = p.items
	return wire.Encode(page)
}
