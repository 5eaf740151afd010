package rollup

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Shape returns what the errors of one cause have in common: the first line without numbers, ids, addresses and quoted
// names, each of which becomes "#", in at most TextLimit bytes. Only the numbers that say what kind of error it is
// stay: those of HTTP and of the exit of a command. It is "?" for an error without a text. Shape(Shape(x)) is
// Shape(x).
func Shape(text string) string {
	s := firstLine(text)
	for range 4 { // what is left out may lay bare something else
		next := once(s)
		if next == s {
			break
		}
		s = next
	}
	if s == "" {
		return "?"
	}
	return s
}

// mostRead is the most that is read of an error.
const mostRead = 2 << 10

// firstLine returns the first line that is not blank, with one blank between words; with the next one if it ends
// in a colon.
func firstLine(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), mostRead)], "")
	line := ""
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		words := strings.FieldsFunc(part, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
		line = strings.TrimSpace(line + " " + strings.Join(words, " "))
		if line != "" && !strings.HasSuffix(line, ":") {
			break
		}
	}
	return line
}

// patterns are of what the shape leaves out as a whole, with a character that each contains.
var patterns = []struct {
	mark string
	of   *regexp.Regexp
}{
	{"-", regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)}, // a UUID
	{"[", regexp.MustCompile(`(?i)\[[0-9a-f:.]*:[0-9a-f:.]*:[0-9a-f:.]*(%[a-z0-9]+)?\]`)},             // an IPv6 address
	{"@", regexp.MustCompile(`[\pL\pN._%+#-]+@[\pL\pN#-]+(\.[\pL\pN#-]+)+`)},                          // a mail address
}

func once(s string) string {
	for _, p := range patterns {
		if strings.Contains(s, p.mark) { // most errors have none, and looking for a pattern takes longer
			s = p.of.ReplaceAllString(s, "#")
		}
	}
	var o shaper
	for i := 0; i < len(s) && len(o.out) <= TextLimit; {
		i += o.next(s[i:])
	}
	return o.cut()
}

// shaper writes a shape.
type shaper struct {
	out    []byte
	braces int  // that are open: what is quoted in JSON is no id
	quoted bool // within quotes that were kept
}

// next handles the beginning of the rest, and returns how much of it.
func (o *shaper) next(rest string) int {
	r, size := utf8.DecodeRuneInString(rest)
	switch {
	case isWord(r):
		end := strings.IndexFunc(rest, func(r rune) bool { return !isWord(r) })
		if end < 0 {
			end = len(rest)
		}
		o.word(rest[:end])
		return end
	case r == '"' || r == '\'' || r == '`':
		return o.quote(rest)
	case r == '{':
		o.braces++
	case r == '}':
		o.braces = max(o.braces-1, 0)
	case r == '#':
		o.leaveOut()
		return size
	}
	o.out = append(o.out, rest[:size]...)
	return size
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// quote handles a quotation mark. A quoted word is an id, unless it is part of JSON.
func (o *shaper) quote(rest string) int {
	mark := rest[:1]
	end := strings.Index(rest[1:], mark) + 1
	if mark == `"` && o.quoted {
		o.quoted = false
		end = 0
	}
	opens := len(o.out) == 0 || strings.IndexByte(" (=[,", o.out[len(o.out)-1]) >= 0
	switch {
	case end <= 1: // an apostrophe, an empty text, or the end of a quotation
	case opens && o.braces == 0 && strings.IndexByte(rest[:end], ' ') < 0:
		o.out = append(o.out, mark...)
		o.out = append(o.out, '#')
		o.out = append(o.out, mark...)
		return end + 1
	case mark == `"`:
		o.quoted = true
	}
	o.out = append(o.out, mark...)
	return 1
}

// word handles letters and digits.
func (o *shaper) word(w string) {
	digits := strings.IndexFunc(w, unicode.IsDigit)
	switch {
	case digits < 0 || o.tells(w):
		o.out = append(o.out, w...)
	case digits <= 2 || isHex(w) || strings.IndexFunc(w[digits:], unicode.IsLetter) > 0:
		o.leaveOut()
	default: // a name of three letters or more with a number, as in step3
		o.out = append(o.out, w[:digits]...)
		o.leaveOut()
	}
}

// tells reports whether a number says what kind of error it is.
func (o *shaper) tells(w string) bool {
	if len(w) > 3 || strings.Trim(w, "0123456789") != "" {
		return false
	}
	before := strings.ToLower(string(o.out[max(len(o.out)-16, 0):]))
	for _, name := range []string{"http ", "status ", "status code ", "status: ", "exit code ",
		"status code: ", "exit code: "} {
		if strings.HasSuffix(before, name) {
			return true
		}
	}
	return false
}

// isHex reports whether a word with a digit is a hexadecimal id.
func isHex(w string) bool { return strings.Trim(w, "0123456789abcdefABCDEF") == "" }

// leaveOut writes the mark of what is left out. Marks with nothing but a separator between them become one.
func (o *shaper) leaveOut() {
	n := len(o.out)
	switch {
	case n > 0 && o.out[n-1] == '#':
		return
	case n > 1 && o.out[n-2] == '#' && strings.IndexByte(".:,/_+-", o.out[n-1]) >= 0:
		o.out = o.out[:n-1]
		return
	}
	o.out = append(o.out, '#')
}

// cut returns the shape, with "…" at its end if it is too long.
func (o *shaper) cut() string {
	const mark = "…"
	if len(o.out) <= TextLimit {
		return string(o.out)
	}
	end := TextLimit - len(mark)
	for !utf8.RuneStart(o.out[end]) {
		end--
	}
	return strings.TrimRight(string(o.out[:end]), " ") + mark
}
