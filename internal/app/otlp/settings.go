// Package otlp sends the spans of a node to a collector of OpenTelemetry, by OTLP over HTTP. It is a package of its own
// so that only dtsd links it: another program brings its own provider.
package otlp

import (
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// tracesPath is where a collector takes spans.
const tracesPath = "/v1/traces"

// Settings are the settings of traces, as a section of dtsd's.
type Settings struct {
	endpoint string
	sample   share
	flush    time.Duration // how long the last spans may take; 0 means flushTimeout
}

// Declare adds the flags.
func (s *Settings) Declare(flags *pflag.FlagSet) {
	flags.StringVar(&s.endpoint, "otlp-endpoint", "",
		"`URL` of an OpenTelemetry collector that takes traces by OTLP over HTTP, as http://127.0.0.1:4318 "+
			"(default: no traces)")
	s.sample = 1
	flags.Var(&s.sample, "trace-sample",
		"`SHARE` of the traces that begin at this node to record, 0 to 1; of others, their sampling decides")
}

// share is from 0 to 1.
type share float64

func (s *share) String() string { return strconv.FormatFloat(float64(*s), 'g', -1, 64) }

// Set takes a number from 0 to 1.
func (s *share) Set(text string) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= 1) { // nor is it NaN
		return errors.New("must be a number from 0 to 1")
	}
	*s = share(n)
	return nil
}

// Type is what --help calls the value.
func (*share) Type() string { return "SHARE" }

// Validate says what is invalid about the values.
func (s *Settings) Validate() error {
	if !s.On() {
		return nil
	}
	_, err := s.target()
	return err
}

// On reports whether spans are made and sent; not without settings.
func (s *Settings) On() bool { return s != nil && s.endpoint != "" }

// target is the URL to which spans go. Its path is tracesPath if the setting has none. Error: it is no such URL; the
// error does not have it, as it may have a token.
func (s *Settings) target() (*url.URL, error) {
	u, err := url.Parse(s.endpoint)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("otlp-endpoint: must be a URL as http://127.0.0.1:4318")
	case u.User != nil:
		return nil, errors.New("otlp-endpoint: must have no user: set OTEL_EXPORTER_OTLP_HEADERS in the environment")
	case !hasPort(u):
		return nil, errors.New("otlp-endpoint: must have a port from 1 to 65535")
	case u.Path == "" || u.Path == "/":
		u.Path = tracesPath
	}
	return u, nil
}

// hasPort reports whether the port of a URL can be one. Without one, it is that of the scheme.
func hasPort(u *url.URL) bool {
	port, err := strconv.Atoi(u.Port())
	return u.Port() == "" || err == nil && port >= 1 && port <= 65535
}
