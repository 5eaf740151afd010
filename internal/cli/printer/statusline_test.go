package printer

import (
	"strings"
	"testing"
)

func TestStatusLine_ReplacesItsTextOnATerminalAndIsSilentElsewhere(t *testing.T) {
	for isTerminal, want := range map[bool]string{true: "one\r\x1b[Ktwo\r\x1b[K", false: ""} {
		var b strings.Builder
		l := StatusLine{Printer: New(Options{Err: &b, ErrIsTerminal: isTerminal})}
		l.Draw("one")
		l.Draw("one")
		l.Draw("two")
		l.Clear()
		l.Clear()
		if got := b.String(); got != want {
			t.Errorf("terminal %v: wrote %q, want %q", isTerminal, got, want)
		}
	}
}
