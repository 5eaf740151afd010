package httpexec

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/worker/executor"
)

// parseURL reads a URL that a field of the payload has, without its fragment. Error: *executor.InvalidPayloadError.
func parseURL(field, text string) (*url.URL, error) {
	if strings.ContainsFunc(text, isControl) {
		return nil, executor.Invalid(field, "has a control character: write it as %%XX")
	}
	u, err := url.Parse(escape(text))
	if err != nil || !callable(u) {
		return nil, executor.Invalid(field, "must be an absolute http or https URL")
	}
	return u, nil
}

func callable(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// escape makes a URL, or a relative reference to one, of a text as people write it, without the fragment: what RFC
// 3986 does not allow in a path or a query is escaped, as browsers do, and what is escaped already stays. So is a % in
// a path that begins no escape; in a query, it stays. Control characters stay, and make it invalid.
func escape(text string) string {
	text, _, _ = strings.Cut(text, "#")
	host := hostEnd(text)
	path, _, _ := strings.Cut(text[host:], "?")
	var b strings.Builder
	b.WriteString(text[:host])
	for i, c := range []byte(text[host:]) {
		lone := c == '%' && i < len(path) && !isEscape(path[i+1:])
		if lone || c == ' ' || c > 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

const upperHex = "0123456789ABCDEF"

// isEscape reports whether what follows a % begins with two hexadecimal digits.
func isEscape(text string) bool {
	if len(text) < 2 {
		return false
	}
	_, err := strconv.ParseUint(text[:2], 16, 8)
	return err == nil
}

// hostEnd returns where the host of a URL ends; 0 if it names none.
func hostEnd(text string) int {
	start := strings.Index(text, "//")
	if start < 0 || strings.ContainsAny(text[:start], "/?") {
		return 0
	}
	if end := strings.IndexAny(text[start+2:], "/?"); end >= 0 {
		return start + 2 + end
	}
	return len(text)
}

// sameOrigin reports whether two URLs have the same scheme, host and port.
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

// keptElsewhere are the headers that follow a redirect to another origin: none in which a payload has a secret, and
// none with which one could report on the attempt.
var keptElsewhere = map[string]bool{
	"Accept": true, "Accept-Language": true, "User-Agent": true, idempotencyKey: true, "Traceparent": true,
	"Dts-Task-Id": true, "Dts-Attempt": true, "Dts-Namespace": true, "Dts-Tick": true,
	parentIDHeader: true, parentStateHeader: true, parentAttemptHeader: true,
}

// stays reports whether a request and all redirects that led to it have an origin. A request that has come back to it
// does not stay: another origin has said what is called.
func stays(req *http.Request, origin *url.URL) bool {
	for ; sameOrigin(req.URL, origin); req = req.Response.Request {
		if req.Response == nil {
			return true
		}
	}
	return false
}

// checkRedirect decides about a redirect. It is not followed if that would change the method, as a POST that silently
// became a GET would look like a success, or if another origin would get the body: then the redirect itself is the
// answer. Another origin gets no secrets.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	elsewhere := !stays(next, first.URL)
	switch {
	case next.Method != first.Method, elsewhere && next.Body != nil:
		return http.ErrUseLastResponse
	case len(via) > redirectsLimit:
		return fmt.Errorf("stopped after %d redirects", redirectsLimit)
	}
	for name := range next.Header {
		added := name == "Referer" && first.Header[name] == nil // by net/http, with the query
		if elsewhere && !keptElsewhere[name] || added {
			delete(next.Header, name)
		}
	}
	return nil
}
