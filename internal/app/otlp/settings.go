// Package otlp sends the spans of a node to a collector of OpenTelemetry, by OTLP over HTTP. It is a package of its own
// so that only dtsd links it: another program brings its own provider.
package otlp

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/config"
)

// tracesPath is where a collector takes spans.
const tracesPath = "/v1/traces"

// Settings are the settings of traces, as a section of dtsd's.
type Settings struct {
	endpoint string
	sample   float64
	flush    time.Duration // how long the last spans may take; 0 means flushTimeout
}

// Declare adds the flags.
func (s *Settings) Declare(flags *pflag.FlagSet) {
	flags.StringVar(&s.endpoint, "otlp-endpoint", "",
		"`URL` of an OpenTelemetry collector that takes traces by OTLP over HTTP, as http://127.0.0.1:4318 "+
			"(default: no traces)")
	flags.Float64Var(&s.sample, "trace-sample", 1,
		"`SHARE` of the traces that begin at this node to record, 0 to 1; of others, their sampling decides")
}

// Validate says everything that is invalid about the values.
func (s *Settings) Validate() error {
	var failures []error
	if s.On() {
		_, err := s.target()
		failures = append(failures, err)
	}
	if !(s.sample >= 0 && s.sample <= 1) { // nor is it NaN
		failures = append(failures, fmt.Errorf("trace-sample: %v must be 0 to 1", s.sample))
	}
	return errors.Join(failures...)
}

// On reports whether spans are made and sent; not without settings.
func (s *Settings) On() bool { return s != nil && s.endpoint != "" }

// target is the URL to which spans go. Its path is tracesPath if the setting has none. Error: it is no such URL.
func (s *Settings) target() (string, error) {
	u, err := url.Parse(s.endpoint)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.RawQuery != "", u.Fragment != "":
		return "", fmt.Errorf("otlp-endpoint: %q must be a URL as http://127.0.0.1:4318", config.MaskURLs(s.endpoint))
	case u.User != nil:
		return "", errors.New("otlp-endpoint: must have no user: set OTEL_EXPORTER_OTLP_HEADERS in the environment")
	case u.Path == "" || u.Path == "/":
		u.Path = tracesPath
	}
	return u.String(), nil
}
