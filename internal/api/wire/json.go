package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Encode returns v as JSON. Unlike json.Marshal it does not escape the characters <, > and &: a payload would differ
// from the same one submitted otherwise.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("writing JSON: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// PlainSigns returns JSON with the same meaning, in which &, < and > stand as they are and not as \u0026, \u003c and
// \u003e: some programs that write JSON escape them, for pages in HTML.
func PlainSigns(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(`\u00`)) {
		return raw
	}
	return escape.ReplaceAllFunc(raw, func(found []byte) []byte {
		if sign, ok := plainSigns[strings.ToLower(string(found))]; ok {
			return []byte(sign)
		}
		return found
	})
}

// escape is what begins with a backslash in a string of JSON.
var escape = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|.)`)

var plainSigns = map[string]string{`\u0026`: "&", `\u003c`: "<", `\u003e`: ">"}
