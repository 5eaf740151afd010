package printer

import (
	"slices"
	"strings"
)

// Strip is what became of some ticks, the oldest first: the results of the API. It has a letter for each.
type Strip []string

// stripLetters are the letters of results, the most frequent first. Letters that are large need a look.
var stripLetters = []struct{ result, letter string }{
	{"succeeded", "."}, {"failed", "F"}, {"missed", "M"}, {"running", ">"}, {"waiting", "w"}, {"cancelled", "c"},
	{"replaced", "r"}, {"skipped_overlap", "o"}, {"excluded", "x"}, {"unknown", "?"},
}

// letterOf returns the letter of a result; that of one that this release does not know is "?".
func letterOf(result string) string {
	for _, l := range stripLetters {
		if l.result == result {
			return l.letter
		}
	}
	return "?"
}

// letters returns the text of a strip.
func (s Strip) letters() string {
	var b strings.Builder
	for _, result := range s {
		b.WriteString(letterOf(result))
	}
	return b.String()
}

// Legend says what the letters of a strip mean, without those that it does not have.
func (s Strip) Legend() string {
	var parts []string
	for _, l := range stripLetters {
		if slices.Contains(s, l.result) {
			parts = append(parts, l.letter+" "+l.result)
		}
	}
	return strings.Join(parts, ", ")
}

// colourStrip returns the text of a strip with each letter in the colour of its result.
func (p *Printer) colourStrip(s Strip) string {
	var b strings.Builder
	for _, result := range s {
		b.WriteString(p.StatusText(Status(result), letterOf(result)))
	}
	return b.String()
}
