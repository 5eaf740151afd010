package httpexec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/certs"
)

// call is the payload of an http task: {method?, url, headers?, body?, success_codes?, retry_codes?, expect?,
// accept?, pause?, tls?}.
type call struct {
	method string
	url    *url.URL
	host   string // the Host header, if it is not the URL's
	header http.Header
	key    string // the payload's own idempotency key; "" for none
	body   []byte
	codes  codeRanges // of success
	again  codeRanges // that are tried again, besides those that always are
	expect *expect    // nil for any answer
	accept *accept    // nil if 202 is an answer as any other
	pause  bool       // a 429 with Retry-After pauses the limits of the task's keys
	tls    certs.Wanted
}

// codeRange is a range of status codes, including both ends.
type codeRange struct{ from, to int }

type codeRanges []codeRange

func (r codeRanges) contain(status int) bool {
	return slices.ContainsFunc(r, func(c codeRange) bool { return c.from <= status && status <= c.to })
}

// tryAgain reports whether another attempt may succeed after an answer with that status. Most codes of 400 to 499 say that the request
// itself is wrong; those that do not are listed in RFC 9110 (408, 409), RFC 8470 (425) and RFC 6585 (429).
func (c *call) tryAgain(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status < 400 || status > 499 || c.again.contain(status)
}

// pauseKey is the value of pause with which a 429 pauses the limits of the task's keys.
const pauseKey = "key"

// parseCall reads a payload. Error: *executor.InvalidPayloadError.
func parseCall(payload json.RawMessage) (*call, error) {
	var method, target, pause string
	var headers map[string]string
	var body json.RawMessage
	var codes, again []json.RawMessage
	var expected, accepted, secured json.RawMessage
	err := executor.DecodePayload(payload, map[string]executor.Field{
		"method":        {Into: &method, Want: "a string"},
		"url":           {Into: &target, Want: "a string"},
		"headers":       {Into: &headers, Want: "an object of strings"},
		"body":          {Into: &body, Want: "JSON"},
		"success_codes": {Into: &codes, Want: "a list of status codes and ranges"},
		"retry_codes":   {Into: &again, Want: "a list of status codes and ranges"},
		"expect":        {Into: &expected, Want: "an object"},
		"accept":        {Into: &accepted, Want: "an object"},
		"pause":         {Into: &pause, Want: "a string"},
		"tls":           {Into: &secured, Want: "an object"},
	})
	if err != nil {
		return nil, err
	}
	if pause != "" && pause != pauseKey {
		return nil, executor.Invalid("pause", "%.40q must be %s, or left out", pause, pauseKey)
	}
	c := &call{pause: pause == pauseKey}
	if err := c.setMethod(method); err != nil {
		return nil, err
	}
	if err := c.setURL(target); err != nil {
		return nil, err
	}
	if err := c.setTLS(secured); err != nil {
		return nil, err
	}
	if err := c.setHeaders(headers); err != nil {
		return nil, err
	}
	if err := c.setBody(body); err != nil {
		return nil, err
	}
	if err := c.setCodes(codes); err != nil {
		return nil, err
	}
	if c.again, err = parseRanges("retry_codes", again); err != nil {
		return nil, err
	}
	if c.expect, err = parseExpect(expected); err != nil {
		return nil, err
	}
	if c.accept, err = parseAccept(accepted); err != nil {
		return nil, err
	}
	return c, nil
}

// methods are those that a call may have: those of HTTP (RFC 9110, RFC 5789), PURGE of caches, and of WebDAV (RFC
// 4918) what makes folders, moves and lists. Servers of other protocols read the beginning of a request as a command
// of theirs: so no others, and none that such a command has the name of, as COPY of Redis.
var methods = []string{
	http.MethodDelete, http.MethodGet, http.MethodHead, "MKCOL", "MOVE", http.MethodOptions, http.MethodPatch,
	http.MethodPost, "PROPFIND", "PURGE", http.MethodPut,
}

func (c *call) setMethod(method string) error {
	c.method = cmp.Or(strings.ToUpper(method), http.MethodPost)
	if !slices.Contains(methods, c.method) {
		return executor.Invalid("method", "%q is not supported: must be one of %s", method, strings.Join(methods, ", "))
	}
	return nil
}

func (c *call) setURL(target string) (err error) {
	if target == "" {
		return executor.Invalid("url", "is missing")
	}
	c.url, err = parseURL("url", target)
	return err
}

// reservedHeaders cannot be set by the payload: those that name the attempt, so that receivers can trust them, and those
// that net/http sets to describe the message.
var reservedHeaders = map[string]bool{
	"Dts-Task-Id": true, "Dts-Attempt": true, "Dts-Namespace": true, "Dts-Tick": true,
	parentIDHeader: true, parentStateHeader: true, parentAttemptHeader: true,
	checkpointHeader: true, checkpointBytesHeader: true, tokenHeader: true, callbackHeader: true, reportHeader: true,
	"Content-Length": true, "Transfer-Encoding": true, "Trailer": true, "Connection": true, "Upgrade": true,
}

func (c *call) setHeaders(headers map[string]string) error {
	c.header = make(http.Header, len(headers)+7)
	for name, value := range headers {
		key := http.CanonicalHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return executor.Invalid("headers", "%q is not the name of a header", name)
		case !httpguts.ValidHeaderFieldValue(value):
			return executor.Invalid("headers", "the value of %s has characters that headers cannot have", name)
		case reservedHeaders[key]:
			return executor.Invalid("headers", "%s is set by DTS", key)
		case c.header[key] != nil:
			return executor.Invalid("headers", "%s is given twice", key)
		case key == "Host" && !httpguts.ValidHostHeader(value):
			return executor.Invalid("headers", "%q is not a host name", value)
		case key == "Host":
			c.host = value
		case key == "Idempotency-Key" && c.key != "":
			return executor.Invalid("headers", "%s is given twice", key)
		case key == "Idempotency-Key":
			c.key = value
		case key == "X-Idempotency-Key": // see idempotencyKey
			c.header[strings.ToLower(key)] = []string{value}
		default:
			c.header[key] = []string{value}
		}
	}
	c.setEncoding()
	return nil
}

// setEncoding leaves Accept-Encoding to net/http, which asks for what it decodes, but only if the header is not set. The
// payload may ask for an answer that is not encoded.
func (c *call) setEncoding() {
	if asked := c.header.Get("Accept-Encoding"); !strings.EqualFold(strings.TrimSpace(asked), "identity") {
		c.header.Del("Accept-Encoding")
	}
}

// setBody sets the body to send: the text of a JSON string, or any other JSON as it is.
func (c *call) setBody(body json.RawMessage) error {
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0 || string(body) == "null":
		return nil
	case body[0] == '"':
		var text string
		if err := json.Unmarshal(body, &text); err != nil {
			return executor.Invalid("body", "is not valid JSON")
		}
		c.body = []byte(text)
		return nil
	}
	c.body = body
	if c.header.Get("Content-Type") == "" {
		c.header.Set("Content-Type", "application/json")
	}
	return nil
}

func (c *call) setCodes(codes []json.RawMessage) (err error) {
	switch {
	case codes == nil:
		c.codes = codeRanges{{200, 299}}
		return nil
	case len(codes) == 0:
		return executor.Invalid("success_codes", "is empty: no answer would be a success")
	}
	c.codes, err = parseRanges("success_codes", codes)
	return err
}

func parseRanges(field string, codes []json.RawMessage) (codeRanges, error) {
	var ranges codeRanges
	for i, raw := range codes {
		r, err := parseCodes(raw)
		if err != nil || r.from < 200 || r.to > 599 || r.from > r.to {
			return nil, executor.Invalid(fmt.Sprintf("%s[%d]", field, i),
				`%.40s must be a status code from 200 to 599, or a range of them like "200-299"`, string(raw))
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

// parseCodes reads 200, "200" or "200-299".
func parseCodes(raw json.RawMessage) (codeRange, error) {
	var code int
	if err := json.Unmarshal(raw, &code); err == nil {
		return codeRange{code, code}, nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return codeRange{}, err
	}
	first, last, ranged := strings.Cut(text, "-")
	from, err := strconv.Atoi(first)
	if err != nil || !ranged {
		return codeRange{from, from}, err
	}
	to, err := strconv.Atoi(last)
	return codeRange{from, to}, err
}
