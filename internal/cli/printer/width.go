package printer

import "github.com/mattn/go-runewidth"

// columns measures texts as terminals show them. It does not depend on the locale: a character of ambiguous width
// takes one column.
var columns = &runewidth.Condition{StrictEmojiNeutral: true}

// Width returns how many columns of a terminal a text takes. A Chinese character or an emoji takes two, a combining
// accent none.
func Width(text string) int { return columns.StringWidth(text) }

// clip shortens a text to at most limit columns.
func clip(text string, limit int) string { return columns.Truncate(text, limit, "…") }

// Pad appends spaces to a text until it takes at least width columns.
func Pad(text string, width int) string { return columns.FillRight(text, width) }
