package web

import (
	"bytes"
	"encoding/json"
	"html"
	"html/template"
	"regexp"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/why"
)

// helpers are functions of templates that need no reader.
var helpers = template.FuncMap{
	"icon": icon, "id": shortID, "stateMark": stateMark, "reasonMark": reasonMark, "codes": codes,
	"sub":  func(a, b int) int { return a - b },
	"pair": func(v *view, of any) pair { return pair{v, of} },
}

// pair is what a shared part shows, and its reader.
type pair struct {
	View *view
	Of   any
}

// icon is a symbol of the sheet in the layout, with the class of its colour.
func icon(name, class string) template.HTML {
	return template.HTML(`<svg class="i ` + class + //nolint:gosec // both are ours
		`" aria-hidden="true"><use href="#i-` + name + `"/></svg>`)
}

// shortID is an id in two parts, so that it is cut in its middle: its end tells ids apart.
func shortID(id string) template.HTML {
	at := strings.LastIndexByte(id, '@')
	if at <= 0 {
		at = max(len(id)-8, 0)
		if len(id) <= 16 {
			at = len(id)
		}
	}
	return template.HTML("<span>" + template.HTMLEscapeString(id[:at]) + "</span><span>" + //nolint:gosec // escaped
		template.HTMLEscapeString(id[at:]) + "</span>")
}

// codes is a text with what stands between backticks as code.
func codes(text string) template.HTML {
	var out strings.Builder
	for i, piece := range strings.Split(text, "`") {
		piece = template.HTMLEscapeString(piece)
		if i%2 == 1 {
			piece = "<code>" + piece + "</code>"
		}
		out.WriteString(piece)
	}
	return template.HTML(out.String()) //nolint:gosec // escaped
}

// escaped is a text as HTML.
func escaped(text string) template.HTML {
	return template.HTML(template.HTMLEscapeString(text)) //nolint:gosec // escaped
}

// linkTo is a link with some words.
func linkTo(path template.URL, words template.HTML) template.HTML {
	return `<a href="` + escaped(string(path)) + `">` + words + "</a>"
}

// bdi is a text of others, whose direction changes nothing around it.
func bdi(text string) template.HTML { return isolated(escaped(text)) }

// isolated is bdi for HTML.
func isolated(said template.HTML) template.HTML { return "<bdi>" + said + "</bdi>" }

// tag is a tag of HTML.
var tag = regexp.MustCompile(`<[^>]*>`)

// textOfHTML is HTML as plain text.
func textOfHTML(said template.HTML) string {
	return html.UnescapeString(tag.ReplaceAllString(string(said), " "))
}

// code is a text as code.
func code(text string) template.HTML { return `<code dir="auto">` + escaped(text) + "</code>" }

// sentences is a paragraph, the first sentence of which is bold.
func sentences(all []template.HTML) template.HTML {
	text := "<b>" + all[0] + "</b>"
	for _, s := range all[1:] {
		text += " " + s
	}
	return text
}

// labelsOf are labels as a filter takes them, sorted.
func labelsOf(labels map[string]string) (all []string) {
	for name, value := range labels {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return all
}

// unescapes has what programs escape in JSON for browsers. The first pair is there so that a backslash that is escaped
// itself begins no other.
var unescapes = strings.NewReplacer(`\\`, `\\`, `\u0026`, "&", `\u003c`, "<", `\u003e`, ">")

// pretty is JSON for people, however long it is.
func pretty(text json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, text, "", "  ") != nil {
		return string(text)
	}
	return unescapes.Replace(out.String())
}

// indented is JSON for people, as much as the page shows.
func indented(text json.RawMessage) string {
	if len(text) > indentedText {
		return cutHTML(string(text), shownText)
	}
	return cutHTML(pretty(text), shownText)
}

// pageMark is the end of a text that a page has shortened. Those that were shortened before they were kept have others.
const pageMark = "… [cut on this page]"

// cutHTML is a text that has at most limit bytes as HTML.
func cutHTML(text string, limit int) string {
	if len(text) <= limit {
		if text = strings.ToValidUTF8(text, "\uFFFD"); htmlBytes(text) <= limit {
			return text
		}
	}
	room := limit - len(pageMark)
	text = strings.TrimSuffix(task.Cut(text, room), task.CutMark)
	for n := htmlBytes(text); n > room; n = htmlBytes(text) {
		text = strings.TrimSuffix(task.Cut(text, len(text)*room/n), task.CutMark)
	}
	return text + pageMark
}

// htmlBytes is how many bytes a text has as HTML.
func htmlBytes(text string) int {
	const plus = len("&#43;") - 1 // templates escape that, too
	return len(template.HTMLEscapeString(text)) + plus*strings.Count(text, "+") + unseenBytes(text)
}

// Reason is why an attempt or a task did not succeed, as much as a row shows.
func (v *visit) Reason(text string) string { return cutHTML(text, shownReason) }

// Detail is what a reason says, with as much of the error that it quotes as a row shows.
func (v *visit) Detail(reason any) string {
	switch r := reason.(type) {
	case status.Reason:
		return r.Detail
	case why.Reason:
		quoted := strings.TrimSuffix(r.LastError, ".")
		return strings.Replace(r.Detail, quoted, v.Reason(quoted), 1)
	}
	return ""
}
