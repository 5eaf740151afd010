package web

import (
	"bytes"
	"encoding/json"
	"html/template"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
)

// payloadField is a member of the payloads of a type, as a form asks for it.
type payloadField struct {
	Name  string // of the member
	Label template.HTML
	Hint  template.HTML
	Kind  fieldKind
	More  bool // few need it
}

// asked is the field in a form.
func (f payloadField) asked(required bool) formField {
	return formField{
		Name: payloadPrefix + f.Name, Label: f.Label, Hint: f.Hint, Long: f.Kind.Long(),
		Check: f.Kind == yesOrNo || f.Kind == keyOrNot,
		Wide:  required || f.Kind.Long(), Required: required && !f.Kind.Long(),
	}
}

// fieldKind is how the text of a field becomes a member of a payload.
type fieldKind int

const (
	aText     fieldKind = iota // a string
	aLongText                  // a string of lines
	aList                      // a list of strings, one a line or as JSON
	someWords                  // a list of strings, separated by commas
	someCodes                  // a list of numbers and ranges, separated by commas
	aNumber
	yesOrNo
	keyOrNot      // the text "key", or nothing
	someHeaders   // an object of strings: Name: value, one a line
	someVariables // an object of strings: NAME=value, one a line
	anyJSON
	aBody // JSON, or a string if it is none
)

// separators are between the names and the values of objects of strings.
var separators = map[fieldKind]string{someHeaders: ":", someVariables: "="}

// Long reports whether the field has several lines.
func (k fieldKind) Long() bool {
	return slices.Contains([]fieldKind{aLongText, aList, someHeaders, someVariables, anyJSON, aBody}, k)
}

// payloadFields are the fields of the types that every dtsd has. docs/executors.md describes them.
func (v *visit) payloadFields(typeName string) []payloadField {
	switch typeName {
	case "http":
		return []payloadField{
			{"url", v.T("URL"), "https://example.com/hook", aText, false},
			{"method", v.T("Method"), "POST", aText, false},
			{"headers", v.T("Headers"), v.T("Name: value, one a line"), someHeaders, false},
			{"body", v.T("Body"), v.T("JSON, or any text"), aBody, false},
			{"success_codes", v.T("Statuses that are a success"), "200-299", someCodes, true},
			{"retry_codes", v.T("4xx statuses that are tried again"), "404, 423", someCodes, true},
			{"expect", v.T("What the answer must be like"), `{"contains": "ok"}`, anyJSON, true},
			{"accept", v.T("What happens after 202"), `{"poll": "1s"}`, anyJSON, true},
			{"pause", v.T("A 429 with Retry-After pauses its limit keys"), "", keyOrNot, true},
			{"tls", v.T("Certificates"), `{"server_name": "example.com"}`, anyJSON, true},
		}
	case "shell":
		return []payloadField{
			{"command", v.T("Command"), "echo\nhello world", aList, false},
			{"env", v.T("Environment"), v.T("NAME=value, one a line"), someVariables, false},
			{"dir", v.T("Directory"), "/srv/reports", aText, false},
			{"stdin", v.T("Standard input"), "", aLongText, true},
			{"user", v.T("User"), "", aText, true},
			{"final_exit_codes", v.T("Exit codes after which it is not tried again"), "2, 64", someCodes, true},
			{"limits", v.T("Limits"), `{"memory": "512MiB", "cpu_time": "1m30s"}`, anyJSON, true},
		}
	case "grpc":
		return []payloadField{
			{"target", v.T("Server"), "localhost:50051", aText, false},
			{"method", v.T("Method"), "package.Service/Method", aText, false},
			{"request", v.T("Request"), `{"name": "world"}`, anyJSON, false},
			{"metadata", v.T("Metadata"), v.T("Name: value, one a line"), someHeaders, true},
			{"tls", v.T("Encryption"), `{}`, anyJSON, true},
			{"retry_codes", v.T("Status codes that are tried again"), "NOT_FOUND", someWords, true},
			{"descriptor_file", v.T("Descriptor file"), "", aText, true},
		}
	case "asynq":
		return []payloadField{
			{"type", v.T("Type of the asynq task"), "email:deliver", aText, false},
			{"queue", v.T("Queue of asynq"), "default", aText, false},
			{"payload", v.T("Payload"), `{"user_id": 42}`, anyJSON, false},
			{"headers", v.T("Headers"), v.T("Name: value, one a line"), someHeaders, true},
			{"max_retry", v.T("How often asynq tries again"), "0", aNumber, true},
			{"timeout", v.T("Timeout of the handler"), "30s", aText, true},
			{"retention", v.T("How long asynq keeps it"), "24h", aText, true},
			{"archived_is_final", v.T("What asynq archives has failed for good"), "", yesOrNo, true},
		}
	case "noop":
		return []payloadField{
			{"sleep", v.T("How long an attempt takes"), "10ms", aText, false},
			{"fail", v.T("The error with which it fails"), "", aText, false},
		}
	}
	return nil
}

// formTypes are the types of payloadFields.
var formTypes = []string{"http", "shell", "grpc", "asynq", "noop"}

// payloadPrefix is before the names of fields of a payload in a form, as in errors.
const payloadPrefix = "payload."

// payloadOf makes a payload of what was typed into the fields; those that are empty are left out. Error: CodeInvalid.
func (v *visit) payloadOf(fields []payloadField, typed func(name string) string) (json.RawMessage, error) {
	object := map[string]any{}
	for _, f := range fields {
		text := strings.ReplaceAll(typed(payloadPrefix+f.Name), "\r\n", "\n")
		if strings.TrimSpace(text) == "" {
			continue
		}
		value, err := f.read(v, text)
		if err != nil {
			return nil, err
		}
		object[f.Name] = value
	}
	return json.Marshal(object)
}

// read makes a member of what was typed. Error: CodeInvalid.
func (f payloadField) read(v *visit, text string) (any, error) {
	switch f.Kind {
	case aText:
		return strings.TrimSpace(text), nil
	case aList:
		return f.linesOf(v, text)
	case someWords:
		return wordsOf(text), nil
	case someCodes:
		return codesOf(text), nil
	case aNumber:
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return nil, v.invalid(payloadPrefix+f.Name, v.T("must be a whole number"))
		}
		return n, nil
	case yesOrNo:
		return true, nil
	case keyOrNot:
		return "key", nil
	case someHeaders, someVariables:
		return f.pairsOf(v, text)
	case anyJSON:
		if !json.Valid([]byte(text)) {
			return nil, v.invalid(payloadPrefix+f.Name, v.T("is not valid JSON"))
		}
		return json.RawMessage(text), nil
	case aBody:
		return bodyOf(text), nil
	}
	return text, nil
}

// bodyOf is a body that is an object or a list in JSON, or else the text itself.
func bodyOf(text string) any {
	start := strings.TrimLeft(text, " \t\n")
	if (strings.HasPrefix(start, "{") || strings.HasPrefix(start, "[")) && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

// linesOf is a list with each line, or the list that the text is as JSON. One line with blanks is mostly meant as
// several. Error: CodeInvalid.
func (f payloadField) linesOf(v *visit, text string) ([]string, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		var words []string
		if json.Unmarshal([]byte(text), &words) != nil {
			return nil, v.invalid(payloadPrefix+f.Name,
				v.T("begins with [, and is no list of texts in JSON, such as %s", `["sleep", "1"]`))
		}
		return words, nil
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) == 1 && strings.ContainsAny(strings.TrimSpace(text), " \t") {
		payload, _ := wire.Encode(map[string][]string{f.Name: {task.Cut(strings.TrimSpace(text), 80)}}) // of texts
		return nil, v.invalid(payloadPrefix+f.Name, v.T("is one line with blanks: "+
			"write each argument on a line of its own. "+
			"If all of it is the name of a program, write the payload as JSON: %s", string(payload)))
	}
	return lines, nil
}

// codesOf are codes as numbers, and ranges as they are.
func codesOf(text string) []any {
	var codes []any
	for _, word := range wordsOf(text) {
		if n, err := strconv.Atoi(word); err == nil {
			codes = append(codes, n)
		} else {
			codes = append(codes, word)
		}
	}
	return codes
}

// pairsOf is an object of strings, a name and a value a line. Error: CodeInvalid.
func (f payloadField) pairsOf(v *visit, text string) (map[string]string, error) {
	pairs, wrong := v.pairsOf(text, separators[f.Kind])
	if wrong != "" {
		return nil, v.invalid(payloadPrefix+f.Name, wrong)
	}
	if f.Kind == someHeaders {
		for name, value := range pairs {
			pairs[name] = strings.TrimSpace(value)
		}
	}
	return pairs, nil
}

// typedAs is what would have to be typed into the fields for a payload, by their names in the form. known is false if a
// form cannot have it.
func (v *visit) typedAs(fields []payloadField, payload json.RawMessage) (typed map[string]string, known bool) {
	var object map[string]json.RawMessage
	if json.Unmarshal(payload, &object) != nil {
		return nil, false
	}
	typed = map[string]string{}
	for _, f := range fields {
		if value, has := object[f.Name]; has {
			typed[payloadPrefix+f.Name] = f.text(value)
		}
	}
	again, err := v.payloadOf(fields, func(name string) string { return typed[name] })
	return typed, err == nil && sameJSON(again, payload)
}

// text is what would have to be typed for a member, if the form can have it.
func (f payloadField) text(value json.RawMessage) string {
	var words []any
	var pairs map[string]string
	var text string
	switch {
	case f.Kind == anyJSON:
		return pretty(value)
	case json.Unmarshal(value, &text) == nil:
		return text
	case json.Unmarshal(value, &pairs) == nil && separators[f.Kind] != "":
		return textOf(pairs, separators[f.Kind])
	case f.Kind == aBody:
		return pretty(value)
	case json.Unmarshal(value, &words) == nil && f.Kind == aList:
		return joined(words, "\n")
	case json.Unmarshal(value, &words) == nil:
		return joined(words, ", ")
	}
	return string(value)
}

// textOf is an object of strings as it is typed.
func textOf(pairs map[string]string, separator string) string {
	var lines []string
	if separator == ":" {
		separator = ": "
	}
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		lines = append(lines, name+separator+pairs[name])
	}
	return strings.Join(lines, "\n")
}

func joined(words []any, separator string) string {
	texts := make([]string, len(words))
	for i, word := range words {
		switch word := word.(type) {
		case string:
			texts[i] = word
		case float64:
			texts[i] = strconv.FormatFloat(word, 'f', -1, 64)
		}
	}
	return strings.Join(texts, separator)
}

// sameJSON reports whether two texts have the same content.
func sameJSON(a, b json.RawMessage) bool {
	read := func(text json.RawMessage) (value any) {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		_ = d.Decode(&value)
		return value
	}
	return reflect.DeepEqual(read(a), read(b))
}
