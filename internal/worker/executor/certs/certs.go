// Package certs secures the connections of executors: with certificates of the node, and as a payload wants.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// Files are those of the node for encrypted connections, in PEM.
type Files struct {
	Type      string // of the tasks, such as http: names of settings begin with it
	CA        string // certificates that sign those of servers; "" for those of the system
	Cert, Key string // what the node shows servers that ask for it; "" for nothing
}

// Declare declares the settings.
func (f *Files) Declare(flags *pflag.FlagSet) {
	flags.StringVar(&f.CA, f.Type+"-ca", f.CA, "PEM file of the authorities that must have signed the certificates of "+
		"servers that "+f.Type+" tasks call (default: those that the system trusts)")
	flags.StringVar(&f.Cert, f.Type+"-cert", f.Cert, "PEM file of the certificate that this node shows servers that "+
		"ask "+f.Type+" tasks for one; with --"+f.Type+"-key (default: none)")
	flags.StringVar(&f.Key, f.Type+"-key", f.Key, "PEM file of the key of that certificate")
}

// Validate reads no file: only a worker needs them, which looks for them when it starts.
func (f *Files) Validate() error {
	if (f.Cert == "") != (f.Key == "") {
		return fmt.Errorf("%s-cert and %[1]s-key: set both or none", f.Type)
	}
	return nil
}

// Check reads the files. Error: it names the setting of the one that cannot be used.
func (f *Files) Check() error {
	_, err := f.authorities()
	if f.Cert != "" {
		_, certErr := f.identity()
		err = errors.Join(err, certErr)
	}
	return err
}

// authorities returns who may sign the certificates of servers, nil for those whom the system trusts.
func (f *Files) authorities() (*x509.CertPool, error) {
	if f.CA == "" {
		return nil, nil
	}
	text, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("%s-ca: %w", f.Type, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s-ca: %s has no certificate in PEM", f.Type, f.CA)
	}
	return pool, nil
}

// identity returns the certificate of the node.
func (f *Files) identity() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("%s-cert and %[1]s-key: %w", f.Type, err)
	}
	return &pair, nil
}

// Config returns how connections are secured. It reads the authorities now, and the certificate of the node for each
// connection, so that the certificate can be renewed without a restart. Error: the authorities cannot be read.
func (f *Files) Config(w Wanted) (*tls.Config, error) {
	c := &tls.Config{ServerName: w.Name, MinVersion: tls.VersionTLS12}
	var err error
	if w.CA != "" {
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AppendCertsFromPEM([]byte(w.CA))
	} else if c.RootCAs, err = f.authorities(); err != nil {
		return nil, err
	}
	if f.Cert != "" {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return f.identity() }
	}
	return c, nil
}
