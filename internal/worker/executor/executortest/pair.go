package executortest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// Pair is a certificate for orders.test and localhost that signs itself, and its key.
type Pair struct{ tls.Certificate }

// NewPair makes a pair.
func NewPair(t *testing.T) Pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"orders.test", "localhost"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: clock.Now().Add(-time.Hour), NotAfter: clock.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	return Pair{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// CertPEM is the certificate in PEM.
func (p Pair) CertPEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate.Certificate[0]}))
}

// Write writes the certificate and its key to files in a folder.
func (p Pair) Write(t *testing.T, folder string) (cert, key string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(p.PrivateKey)
	must(t, err)
	cert, key = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	must(t, os.WriteFile(cert, []byte(p.CertPEM()), 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	return cert, key
}
