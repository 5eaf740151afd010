package grpccall

import (
	"crypto/x509"
	"encoding/json"

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
	if s.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(s.CA)) {
		return executor.Invalid("tls.ca", "has no certificate in PEM")
	}
	s.Encrypted = true
	return nil
}
