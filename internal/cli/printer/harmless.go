package printer

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// isHostile reports whether a character changes how a terminal shows what is around it: it moves the cursor or begins
// an escape sequence (C0 and C1), orders text from right to left, or breaks a line.
func isHostile(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// Harmless returns a text of others for a terminal: without colours and without hostile characters, except for line
// breaks and tabs. Bytes that are no UTF-8 become U+FFFD.
func Harmless(text string) string {
	return dropHostile(anyColour.ReplaceAllString(text, ""))
}

func dropHostile(text string) string {
	return strings.Map(func(r rune) rune {
		if isHostile(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}

var (
	anyColour = regexp.MustCompile(`\x1b\[[0-9;:]*m`)
	ownColour = regexp.MustCompile(`\x1b\[(?:31|32|33|36|90|0)m`)
)

// forTerminal drops hostile characters from what this program prints, and keeps its own colours.
func forTerminal(text string) string {
	var b strings.Builder
	end := 0
	for _, at := range ownColour.FindAllStringIndex(text, -1) {
		b.WriteString(dropHostile(text[end:at[0]]))
		b.WriteString(text[at[0]:at[1]])
		end = at[1]
	}
	b.WriteString(dropHostile(text[end:]))
	return b.String()
}

// escapeHostile returns JSON with the same meaning whose strings a terminal shows as they are.
func escapeHostile(document []byte) string {
	var b strings.Builder
	for _, r := range string(document) {
		if isHostile(r) && r >= ' ' { // strings of JSON have no others
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
