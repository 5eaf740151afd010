package printer

import "testing"

func TestStrip_HasALetterForEachResult(t *testing.T) {
	t.Parallel()
	strip := Strip{
		"succeeded", "failed", "missed", "running", "waiting", "cancelled", "replaced", "skipped_overlap", "excluded",
		"unknown", "new",
	}
	pipe := &Printer{}
	if got := pipe.Text(strip); got != ".FM>wcrox??" {
		t.Errorf("the letters are %q", got)
	}
	terminal := New(Options{OutIsTerminal: true, Colour: true})
	want := Green + "." + Reset + Red + "F" + Reset + "?"
	if got := terminal.colourCell(Strip{"succeeded", "failed", "new"}, ".F?"); got != want {
		t.Errorf("on a terminal: %q, want %q", got, want)
	}
	if got := (Strip{"failed", "succeeded", "failed"}).Legend(); got != ". succeeded, F failed" {
		t.Errorf("the legend is %q", got)
	}
}
