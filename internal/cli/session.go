package cli

import (
	"cmp"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
)

const (
	defaultServer  = "http://127.0.0.1:8080"
	defaultTimeout = 30 * time.Second

	// defaultStreamIdle is how long a stream may be silent. The server sends something every 15 s.
	defaultStreamIdle = 45 * time.Second
)

// Factory is what dtsctl gets from outside.
type Factory struct {
	In  io.Reader
	Out io.Writer // results
	Err io.Writer // everything that is said about them

	OutIsTerminal bool
	ErrIsTerminal bool
	Width         int // of Out's lines, in characters; 0: nobody knows

	Getenv func(string) string
	Now    func() time.Time
	Zone   *time.Location // of times that people read and write

	Version    string
	Transport  http.RoundTripper // nil means http.DefaultTransport
	StreamIdle time.Duration     // how long a stream may be silent before it counts as lost; 0 means 45 s
}

// session is one run of dtsctl.
type session struct {
	Factory
	server    string
	namespace string
	format    format
	timeout   time.Duration // of one request
	running   bool          // the command line was understood
}

// serverURL is the address of the server: the flag's, else the environment's, else the default.
func (s *session) serverURL() string {
	return cmp.Or(s.server, s.Getenv("DTSCTL_SERVER"), defaultServer)
}

// namespaceParam is the namespace as requests take it: nil leaves the choice to the server.
func (s *session) namespaceParam() *string {
	if name := cmp.Or(s.namespace, s.Getenv("DTSCTL_NAMESPACE")); name != "" {
		return &name
	}
	return nil
}

// calls is the client for requests that are answered at once.
func (s *session) calls() (*client.ClientWithResponses, error) {
	c, err := s.client(&http.Client{Transport: s.Transport, Timeout: s.timeout})
	return &client.ClientWithResponses{ClientInterface: c}, err
}

// streams is the client for requests whose answer has no end of its own.
func (s *session) streams() (*client.Client, error) {
	return s.client(&http.Client{Transport: s.Transport})
}

func (s *session) client(h *http.Client) (*client.Client, error) {
	address := s.serverURL()
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, usagef("--server: %q is not the address of a server, such as %s", s.serverURL(), defaultServer)
	}
	return client.NewClient(address, client.WithHTTPClient(h), client.WithRequestEditorFn(s.introduce))
}
