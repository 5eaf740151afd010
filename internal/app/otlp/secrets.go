package otlp

import (
	"net/url"
	"strings"

	"github.com/dts-sched/dts/internal/config"
)

// secrets leaves out of texts for the log what may be secret: users and parameters of URLs, and the path of the
// collector, in which some services want a token.
type secrets struct{ path *strings.Replacer }

func secretsOf(target *url.URL) secrets {
	if target.Path == tracesPath {
		return secrets{strings.NewReplacer()}
	}
	const masked = "/***"
	plain := url.URL{Path: target.Path}
	return secrets{strings.NewReplacer(target.EscapedPath(), masked, plain.EscapedPath(), masked, target.Path, masked)}
}

// hide returns an error as a text without secrets.
func (s secrets) hide(err error) string { return s.path.Replace(config.MaskURLs(err.Error())) }

// origin is the scheme, host and port of a URL.
func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }
