package apidocs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// server is the variable of the shell that examples have for the address of a node.
const server = "$DTS"

// curl is a command that calls an operation, with what it requires and the example of its body.
func curl(method, path string, op *openapi3.Operation, parameters openapi3.Parameters) (string, error) {
	query := url.Values{}
	for _, p := range parameters {
		switch p := p.Value; {
		case p.In == openapi3.ParameterInPath:
			path = strings.ReplaceAll(path, "{"+p.Name+"}", exampleOf(p))
		case p.In == openapi3.ParameterInQuery && p.Required:
			query.Set(p.Name, exampleOf(p))
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	command := "curl "
	if streams(op) {
		command += "-N "
	}
	if method != http.MethodGet && op.RequestBody == nil || method != http.MethodGet && method != http.MethodPost {
		command += "-X " + method + " "
	}
	command += `"` + server + path + `"`
	if op.RequestBody == nil {
		return command, nil
	}
	body, err := compact(op.RequestBody.Value.Content.Get("application/json").Example)
	if err != nil {
		return "", err
	}
	return command + " \\\n  -H 'Content-Type: application/json' \\\n  -d " + quoted(body), nil
}

// streams reports whether an answer goes on for as long as its client reads.
func streams(op *openapi3.Operation) bool {
	ok := op.Responses.Status(http.StatusOK)
	return ok != nil && ok.Value.Content.Get("text/event-stream") != nil
}

// exampleOf is a value for a parameter: the one in the document, or its name in capitals.
func exampleOf(p *openapi3.Parameter) string {
	for _, v := range []any{p.Example, p.Schema.Value.Example} {
		if text := valueText(v); text != "" {
			return text
		}
	}
	return strings.ToUpper(p.Name)
}

func compact(v any) (string, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("the example of the body: %w", err)
	}
	return strings.TrimSpace(text.String()), nil
}

// quoted writes a word of the shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
