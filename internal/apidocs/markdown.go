package apidocs

import (
	"html"
	"strings"
)

// renderBlocks renders the Markdown that descriptions use: paragraphs, tables, `code`, **bold** and *emphasis*.
// Whatever else it finds is text. links are the places that a span of code leads to.
func renderBlocks(markdown string, links map[string]string) string {
	var b strings.Builder
	for block := range strings.SplitSeq(markdown, "\n\n") {
		lines := strings.Split(strings.TrimSpace(block), "\n")
		switch {
		case lines[0] == "":
		case isTable(lines):
			renderTable(&b, lines, links)
		default:
			b.WriteString("<p>" + renderSpans(strings.Join(lines, "\n"), links) + "</p>\n")
		}
	}
	return b.String()
}

func isTable(lines []string) bool {
	return len(lines) > 1 && strings.HasPrefix(lines[0], "|") && strings.HasPrefix(lines[1], "|-")
}

// renderTable renders the lines of a table. The first line has the names of the columns, and the second divides.
func renderTable(b *strings.Builder, lines []string, links map[string]string) {
	b.WriteString("<div class=\"wide\"><table>\n<thead>")
	renderRow(b, lines[0], `th scope="col"`, "th", links)
	b.WriteString("</thead>\n<tbody>\n")
	for _, line := range lines[2:] {
		renderRow(b, line, "td", "td", links)
		b.WriteString("\n")
	}
	b.WriteString("</tbody></table></div>\n")
}

func renderRow(b *strings.Builder, line, begin, end string, links map[string]string) {
	b.WriteString("<tr>")
	for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
		b.WriteString("<" + begin + ">" + renderSpans(strings.TrimSpace(cell), links) + "</" + end + ">")
	}
	b.WriteString("</tr>")
}

// renderSpans renders what stands within a paragraph. A mark without another one that ends it is text.
func renderSpans(text string, links map[string]string) string {
	var b strings.Builder
	for text != "" {
		at := strings.IndexAny(text, "`*")
		if at < 0 {
			break
		}
		b.WriteString(html.EscapeString(text[:at]))
		mark, element := markAt(text[at:])
		inner, rest, closed := strings.Cut(text[at+len(mark):], mark)
		if !closed || inner == "" || element != "code" && strings.TrimSpace(inner) != inner {
			b.WriteString(mark)
			text = text[at+len(mark):]
			continue
		}
		b.WriteString(renderSpan(inner, element, links))
		text = rest
	}
	b.WriteString(html.EscapeString(text))
	return b.String()
}

// markAt is the mark at the beginning of text, and the element that it makes.
func markAt(text string) (mark, element string) {
	switch {
	case text[0] == '`':
		return "`", "code"
	case strings.HasPrefix(text, "**"):
		return "**", "strong"
	}
	return "*", "em"
}

func renderSpan(inner, element string, links map[string]string) string {
	if element != "code" {
		return "<" + element + ">" + renderSpans(inner, links) + "</" + element + ">"
	}
	code := "<code>" + html.EscapeString(inner) + "</code>"
	if to, ok := links[inner]; ok {
		return `<a href="` + html.EscapeString(to) + `">` + code + "</a>"
	}
	return code
}
