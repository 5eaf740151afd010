package flags

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/wire"
)

// HTTPCall is the flags that say how a task of type http calls its URL.
type HTTPCall struct {
	Method       string
	Headers      []string
	Data         *string
	SuccessCodes []string
	RetryCodes   []string
	Expect       *string
	PauseKeys    bool
	Certificate  Certificate
}

// HTTPCallNames are the names of the flags of HTTPCall.
var HTTPCallNames = append([]string{"method", "header", "data", "success-codes", "retry-codes", "expect", "pause-keys"}, certificateNames...)

// Bind adds the flags.
func (h *HTTPCall) Bind(f *pflag.FlagSet) {
	f.StringVarP(&h.Method, "method", "X", "", "the method of the call, as GET, PUT or DELETE (default POST)")
	f.StringArrayVarP(&h.Headers, "header", "H", nil, "a header of the call, as 'Name: value'; may be repeated")
	StringP(f, &h.Data, "data", "d", "the body of the call: a text, @FILE, or @- for standard input")
	f.StringSliceVar(&h.SuccessCodes, "success-codes", nil, "which statuses are a success, as 200,404 or 200-299")
	f.StringSliceVar(&h.RetryCodes, "retry-codes", nil, "which 4xx statuses are tried again, besides 408, 409, 425 and 429")
	String(f, &h.Expect, "expect", `what the answer must be like, as '{"contains": "ok"}'; @FILE, or @- for standard input`)
	f.BoolVar(&h.PauseKeys, "pause-keys", false, "an answer 429 with Retry-After pauses the limits of the task's --limit-key")
	h.Certificate.bind(f)
}

// httpPayload is what the http executor takes.
type httpPayload struct {
	Method       string            `json:"method,omitempty"`
	URL          string            `json:"url"`
	Headers      map[string]string `json:"headers,omitempty"`
	Body         json.RawMessage   `json:"body,omitempty"`
	SuccessCodes []any             `json:"success_codes,omitempty"`
	RetryCodes   []any             `json:"retry_codes,omitempty"`
	Expect       json.RawMessage   `json:"expect,omitempty"`
	Pause        string            `json:"pause,omitempty"`
	TLS          *tlsPayload       `json:"tls,omitempty"`
}

// Payload returns the payload of a task that calls the URL.
func (h *HTTPCall) Payload(stdin io.Reader, url string) (json.RawMessage, error) {
	headers, err := Pairs("--header", ":", h.Headers)
	if err != nil {
		return nil, err
	}
	for name, value := range headers {
		headers[name] = strings.TrimSpace(value)
	}
	p := httpPayload{Method: h.Method, URL: url, Headers: headers, SuccessCodes: codesOf(h.SuccessCodes), RetryCodes: codesOf(h.RetryCodes)}
	if h.PauseKeys {
		p.Pause = "key"
	}
	if p.Expect, err = JSON(stdin, "--expect", h.Expect); err != nil {
		return nil, err
	}
	if p.TLS, err = h.Certificate.payload(stdin); err != nil {
		return nil, err
	}
	if h.Data != nil {
		text, err := Text(stdin, "--data", *h.Data)
		if err != nil {
			return nil, err
		}
		if p.Body, err = httpBody(text); err != nil {
			return nil, err
		}
	}
	return wire.Encode(p)
}

// httpBody returns a body as the payload holds it: a JSON object or list as it is, anything else as a string.
func httpBody(text string) (json.RawMessage, error) {
	start := strings.TrimLeft(text, " \t\r\n")
	if (strings.HasPrefix(start, "{") || strings.HasPrefix(start, "[")) && json.Valid([]byte(text)) {
		return json.RawMessage(text), nil
	}
	return wire.Encode(text)
}

// codesOf returns codes as numbers, and ranges as they are. The server judges them.
func codesOf(texts []string) []any {
	var codes []any
	for _, text := range texts {
		if n, err := strconv.Atoi(text); err == nil {
			codes = append(codes, n)
			continue
		}
		codes = append(codes, text)
	}
	return codes
}
