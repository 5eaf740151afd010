package printer

import "fmt"

// StatusLine is the line at the end of a terminal that tells how far a command has come. Each text takes the place of the
// one before. Where messages do not go to a terminal, nothing is shown. It must not be used by several goroutines at once.
type StatusLine struct {
	Printer *Printer
	shown   string
}

// Draw shows a text.
func (l *StatusLine) Draw(text string) {
	if !l.Printer.ErrIsTerminal || text == l.shown {
		return
	}
	l.Clear()
	l.shown = text
	_, _ = fmt.Fprint(l.Printer.Err, forTerminal(text))
}

// Clear removes the text, so that something else can be printed there.
func (l *StatusLine) Clear() {
	if l.shown != "" {
		_, _ = fmt.Fprint(l.Printer.Err, "\r\x1b[K")
		l.shown = ""
	}
}
