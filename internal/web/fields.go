package web

import (
	"cmp"
	"errors"
	"html"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// What readers type into the fields of filters and forms.

// filterField is a field of the filter.
type filterField struct {
	Name  string // of the parameter
	Label template.HTML
	Value string
	Hint  string // an example
}

// hiddenField is a field that says what was shown, so that no more is done than that.
type hiddenField struct{ Name, Value string }

// timeParameter is the time that a parameter names: so long ago, or a time in the reader's zone. Error: CodeInvalid.
func (v *visit) timeParameter(name string) (time.Time, error) {
	return v.readTime(name, v.query.Get(name))
}

// readTime is the time that the text of a field names; zero for none. Error: CodeInvalid.
func (v *visit) readTime(name, text string) (time.Time, error) {
	if text = strings.TrimSpace(text); text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return v.now.Add(-ago), nil
	}
	if at, found := v.timeOf(text); found {
		return at, nil
	}
	return time.Time{}, v.invalid(name, v.T("give a duration, as in 2h, or a time, as in 2026-01-02 15:04"))
}

// timeOf is a time that was typed, in the reader's zone if it names none.
func (v *visit) timeOf(text string) (_ time.Time, found bool) {
	for _, form := range []string{
		time.RFC3339, "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02",
	} {
		if at, err := time.ParseInLocation(form, text, v.zone); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// durationOf is a duration that was typed; 0 for nothing. Error: CodeInvalid.
func (v *visit) durationOf(field, text string) (time.Duration, error) {
	d, err := task.ParseDuration(field, text)
	if err != nil {
		return 0, v.invalid(field, v.T("%s is not a duration such as 1m30s or 48h", quoted(text)))
	}
	return d, nil
}

// spanOf is durationOf for a field of which 0 is the default, so that nobody can ask for it.
func (v *visit) spanOf(field, text string) (time.Duration, error) {
	d, err := v.durationOf(field, text)
	if err == nil && text != "" && d == 0 {
		err = v.invalid(field, v.T("must be more than 0"))
	}
	return d, err
}

// labelOf is the label that a filter names; nil for none. Error: CodeInvalid.
func (v *visit) labelOf(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // nil is no label
	}
	name, value, found := strings.Cut(text, "=")
	if !found {
		return nil, v.invalid("label", v.T("give a name and a value, as in order=4711"))
	}
	return map[string]string{name: value}, nil
}

// pairsOf is names with their values, one pair a line; wrong says what is wrong with the text.
func (v *visit) pairsOf(text, separator string) (pairs map[string]string, wrong template.HTML) {
	pairs = map[string]string{}
	for line := range strings.Lines(strings.ReplaceAll(text, "\r\n", "\n")) {
		line = strings.TrimSuffix(line, "\n")
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, value, found := strings.Cut(line, separator)
		name = strings.TrimSpace(name)
		_, twice := pairs[name]
		switch {
		case !found:
			return nil, v.T("the line %s has no %s", quoted(line), quoted(separator))
		case twice:
			return nil, v.T("%s is there twice", quoted(name))
		}
		pairs[name] = value
	}
	return pairs, ""
}

func wordsOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
}

// invalid is the error for a field with text that is not valid, for the reader. Code: CodeInvalid.
func (p printer) invalid(field string, text template.HTML) *task.Error {
	return task.Invalid(field, "%s", html.UnescapeString(string(text))) // is escaped where it is shown
}

// fieldLabels are the labels of fields that a reader types into, by the names that the API has.
type fieldLabels map[string]template.HTML

// label notes the label of a field, for what is said of it.
func (v *visit) label(name string, text template.HTML) {
	if v.labels == nil {
		v.labels = fieldLabels{}
	}
	v.labels[name] = text
}

// named is what is wrong with a field, or with a part of it, with the field by its label instead of its name in the
// API.
func (v *visit) named(detail, field string) string {
	text, of := strings.CutPrefix(detail, field+": ")
	if !of || field == "" {
		return detail
	}
	for end := len(field); end > 0; end = strings.LastIndexAny(field[:end], ".[") {
		if label := cmp.Or(v.labels[field[:end]], v.fieldLabel(field[:end])); label != "" {
			if field == payloadPrefix+"command" && end == len(field) && strings.HasPrefix(text, "is missing") {
				text = string(v.T("is missing: write a program and its arguments, one a line"))
			}
			return html.UnescapeString(string(label+v.T(": "))) + part(field[end:]) + text
		}
	}
	return detail
}

// wrongIn is what is wrong with a field of the address.
func (v *visit) wrongIn(err error) string {
	var e *task.Error
	if errors.As(err, &e) {
		return v.named(e.Error(), e.Field)
	}
	return err.Error()
}

// part is the part of a field that a text is about; "" for all of it.
func part(rest string) string {
	if rest == "" {
		return ""
	}
	return strings.TrimPrefix(rest, ".") + ": "
}

// quoted is the begin of what was typed, in quotes.
func quoted(text string) string { return strconv.Quote(task.Cut(text, 40)) }

// problems are what is wrong with a form.
type problems struct{ first *task.Error }

func (p *problems) add(err error) {
	var e *task.Error
	if !errors.As(err, &e) {
		return
	}
	if p.first == nil {
		p.first = e
		return
	}
	p.first.Others = append(p.first.Others, e)
}

// err is nil if nothing is wrong.
func (p *problems) err() error {
	if p.first == nil {
		return nil
	}
	return p.first
}
