package grpcexec

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dts-sched/dts/internal/worker/executor/grpcexec/grpccall"
)

// Files are those of the node for encrypted connections, in PEM. They are read for each new connection, so that what renews them need not
// restart the node.
type Files struct {
	CA        string // certificates that sign those of servers; "" for those of the system
	Cert, Key string // what the node shows servers that ask for it; "" for nothing
}

// check reads the files. Error: it names the setting of the one that cannot be used.
func (f Files) check() error {
	_, err := f.authorities()
	if f.Cert != "" {
		_, certErr := f.identity()
		err = errors.Join(err, certErr)
	}
	return err
}

// authorities returns who may sign the certificates of servers, nil for those whom the system trusts.
func (f Files) authorities() (*x509.CertPool, error) {
	if f.CA == "" {
		return nil, nil
	}
	text, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("grpc-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("grpc-ca: %s has no certificate in PEM", f.CA)
	}
	return pool, nil
}

// identity returns the certificate of the node.
func (f Files) identity() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("grpc-cert and grpc-key: %w", err)
	}
	return &pair, nil
}

// credentials returns how connections to a server are secured.
func (f Files) credentials(to grpccall.Server) (credentials.TransportCredentials, error) {
	if !to.Encrypted {
		return insecure.NewCredentials(), nil
	}
	c := &tls.Config{ServerName: to.Name, MinVersion: tls.VersionTLS12}
	var err error
	if to.CA != "" {
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AppendCertsFromPEM([]byte(to.CA))
	} else if c.RootCAs, err = f.authorities(); err != nil {
		return nil, err
	}
	if f.Cert != "" {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return f.identity() }
	}
	return credentials.NewTLS(c), nil
}
