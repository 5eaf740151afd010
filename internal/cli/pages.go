package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"
)

// pageLimit is how many things the server puts into one page of a list at most.
const pageLimit = 500

// window is how much of a list is wanted.
type window struct {
	limit int
	all   bool
}

func (w *window) bind(cmd *cobra.Command) {
	cmd.Flags().IntVar(&w.limit, "limit", 50, "list so many at most")
	cmd.Flags().BoolVar(&w.all, "all", false, "list all of them")
}

// paged is the pages of a list, joined.
type paged[T any] struct {
	rows   []T
	raw    []json.RawMessage          // the rows as the server sent them
	newest map[string]json.RawMessage // the page read last, without its rows
	cursor *string                    // of the next page; nil if there is none
}

// readPages reads pages until there are enough. The rows are in the pages' field rows.
func readPages[T any](w window, rows string, read func(limit int, cursor *string) (json.RawMessage, error)) (paged[T], error) {
	p := paged[T]{raw: []json.RawMessage{}}
	if w.limit < 1 {
		return p, usagef("--limit: %d is less than 1", w.limit)
	}
	for {
		limit := pageLimit
		if !w.all {
			limit = min(limit, w.limit-len(p.rows))
		}
		page, err := read(limit, p.cursor)
		if err != nil {
			return p, err
		}
		if err := p.add(page, rows); err != nil {
			return p, misunderstood(err)
		}
		if p.cursor == nil || !w.all && len(p.rows) >= w.limit {
			return p, nil
		}
	}
}

// add adds a page at the end.
func (p *paged[T]) add(page json.RawMessage, rows string) error {
	p.newest, p.cursor = nil, nil
	if err := json.Unmarshal(page, &p.newest); err != nil {
		return err
	}
	var (
		values []T
		raw    []json.RawMessage
	)
	if err := json.Unmarshal(p.newest[rows], &values); err != nil {
		return err
	}
	if err := json.Unmarshal(p.newest[rows], &raw); err != nil {
		return err
	}
	if cursor, ok := p.newest["next_cursor"]; ok {
		if err := json.Unmarshal(cursor, &p.cursor); err != nil {
			return err
		}
	}
	delete(p.newest, rows)
	p.rows, p.raw = append(p.rows, values...), append(p.raw, raw...)
	return nil
}

// showPages prints a list: with -o json as one page that has all the rows.
func showPages[T any](s *session, p paged[T], rows string, columns []column[T]) error {
	page := make(map[string]any, len(p.newest)+1)
	for name, value := range p.newest {
		page[name] = value
	}
	page[rows] = p.raw
	raw, err := rawOf(page)
	if err != nil {
		return err
	}
	if p.cursor != nil && s.OutIsTerminal && s.isTable() {
		defer s.tell("There are more; --all lists them.")
	}
	return s.show(raw, func() error { return printTable(s, columns, p.rows) })
}
