package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/testkit"
)

// Certificates are the files of an authority and of a certificate of it for 127.0.0.1, which servers and clients share.
type Certificates struct {
	CA, Cert, Key string // paths of PEM files

	config *tls.Config // of a client
}

// NewCertificates makes certificates that are valid for an hour, in a directory of the test.
func NewCertificates(t testing.TB) *Certificates {
	t.Helper()
	dir := t.TempDir()
	c := &Certificates{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"}, NotAfter: clock.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	host := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "host of a test"}, NotAfter: authority.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	authorityKey, hostKey := newKey(t), newKey(t)
	write(t, c.CA, "CERTIFICATE", sign(t, authority, authority, authorityKey, authorityKey))
	write(t, c.Cert, "CERTIFICATE", sign(t, host, authority, hostKey, authorityKey))
	der, err := x509.MarshalPKCS8PrivateKey(hostKey)
	testkit.Must(t, err)
	write(t, c.Key, "PRIVATE KEY", der)

	own, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	testkit.Must(t, err)
	ca, err := os.ReadFile(c.CA)
	testkit.Must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	c.config = &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}
	return c
}

// name adds the files to the parameters of a URL.
func (c *Certificates) name(parameters url.Values) {
	parameters.Set("ca_file", c.CA)
	parameters.Set("cert_file", c.Cert)
	parameters.Set("key_file", c.Key)
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	return key
}

func sign(t testing.TB, certificate, parent *x509.Certificate, of, by *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, certificate, parent, &of.PublicKey, by)
	testkit.Must(t, err)
	return der
}

func write(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	testkit.Must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}
