package grpccall

import (
	"crypto/x509"
	"encoding/json"
	"net/netip"
	"regexp"

	"github.com/dts-sched/dts/internal/worker/executor"
)

// Server is what a connection goes to. Attempts whose servers are equal share one.
type Server struct {
	Target    string // HOST:PORT
	Encrypted bool
	CA        string // certificates in PEM that sign the server's; "" for those of the node
	Name      string // that the server's certificate must have; "" for the host of Target
}

// setTLS reads the field tls. Error: *executor.InvalidPayloadError.
func (s *Server) setTLS(value json.RawMessage) error {
	if len(value) == 0 || string(value) == "null" {
		return nil
	}
	err := executor.DecodeField("tls", value, map[string]executor.Field{
		"ca":          {Into: &s.CA, Want: "a string"},
		"server_name": {Into: &s.Name, Want: "a string"},
	})
	if err != nil {
		return err
	}
	if s.Name != "" && !isHost(s.Name) {
		return executor.Invalid("tls.server_name",
			"%q is not the name of a host, such as orders.internal, or an IP address", s.Name)
	}
	if s.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(s.CA)) {
		return executor.Invalid("tls.ca", "has no certificate in PEM")
	}
	s.Encrypted = true
	return nil
}

// hostForm is the form of names of hosts (RFC 1123, 2.1), with the underscore that names of containers have. Names in
// other scripts are written in their ASCII form, which begins with xn--.
var hostForm = regexp.MustCompile(`(?i)^` + label + `(?:\.` + label + `)*\.?$`)

const label = `[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?`

const hostLimit = 253 // characters of a name

// isHost reports whether a text is the name of a host, or an IP address without a zone. Names are sent to the server
// before it says what it is, so that they must not be lines of another protocol.
func isHost(text string) bool {
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.Zone() == ""
	}
	return len(text) <= hostLimit && hostForm.MatchString(text)
}
