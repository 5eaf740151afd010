// Package printer prints results for whoever reads them.
//
// A terminal gets aligned tables, colours and times like "in 3 minutes". A pipe gets one line per thing: fields
// separated by tabs, times in RFC 3339, no header. With the formats json and yaml, both get what the API answered.
package printer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
)

// ErrUnread is the error for results that nobody reads any more, as behind "| head -1".
var ErrUnread = errors.New("nobody reads the results any more")

// Options says where a Printer writes and who reads there.
type Options struct {
	Out io.Writer // results
	Err io.Writer // messages about them

	OutIsTerminal bool
	ErrIsTerminal bool
	Width         int  // of a line of Out, in columns; 0 if it is unknown
	Colour        bool // use colours on a terminal

	Now  func() time.Time
	Zone *time.Location // of times that people read
}

// Printer prints results and messages.
type Printer struct {
	Options
	Format Format

	// Persist lets the command finish its work after its output pipe closes.
	Persist bool

	warned map[string]bool
	unread bool // nobody reads the results any more
}

// New returns a printer of tables.
func New(o Options) *Printer { return &Printer{Options: o} }

// IsTable reports whether results are printed as tables, or as lines with tabs, and not as JSON or YAML.
func (p *Printer) IsTable() bool { return p.Format == "" || p.Format == Table }

// ForPeople reports whether results are printed for people: as tables on a terminal.
func (p *Printer) ForPeople() bool { return p.OutIsTerminal && p.IsTable() }

// Show prints an answer: as it came in the format json, as YAML in the format yaml, else by calling table.
func (p *Printer) Show(raw json.RawMessage, table func() error) error {
	switch p.Format {
	case JSON:
		return p.printJSON(raw)
	case YAML:
		return p.printYAML(raw)
	}
	return table()
}

// ShowLine is like Show for one element of an endless sequence: its JSON takes exactly one line.
func (p *Printer) ShowLine(raw json.RawMessage, table func() error) error {
	if p.Format == JSON {
		raw = wire.PlainSigns(raw)
		if p.OutIsTerminal {
			return p.Printf("%s\n", escapeHostile(raw))
		}
		return p.Printf("%s\n", raw)
	}
	return p.Show(raw, table)
}

// Printf writes to the results. A terminal gets nothing that moves its cursor or reorders its text; a pipe gets all as
// it is. Error: ErrUnread, unless Persist is set; or that of Out.
func (p *Printer) Printf(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if p.OutIsTerminal {
		text = forTerminal(text)
	}
	if p.unread && p.Persist {
		return nil
	}
	_, err := io.WriteString(p.Out, text)
	p.unread = errors.Is(err, syscall.EPIPE)
	switch {
	case p.unread && p.Persist:
		return nil
	case p.unread:
		return ErrUnread
	case err != nil:
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

// ClearScreen clears a terminal, and goes on at its top. A pipe gets nothing.
func (p *Printer) ClearScreen() error {
	if !p.OutIsTerminal {
		return nil
	}
	if _, err := io.WriteString(p.Out, "\x1b[H\x1b[2J"); err != nil {
		return fmt.Errorf("clearing the screen: %w", err)
	}
	return nil
}

// Errorf writes a line about an error or a warning to the user, preceded by the program's name.
func (p *Printer) Errorf(format string, args ...any) { p.Notef("dtsctl: "+format, args...) }

// Warn writes the warnings of the server to the user, each one once.
func (p *Printer) Warn(warnings []string) {
	for _, w := range warnings {
		if p.warned == nil {
			p.warned = make(map[string]bool)
		}
		if !p.warned[w] {
			p.Notef("warning: %s", w)
		}
		p.warned[w] = true
	}
}

// Notef writes a line to the user. If even that fails, there is nothing left to do.
func (p *Printer) Notef(format string, args ...any) {
	text := Scrub(fmt.Sprintf(format, args...))
	if p.ErrIsTerminal {
		text = Harmless(text)
	}
	_, _ = fmt.Fprintln(p.Err, text)
}
