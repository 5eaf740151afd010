package web

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addresses are attributes with an address on this server.
var addresses = regexp.MustCompile(` (href|action|formaction|src|data-stream)="(/[^"]*)"`)

// finished is HTML as it is sent, which templates have made for a reader. In one pass, addresses get the base path,
// links and forms keep the namespace that the reader has chosen, and characters that nobody sees get their names. Text
// from outside has no tag, as its brackets and quotes are escaped. Nothing else in this package knows of the base path,
// but for cookies.
func (v *visit) finished(page []byte, base string) []byte {
	if base == "" && v.Chosen() == "" && !bytes.ContainsFunc(page, unseen) {
		return page
	}
	var out bytes.Buffer
	inside := "" // of an element that has nothing but text
	for len(page) > 0 {
		text, _, _ := bytes.Cut(page, []byte("<"))
		out.Write(legible(text, inside))
		tag := page[len(text):]
		end := bytes.IndexByte(tag, '>')
		if end < 0 { // a tag without an end, which no template has
			out.Write(tag)
			break
		}
		tag = tag[:end+1]
		rest := page[len(text)+len(tag):]
		out.Write(v.finishedTag(tag, rest, base))
		page, inside = rest, ""
		for _, name := range []string{"textarea", "title"} {
			if bytes.HasPrefix(tag, []byte("<"+name)) {
				inside = name
			}
		}
	}
	return out.Bytes()
}

// finishedTag is a tag as it is sent. A form that sends GET has a field for the namespace, as a browser drops the query
// of its address. rest is what follows the tag.
func (v *visit) finishedTag(tag, rest []byte, base string) []byte {
	asked := tag
	tag = addresses.ReplaceAllFunc(tag, func(found []byte) []byte {
		parts := addresses.FindSubmatch(found)
		name, address := string(parts[1]), string(parts[2])
		if v.Chosen() != "" && name != "src" && name != "data-stream" {
			address = html.EscapeString(v.inNamespace(html.UnescapeString(address)))
		}
		return []byte(" " + name + `="` + base + address + `"`)
	})
	if v.Chosen() == "" || !bytes.HasPrefix(tag, []byte("<form")) || bytes.Contains(tag, []byte(` method="post"`)) ||
		bytes.Contains(asked, []byte(` action="/prefer/`)) {
		return tag
	}
	fields, _, _ := bytes.Cut(rest, []byte("</form>"))
	if bytes.Contains(fields, []byte(` name="namespace"`)) {
		return tag
	}
	return slices.Concat(tag, []byte(`<input type="hidden" name="namespace" value="`+html.EscapeString(v.Namespace)+`">`))
}

// legible is text of HTML with the names of characters that nobody sees. What a reader edits stays as it is.
func legible(text []byte, inside string) []byte {
	if inside == "textarea" || !bytes.ContainsFunc(text, unseen) {
		return text
	}
	begin, end := `<span class="ctl">`, "</span>"
	if inside == "title" {
		begin, end = "", ""
	}
	var out bytes.Buffer
	for i, r := range string(text) {
		if before, _ := utf8.DecodeLastRune(text[:i]); unseen(r) && !joins(r, before, text[i+utf8.RuneLen(r):]) {
			out.WriteString(begin + unseenName(r) + end)
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes()
}

// joins reports whether a character makes one sign of those beside it, as of an emoji. Scripts of ASCII have none such.
func joins(r, before rune, after []byte) bool {
	next, _ := utf8.DecodeRune(after)
	beside := func(r rune) bool { return r >= utf8.RuneSelf && !unseen(r) }
	return (r == '\u200c' || r == '\u200d') && beside(before) && beside(next)
}

// fillers are letters without a sign.
var fillers = []rune{'\u115f', '\u1160', '\u3164', '\uffa0'}

// unseen reports whether nobody sees a character: it has no width, changes the order of others, or steers a terminal.
func unseen(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0x7f
	case slices.Contains(fillers, r):
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// unseenName is the name of a character that nobody sees: a sign for those of ASCII, as ␛, else its number.
func unseenName(r rune) string {
	if r < ' ' {
		return string('␀' + r)
	}
	return fmt.Sprintf("U+%04X", r)
}

// unseenBytes is how many bytes more a text takes in HTML because of characters that nobody sees.
func unseenBytes(text string) int {
	const each = len(`<span class="ctl">U+E0067</span>`)
	return each * (len(text) - len(strings.Map(func(r rune) rune {
		if unseen(r) {
			return -1
		}
		return r
	}, text)))
}
