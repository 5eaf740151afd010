// Package server talks to the DTS server that the command line names: it makes the client, reads answers, turns a "no"
// into an error, joins the pages of a list and follows streams.
package server

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
)

// What counts if nobody says otherwise.
const (
	DefaultAddress = "http://127.0.0.1:8080"
	DefaultTimeout = 30 * time.Second

	defaultStreamIdle = 45 * time.Second // the server sends something every 15 s
)

// Config says which server is meant and how to talk to it.
type Config struct {
	Address   string        // of --server
	Namespace string        // of --namespace
	Timeout   time.Duration // of one request; of a stream until it begins

	Getenv     func(string) string
	Version    string            // of dtsctl, for the header User-Agent
	Transport  http.RoundTripper // nil means http.DefaultTransport
	StreamIdle time.Duration     // how long a stream may be silent before it counts as lost; 0 means 45 s
}

// URL returns the address of the server: the flag's, else that of the environment, else the default.
func (c *Config) URL() string {
	return cmp.Or(c.Address, c.Getenv("DTSCTL_SERVER"), DefaultAddress)
}

// NamespaceName returns the namespace of the flag, else that of the environment, else "".
func (c *Config) NamespaceName() string {
	return cmp.Or(c.Namespace, c.Getenv("DTSCTL_NAMESPACE"))
}

// Client is a client of the server. The embedded one is for requests that are answered at once.
type Client struct {
	*client.ClientWithResponses

	Streams   *client.Client // for requests whose answer is a stream
	Namespace *string        // of all requests; nil leaves the choice to the server
	Address   string         // of the server, as the user named it

	timeout, idle time.Duration
}

// NewClient returns a client of the server. Its error is an *InvalidAddress.
func (c *Config) NewClient() (*Client, error) {
	calls, err := c.generated(&http.Client{Transport: c.Transport, Timeout: c.Timeout})
	if err != nil {
		return nil, err
	}
	streams, err := c.generated(&http.Client{Transport: c.Transport})
	if err != nil {
		return nil, err
	}
	return &Client{
		ClientWithResponses: &client.ClientWithResponses{ClientInterface: calls}, Streams: streams,
		Namespace: optional(c.NamespaceName()), Address: c.URL(),
		timeout: c.Timeout, idle: cmp.Or(c.StreamIdle, defaultStreamIdle),
	}, nil
}

func (c *Config) generated(doer *http.Client) (*client.Client, error) {
	address := c.URL()
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, &InvalidAddress{c.URL()}
	}
	return client.NewClient(address, client.WithHTTPClient(doer), client.WithRequestEditorFn(c.setUserAgent))
}

func (c *Config) setUserAgent(_ context.Context, r *http.Request) error {
	r.Header.Set("User-Agent", "dtsctl/"+c.Version)
	return nil
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
