package flags

import (
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/cli/command"
)

// Certificate is the flags that say what the certificate of a server must be like.
type Certificate struct {
	CA         string
	ServerName string
}

// certificateNames are the names of the flags of Certificate.
var certificateNames = []string{"tls-ca", "tls-server-name"}

// bind adds the flags.
func (c *Certificate) bind(f *pflag.FlagSet) {
	f.StringVar(&c.CA, "tls-ca", "", "the authority that must have signed the server's certificate, as PEM: @FILE, "+
		"or @- for standard input; implies TLS")
	f.StringVar(&c.ServerName, "tls-server-name", "", "the name that the server's certificate must have; implies TLS")
}

// tlsPayload is the field tls of a payload.
type tlsPayload struct {
	CA         string `json:"ca,omitempty"`
	ServerName string `json:"server_name,omitempty"`
}

// payload returns nil if no flag asks for it.
func (c *Certificate) payload(stdin io.Reader) (*tlsPayload, error) {
	if *c == (Certificate{}) {
		return nil, nil
	}
	if c.CA != "" && !strings.HasPrefix(c.CA, "@") {
		return nil, command.Usagef("--tls-ca: %q must be @FILE, or @- for standard input", c.CA)
	}
	ca, err := Text(stdin, "--tls-ca", c.CA)
	return &tlsPayload{CA: ca, ServerName: c.ServerName}, err
}
