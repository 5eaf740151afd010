package grpccall

import (
	"encoding/json"

	"github.com/dts-sched/dts/internal/worker/executor/certs"
)

// Server is what a connection goes to. Attempts whose servers are equal share one.
type Server struct {
	Target    string // HOST:PORT
	Encrypted bool
	TLS       certs.Wanted // if Encrypted
}

// setTLS reads the field tls. Error: *executor.InvalidPayloadError.
func (s *Server) setTLS(value json.RawMessage) (err error) {
	s.TLS, s.Encrypted, err = certs.Parse(value)
	return err
}
