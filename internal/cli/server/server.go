// Package server finds the DTS server that the command line or the environment names, and joins the pages of its lists.
package server

import (
	"cmp"
	"net/http"
	"time"

	"github.com/dts-sched/dts/internal/api/rest"
)

// Config says which server is meant and how to talk to it.
type Config struct {
	Address   string        // of --server
	Namespace string        // of --namespace
	Timeout   time.Duration // of one request; of a stream until it begins

	Getenv     func(string) string
	Version    string            // of dtsctl, for the header User-Agent
	Caller     string            // who uses it, as user@host
	Transport  http.RoundTripper // nil means http.DefaultTransport
	StreamIdle time.Duration     // how long a stream may be silent before it counts as lost; 0 means 45 s
}

// URL returns the address of the server: the flag's, else that of the environment, else the default.
func (c *Config) URL() string {
	return cmp.Or(c.Address, c.Getenv("DTSCTL_SERVER"), rest.DefaultAddress)
}

// NamespaceName returns the namespace of the flag, else that of the environment, else "".
func (c *Config) NamespaceName() string {
	return cmp.Or(c.Namespace, c.Getenv("DTSCTL_NAMESPACE"))
}

// NewClient returns a client of the server. Its error is a *rest.InvalidAddress.
func (c *Config) NewClient() (*rest.Client, error) {
	return rest.New(rest.Options{
		Address: c.URL(), Namespace: c.NamespaceName(), Timeout: c.Timeout, StreamIdle: c.StreamIdle,
		UserAgent: "dtsctl/" + c.Version, Caller: c.Caller, Transport: c.Transport,
	})
}
