package web

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/message/catalog"
)

// languages are those that the pages are written in, the default one first.
var languages = []language.Tag{language.English, language.SimplifiedChinese}

var matcher = language.NewMatcher(languages)

// languageNames are the names of the languages in themselves, by their codes.
var languageNames = []struct{ Code, Name string }{{"en", "English"}, {"zh", "中文"}}

// texts are all texts in all languages.
var texts = newCatalog()

func newCatalog() *catalog.Builder {
	b := catalog.NewBuilder(catalog.Fallback(language.English))
	set := func(tag language.Tag, key string, m ...catalog.Message) {
		if err := b.Set(tag, key, m...); err != nil {
			panic(fmt.Sprintf("web: the text %q: %v", key, err))
		}
	}
	for key, forms := range english {
		set(language.English, key, plural.Selectf(1, "%d", plural.One, forms[0], plural.Other, forms[1]))
	}
	for key, text := range chinese {
		set(language.SimplifiedChinese, key, catalog.String(text))
	}
	return b
}

// languageOf is the language of a reader: the one of the cookie, or the best of the header Accept-Language.
func languageOf(cookie, accepted string) language.Tag {
	asked, _, err := language.ParseAcceptLanguage(accepted)
	if err != nil {
		asked = nil
	}
	if tag, err := language.Parse(cookie); err == nil {
		asked = slices.Insert(asked, 0, tag)
	}
	_, i, _ := matcher.Match(asked...)
	return languages[i]
}

// printer writes texts in one language.
type printer struct {
	tag language.Tag
	out *message.Printer
}

func newPrinter(tag language.Tag) printer {
	return printer{tag, message.NewPrinter(tag, message.Catalog(texts))}
}

// T is a text in the reader's language, with its arguments in the places of %s and %d. The text is HTML as it stands
// in the source. Arguments are escaped, but for template.HTML.
func (p printer) T(text string, args ...any) template.HTML { return p.translated(text, args...) }

// translated does what T does, for texts that a table has. A test finds those of T and of tables.
func (p printer) translated(text string, args ...any) template.HTML {
	safe := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case template.HTML:
			safe[i] = string(arg)
		case int, int64, float64:
			safe[i] = arg
		default:
			safe[i] = template.HTMLEscapeString(fmt.Sprint(arg))
		}
	}
	return template.HTML(p.out.Sprintf(text, safe...)) //nolint:gosec // the text is ours, and the arguments are escaped
}

// Num is a whole number with separators.
func (p printer) Num(n any) string { return p.out.Sprintf("%d", n) }

// List is texts one after another.
func (p printer) List(texts []string) string { return strings.Join(texts, string(p.T(", "))) }

// Words are those that page.js writes, in its order: what stands for "%s" there is put in later.
func (p printer) Words() string {
	const gap = "%s"
	words := []template.HTML{
		p.T("in %s", gap), p.T("%s ago", gap), p.T("%s s", gap), p.T("%s min", gap), p.T("%s h", gap), p.T("%s d", gap),
		p.T("Live"), p.T("Reconnecting"), p.T("Not live"), p.T("Redis does not answer"), p.T("%s waiting", gap),
		p.T("Copied"), p.T("Press Ctrl-C"), p.T("Theme: %s", gap), p.T("All below is of %s.", gap),
		p.T("now"),
	}
	var all strings.Builder
	for i, word := range words {
		if i > 0 {
			all.WriteByte('|')
		}
		all.WriteString(string(word))
	}
	return all.String()
}
