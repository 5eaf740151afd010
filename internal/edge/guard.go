package edge

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/task"
)

// hostLimit is how many bytes of a Host header a refusal quotes.
const hostLimit = 100

// Guard refuses what pages of other origins make a browser send: DTS may listen without tokens on a machine where
// somebody reads the web. The zero Guard answers to any name.
//
// A page can have its own name point to 127.0.0.1 for a moment (DNS rebinding). Its requests are of the same origin
// then, but their Host header is the name of the page. So a server that only this machine can reach answers to names
// that it knows.
type Guard struct {
	local bool     // the listener has a loopback address
	names []string // known besides, in lower case and without the dot at the end
}

// NewGuard guards a listener at address; asked is what it was asked to listen at, host:port. allowed are names that it
// answers to. A loopback listener answers to localhost, loopback addresses and the name in asked besides. Any other
// answers to each name if allowed is empty; else to localhost and to all addresses besides, because an address cannot
// be rebound.
func NewGuard(address net.Addr, asked string, allowed []string) Guard {
	g := Guard{}
	for _, name := range allowed {
		g.names = append(g.names, plainName(name))
	}
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		g.local = true
		g.names = append(g.names, plainName(nameOf(asked)))
	}
	return g
}

// Wrap guards a handler that has no page to which others link.
func (g Guard) Wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setSecurityHeaders(w.Header())
		err := g.check(r, false)
		if err == nil {
			h.ServeHTTP(w, r)
			return
		}
		p := problemOf(err, rand.Text())
		w.Header().Set(echo.HeaderContentType, problemType)
		w.WriteHeader(p.Status)
		_ = json.NewEncoder(w).Encode(p) // who has gone needs no answer
	})
}

// setSecurityHeaders keeps browsers from guessing the type of an answer, from showing it inside another page, and from
// telling other sites where it was. Without a referrer at all, the forms of the monitor would be taken for those of
// another origin.
func setSecurityHeaders(h http.Header) {
	h.Set(echo.HeaderXContentTypeOptions, "nosniff")
	h.Set(echo.HeaderXFrameOptions, "DENY")
	h.Set(echo.HeaderContentSecurityPolicy, "frame-ancestors 'none'")
	h.Set(echo.HeaderReferrerPolicy, "same-origin")
}

var otherOrigins http.CrossOriginProtection

// check refuses requests of other origins, whatever their method, and those to a name that is not known. Following a
// link is allowed if linked says so. Errors: CodeCrossOrigin, CodeHostNotAllowed.
func (g Guard) check(r *http.Request, linked bool) error {
	if !g.knows(nameOf(r.Host)) {
		return &task.Error{Code: CodeHostNotAllowed, Field: "Host", Message: fmt.Sprintf("%q is no name of this server: "+
			"send the request to localhost, to its address, or to a name in its setting allowed-hosts",
			task.Cut(r.Host, hostLimit))}
	}
	err := otherOrigins.Check(r)
	if err == nil && (!ofOtherPage(r) || linked && followsLink(r)) {
		return nil
	}
	return &task.Error{Code: CodeCrossOrigin, Err: err, Message: "the request comes from a page of another " +
		"origin. If it was sent to a reverse proxy, have that pass on the Host header that it got; if this server " +
		"listens at a loopback address, its setting allowed-hosts must name that host as well"}
}

// knows reports whether the server answers to a name. No name is that of an old client: every browser sends one.
func (g Guard) knows(name string) bool {
	if name == "" || !g.local && len(g.names) == 0 {
		return true
	}
	name = plainName(name)
	if ip, err := netip.ParseAddr(name); err == nil && (!g.local || ip.Unmap().IsLoopback()) {
		return true
	}
	return name == "localhost" || slices.Contains(g.names, name)
}

// nameOf is the name or the address in host or host:port.
func nameOf(host string) string {
	if name, port, err := net.SplitHostPort(host); err == nil && strings.Trim(port, "0123456789") == "" {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// plainName is a name in its one spelling.
func plainName(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

// ofOtherPage reports whether a page of another origin had a browser send a request, whatever its method. Browsers say
// so in Sec-Fetch-Site. Old browsers do not, and none does if the server is neither local nor has TLS: then Origin
// names the page whose script sends a request.
func ofOtherPage(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "none", "same-origin":
		return false
	case "":
		origin := r.Header.Get(echo.HeaderOrigin)
		u, err := url.Parse(origin)
		return origin != "" && (err != nil || !strings.EqualFold(u.Host, r.Host))
	}
	return true
}

// followsLink reports whether a user follows a link, so that the browser shows the answer as a page.
func followsLink(r *http.Request) bool {
	mode, dest := r.Header.Get("Sec-Fetch-Mode"), r.Header.Get("Sec-Fetch-Dest")
	return r.Method == http.MethodGet && mode == "navigate" && dest == "document"
}

// guardOrigin guards everything that the server serves.
func (s *Server) guardOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		setSecurityHeaders(c.Response().Header())
		if err := s.options.Guard.check(c.Request(), !s.policyOf(c).Costly); err != nil {
			return err
		}
		return next(c)
	}
}
