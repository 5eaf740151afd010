package grpcexec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/address"
)

func TestExecutor_TrustsWhomTheNodeTrusts(t *testing.T) {
	t.Parallel()
	server, other := newPair(t), newPair(t)
	s := serve(t, true, server.serverOption())
	ca, _ := server.Write(t, t.TempDir())
	call := func(e *Executor, tls object) error {
		_, err := execute(t, e, object{"target": s.target, "method": check, "tls": tls})
		return err
	}
	trusting := described(t, "--grpc-ca="+ca)
	testkit.Must(t, call(trusting, object{"server_name": "orders.test"}))
	const unknown = "certificate signed by unknown authority"
	if err := call(trusting, object{"server_name": "orders.test", "ca": other.CertPEM()}); err == nil || !strings.Contains(err.Error(), unknown) {
		t.Errorf("the payload trusts somebody else: %v", err)
	}
	if err := call(described(t), object{"server_name": "orders.test"}); err == nil || !strings.Contains(err.Error(), unknown) {
		t.Errorf("the system does not know the server: %v", err)
	}
}

func TestExecutor_ShowsTheCertificateOfTheNode(t *testing.T) {
	t.Parallel()
	server, admitted, stranger := newPair(t), newPair(t), newPair(t)
	s := serve(t, true, server.mutualOption(admitted))
	ca, _ := server.Write(t, t.TempDir())
	folder := t.TempDir()
	cert, key := stranger.Write(t, folder)
	call := func(e *Executor) error {
		_, err := execute(t, e, object{"target": s.target, "method": check, "tls": object{"server_name": "orders.test"}})
		return err
	}
	// The server refuses the certificate after the handshake of the client has ended: often the refusal comes as the error, and sometimes the
	// client writes first, and finds the connection closed.
	refused := func(err error) bool {
		return err != nil && strings.HasPrefix(err.Error(), "UNAVAILABLE") && !executor.IsPermanent(err)
	}
	if err := call(described(t, "--grpc-ca="+ca)); !refused(err) {
		t.Errorf("without a certificate: %v", err)
	}
	e := described(t, "--grpc-ca="+ca, "--grpc-cert="+cert, "--grpc-key="+key)
	if err := call(e); !refused(err) {
		t.Errorf("with the certificate of a stranger: %v", err)
	}
	admitted.Write(t, folder) // it is renewed
	testkit.Must(t, call(e))
	testkit.Must(t, os.Remove(key))
	e.pool.mu.Lock()
	for _, c := range e.pool.shared {
		e.pool.drop(c)
		testkit.Must(t, e.pool.end(c))
	}
	e.pool.mu.Unlock()
	if err := call(e); err == nil || !strings.Contains(err.Error(), "grpc-cert and grpc-key: open "+key) || executor.IsPermanent(err) {
		t.Errorf("with a key that is gone: %v", err)
	}
}

func TestSettings_NameTheFileThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	one, other := newPair(t), newPair(t)
	cert, key := one.Write(t, folder)
	testkit.Must(t, os.Mkdir(filepath.Join(folder, "other"), 0o700))
	otherCert, _ := other.Write(t, filepath.Join(folder, "other"))
	for _, c := range []struct {
		settings []string
		want     string
	}{
		{[]string{"--grpc-cert=" + cert}, "grpc-cert and grpc-key: set both or none"},
		{[]string{"--grpc-key=" + key}, "grpc-cert and grpc-key: set both or none"},
		{[]string{"--grpc-cert=" + otherCert, "--grpc-key=" + key}, "grpc-cert and grpc-key: tls: private key does not match public key"},
		{[]string{"--grpc-cert=/no/such", "--grpc-key=" + key}, "grpc-cert and grpc-key: open /no/such: no such file or directory"},
		{[]string{"--grpc-ca=/no/such"}, "grpc-ca: open /no/such: no such file or directory"},
		{[]string{"--grpc-descriptors=/no/such"}, "grpc-descriptors: open /no/such: no such file or directory"},
		{[]string{"--grpc-descriptors=" + key}, "grpc-descriptors: open " + key + ": not a directory"},
		{[]string{"--grpc-ca=" + key}, "grpc-ca: " + key + " has no certificate in PEM"},
	} {
		d := Describe(address.New())
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		d.Settings.Declare(flags)
		testkit.Must(t, flags.Parse(c.settings))
		err := d.Settings.Validate()
		if err == nil {
			_, err = d.New(executor.Options{})
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, want %q", c.settings, err, c.want)
		}
	}
}
