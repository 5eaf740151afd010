package edge

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
)

var (
	loopback = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	anywhere = &net.TCPAddr{IP: net.IPv6zero, Port: 8080}
)

func TestGuard_KnowsNamesOfItsListener(t *testing.T) {
	t.Parallel()
	own := []string{
		"localhost", "LOCALHOST:1", "localhost.:8080", "127.0.0.1", "127.0.0.1:8080", "127.9.9.9",
		"[::1]:8080", "[::1]", "[::ffff:127.0.0.1]:1", "",
	}
	foreign := []string{
		"attacker.example:8080", "attacker.example", "localhost.attacker.example", "127.0.0.1.attacker.example:80",
		"xlocalhost", "a.localhost", "localhost:8080@attacker.example", "attacker.example:8080:localhost",
		"[attacker.example]", ".", "localhost..",
	}
	addresses := []string{"192.0.2.1:8080", "0.0.0.0:8080", "[2001:db8::1]:80"}
	proxy := []string{"dts.example.com", "DTS.example.com.:443"}
	for name, c := range map[string]struct {
		guard          Guard
		known, refused [][]string
	}{
		"loopback": {
			NewGuard(loopback, "127.0.0.1:8080", nil),
			[][]string{own}, [][]string{foreign, addresses, proxy},
		},
		"loopback of ::1": {
			NewGuard(&net.TCPAddr{IP: net.IPv6loopback}, "[::1]:0", nil),
			[][]string{own}, [][]string{foreign, addresses},
		},
		"loopback by a name": {
			NewGuard(loopback, "dts.example.com:8080", nil),
			[][]string{own, proxy}, [][]string{foreign},
		},
		"loopback behind a proxy": {
			NewGuard(loopback, "127.0.0.1:8080", []string{"DTS.example.com."}),
			[][]string{own, proxy}, [][]string{foreign, addresses},
		},
		"all addresses": {
			NewGuard(anywhere, ":8080", nil),
			[][]string{own, foreign, addresses, proxy}, nil,
		},
		"all addresses, one name": {
			NewGuard(anywhere, ":8080", []string{"dts.example.com"}),
			[][]string{own, addresses, proxy}, [][]string{foreign},
		},
		"none, as of other tests": {Guard{}, [][]string{own, foreign, addresses, proxy}, nil},
		"one name that others add": {
			NewGuard(anywhere, "dts.example.com:80", []string{"a"}),
			[][]string{own, addresses}, [][]string{foreign, proxy},
		},
	} {
		for want, groups := range map[bool][][]string{true: c.known, false: c.refused} {
			for _, group := range groups {
				for _, host := range group {
					if got := c.guard.knows(nameOf(host)); got != want {
						t.Errorf("%s: %q is known: %v, want %v", name, host, got, want)
					}
				}
			}
		}
	}
}

// A page whose name points to 127.0.0.1 is of the same origin as the server, so only the Host header tells.
func TestGuard_RefusesReboundNames(t *testing.T) {
	t.Parallel()
	r := startRig(t, nil, func(o *Options) { o.Guard = NewGuard(loopback, "127.0.0.1:8080", nil) })
	r.server.Mount("/mounted", http.NotFoundHandler())
	const host = "attacker.example:8080"
	paths := []string{"/small", "/body", "/mounted", "/mounted/", "/mounted/a", "/nothing", "/"}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		for _, path := range paths {
			req := httptest.NewRequestWithContext(t.Context(), method, "http://"+host+path, nil)
			req.Header.Set("Origin", "http://"+host)
			req.Header.Set("Sec-Fetch-Site", "same-origin")
			got := httptest.NewRecorder()
			r.server.Echo().ServeHTTP(got, req)
			if got.Code != http.StatusForbidden {
				t.Errorf("%s %s: %d %s", method, path, got.Code, got.Body)
			}
		}
	}
	p := r.call("POST", "/body", "a", "Host", host).problem(t)
	helps := strings.Contains(p.Detail, host) && strings.Contains(p.Detail, "allowed-hosts")
	if p.Code != "host_not_allowed" || p.Field != "Host" || !helps {
		t.Errorf("got %+v", p)
	}
	if got := r.call("POST", "/body", "a", "Host", "LOCALHOST.:1"); got.status != http.StatusCreated {
		t.Errorf("its own name: %d %s", got.status, got.body)
	}
}

func TestGuard_RefusesReadsOfOtherPages(t *testing.T) {
	t.Parallel()
	r := startRig(t, nil)
	r.server.SetPolicy(Policy{Costly: true}, "/large")
	link := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	for name, c := range map[string]struct {
		path    string
		headers []string
		refused bool
	}{
		"an image": {
			"/small",
			[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, true,
		},
		"a script of a sibling": {
			"/small", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"}, true,
		},
		"a script of an old browser": {"/small", []string{"Origin", "https://evil.example"}, true},
		"a script without an origin": {"/small", []string{"Origin", "null"}, true},
		"a frame": {
			"/small",
			[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, true,
		},
		"a link":                   {"/small", link, false},
		"a link to what is costly": {"/large", link, true},
		"typed by the user": {
			"/large", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}, false,
		},
		"its own page": {
			"/large", []string{"Sec-Fetch-Site", "same-origin", "Origin", r.url}, false,
		},
		"its own page, an old browser": {"/large", []string{"Origin", r.url}, false},
		"a program":                    {"/large", nil, false},
		"a document for another page": {
			"/small", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"}, true,
		},
		"what is not there, from there": {
			"/nothing", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"}, true,
		},
	} {
		got := r.call("GET", c.path, "", c.headers...)
		if refused := got.status == http.StatusForbidden; refused != c.refused {
			t.Errorf("%s: %d %s, want it refused: %v", name, got.status, got.body, c.refused)
		}
	}
}

func TestGuard_WrapsOtherHandlers(t *testing.T) {
	t.Parallel()
	profile := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "profile") })
	h := NewGuard(loopback, "127.0.0.1:6060", nil).Wrap(profile)
	for name, c := range map[string]struct {
		host, site string
		status     int
	}{
		"own":          {"localhost:6060", "", http.StatusOK},
		"rebound":      {"attacker.example:6060", "same-origin", http.StatusForbidden},
		"other origin": {"127.0.0.1:6060", "cross-site", http.StatusForbidden},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/pprof/profile", nil)
		req.Host = c.host
		req.Header.Set("Sec-Fetch-Site", c.site)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != c.status || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v %s", name, w.Code, w.Header(), w.Body)
		}
	}
}

func TestServer_SetsSecurityHeaders(t *testing.T) {
	t.Parallel()
	stream := func(c echo.Context) error { _, err := openStream(c); return err }
	r := startRig(t, map[string]echo.HandlerFunc{"/stream": stream})
	page := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }
	r.server.Mount("/mounted", http.HandlerFunc(page))
	for _, path := range []string{"/small", "/body", "/nothing", "/mounted", "/mounted/x", "/stream"} {
		got := httptest.NewRecorder()
		r.server.Echo().ServeHTTP(got, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		h := got.Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Content-Security-Policy": "frame-ancestors 'none'",
			"Referrer-Policy": "same-origin",
		} {
			if got := h.Values(name); len(got) != 1 || got[0] != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
	}
}
