package printer

import (
	"strings"
	"unicode/utf8"
)

// Width returns how many columns of a terminal a text takes.
func Width(text string) int { return utf8.RuneCountInString(text) }

// clip shortens a text to at most limit columns.
func clip(text string, limit int) string {
	if Width(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}

// Pad appends spaces to a text until it takes at least width columns.
func Pad(text string, width int) string { return text + strings.Repeat(" ", max(0, width-Width(text))) }
