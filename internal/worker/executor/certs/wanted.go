package certs

import (
	"crypto/x509"
	"encoding/json"
	"net/netip"
	"regexp"

	"github.com/dts-sched/dts/internal/worker/executor"
)

// Wanted is what a payload wants of the certificate of a server.
type Wanted struct {
	CA   string // certificates in PEM that sign it; "" for those of the node
	Name string // that it must have; "" for the host that is called
}

// Parse reads the field tls of a payload. given is false if it is left out. Error: *executor.InvalidPayloadError.
func Parse(value json.RawMessage) (w Wanted, given bool, _ error) {
	if len(value) == 0 || string(value) == "null" {
		return Wanted{}, false, nil
	}
	err := executor.DecodeField("tls", value, map[string]executor.Field{
		"ca":          {Into: &w.CA, Want: "a string"},
		"server_name": {Into: &w.Name, Want: "a string"},
	})
	if err != nil {
		return Wanted{}, false, err
	}
	if w.Name != "" && !IsHost(w.Name) {
		return Wanted{}, false, executor.Invalid("tls.server_name",
			"%q is not the name of a host, such as orders.internal, or an IP address", w.Name)
	}
	if w.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(w.CA)) {
		return Wanted{}, false, executor.Invalid("tls.ca", "has no certificate in PEM")
	}
	return w, true, nil
}

// hostForm is the form of names of hosts (RFC 1123, 2.1), with the underscore that names of containers have. Names in
// other scripts are written in their ASCII form, which begins with xn--.
var hostForm = regexp.MustCompile(`(?i)^` + label + `(?:\.` + label + `)*\.?$`)

const label = `[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?`

const hostLimit = 253 // characters of a name

// IsHost reports whether a text is the name of a host, or an IP address without a zone. Names are sent to the server
// before it says what it is, so that they must not be lines of another protocol.
func IsHost(text string) bool {
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.Zone() == ""
	}
	return len(text) <= hostLimit && hostForm.MatchString(text)
}
