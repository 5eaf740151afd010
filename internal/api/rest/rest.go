// Package rest calls the REST API of a server: it makes the client, reads answers, turns a "no" into an error, and follows
// streams across broken connections. dtsctl and the Go API are built on it.
package rest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/task"
)

// What counts if nobody says otherwise.
const (
	DefaultAddress = "http://127.0.0.1:8080"
	DefaultTimeout = 30 * time.Second

	defaultStreamIdle = 45 * time.Second // the server sends something every 15 s
)

// Options says which server is meant and how to talk to it.
type Options struct {
	Address    string            // URL of the server; without a scheme, http is meant
	Namespace  string            // of all requests; "" leaves the choice to the server
	Timeout    time.Duration     // of one request; of a stream until it begins; 0 means DefaultTimeout
	StreamIdle time.Duration     // how long a stream may be silent before it counts as lost; 0 means 45 s
	UserAgent  string            // of all requests
	Caller     string            // who asks, by the word of this program; "": it does not say
	Transport  http.RoundTripper // nil means http.DefaultTransport
}

// Client is a client of a server. The embedded one is for requests that are answered at once.
type Client struct {
	*client.ClientWithResponses

	Streams   *client.Client // for requests whose answer is a stream
	Namespace *string        // of all requests; nil leaves the choice to the server
	Address   string         // of the server, as the user named it

	timeout, idle time.Duration
}

// New returns a client of the server. Its error is an *InvalidAddress.
func New(o Options) (*Client, error) {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	calls, err := o.generated(&http.Client{Transport: patient{o.Transport}, Timeout: o.Timeout})
	if err != nil {
		return nil, err
	}
	streams, err := o.generated(&http.Client{Transport: o.Transport})
	if err != nil {
		return nil, err
	}
	c := &Client{
		ClientWithResponses: &client.ClientWithResponses{ClientInterface: calls}, Streams: streams, Address: config.MaskAddress(o.Address),
		timeout: o.Timeout, idle: cmp.Or(o.StreamIdle, defaultStreamIdle),
	}
	if o.Namespace != "" {
		c.Namespace = &o.Namespace
	}
	return c, nil
}

func (o Options) generated(doer *http.Client) (*client.Client, error) {
	address := o.Address
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, &InvalidAddress{config.MaskAddress(o.Address)}
	}
	return client.NewClient(address, client.WithHTTPClient(doer), client.WithRequestEditorFn(o.introduce))
}

func (o Options) introduce(_ context.Context, r *http.Request) error {
	r.Header.Set("User-Agent", o.UserAgent)
	if o.Caller != "" {
		r.Header.Set("Dts-Caller", o.Caller)
	}
	return nil
}

// callerLimit is how many bytes of a caller's name a server takes.
const callerLimit = 100

// CallerName returns how a program says who asks: who it works for, or its own name, and the host. What no header may have
// is left out.
func CallerName(who string) string {
	host, err := os.Hostname()
	if err == nil {
		who += "@" + host
	}
	return task.Cut(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, who), callerLimit)
}

// InvalidAddress is the error for an address that no server can have.
type InvalidAddress struct{ Address string }

func (i *InvalidAddress) Error() string {
	return fmt.Sprintf("%q is not the address of a server, such as %s", i.Address, DefaultAddress)
}
