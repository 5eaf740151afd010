package layout

import (
	"strings"
	"unicode/utf8"
)

// Limits of a page by size: a task or a schedule may have some hundred kB.
const (
	ReadChunk = 50      // records read in one round trip
	PageBytes = 4 << 20 // after which a page ends early

	firstPortion = 10      // records read before anything is known of their size
	portionBytes = 2 << 20 // that one round trip should read
)

// Portions says how many records to read at once, by the size of those that were read, and when a page is full.
type Portions struct {
	bytes, records int // that were read
	kept           int // bytes that are on the page
}

// Next is how many records to read now, up to most.
func (p *Portions) Next(most int) int {
	if p.records == 0 {
		return min(firstPortion, most)
	}
	return min(max(1, portionBytes/max(1, p.bytes/p.records)), most)
}

// Read counts a record that was read, and whether it is on the page.
func (p *Portions) Read(bytes int, kept bool) {
	p.bytes += bytes
	p.records++
	if kept {
		p.kept += bytes
	}
}

// Full reports whether the page is to end.
func (p *Portions) Full() bool { return p.kept >= PageBytes }

// TextBytes is how many bytes a text takes in an answer, which is JSON: up to six times as many as it has.
func TextBytes(text string) int {
	n := len(text)
	for i, r := range text {
		switch {
		case r == '"' || r == '\\' || r == '\b' || r == '\f' || r == '\n' || r == '\r' || r == '\t':
			n++
		case r < ' ', r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"): // no UTF-8
			n += 5
		case r == '\u2028' || r == '\u2029':
			n += 3
		}
	}
	return n
}
