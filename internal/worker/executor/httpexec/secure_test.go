package httpexec

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/address"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

// serveTLS answers with the number of certificates that the client has shown. admitted is whom it admits; nil is
// everybody.
func serveTLS(t *testing.T, server executortest.Pair, admitted *executortest.Pair) (url string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("shown ", len(r.TLS.PeerCertificates))+r.TLS.ServerName)
	}))
	srv.Config.ErrorLog = nil
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{server.Certificate}, MinVersion: tls.VersionTLS12}
	if admitted != nil {
		srv.TLS.ClientAuth, srv.TLS.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		srv.TLS.ClientCAs.AppendCertsFromPEM([]byte(admitted.CertPEM()))
	}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
}

// described makes an executor of a node with these settings.
func described(t *testing.T, settings ...string) (*Executor, error) {
	t.Helper()
	d := Describe(address.New())
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	d.Settings.Declare(flags)
	testkit.Must(t, flags.Parse(settings))
	if err := d.Settings.Validate(); err != nil {
		return nil, err
	}
	e, err := d.New(executor.Options{})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { testkit.Must(t, e.(*Executor).Close()) })
	return e.(*Executor), nil
}

func TestExecutor_TrustsWhomThePayloadOrTheNodeTrusts(t *testing.T) {
	t.Parallel()
	server, other := executortest.NewPair(t), executortest.NewPair(t)
	url := serveTLS(t, server, nil)
	ca, _ := server.Write(t, t.TempDir())
	trusting, err := described(t, "--http-ca="+ca)
	testkit.Must(t, err)
	plain, err := described(t)
	testkit.Must(t, err)
	for name, c := range map[string]struct {
		e    *Executor
		tls  object
		want string // the result, or a part of the error
	}{
		"the node trusts it":           {trusting, nil, "localhost"},
		"the payload trusts it":        {plain, object{"ca": server.CertPEM(), "server_name": "orders.test"}, "orders.test"},
		"the payload names it":         {trusting, object{"server_name": "orders.test"}, "orders.test"},
		"the payload trusts another":   {trusting, object{"ca": other.CertPEM()}, "unknown authority"},
		"nobody trusts it":             {plain, nil, "unknown authority"},
		"its certificate is for other": {trusting, object{"server_name": "mails.test"}, "not mails.test"},
	} {
		got, err := execute(t, c.e, object{"url": url, "tls": c.tls})
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestExecutor_ShowsTheCertificateOfTheNode(t *testing.T) {
	t.Parallel()
	server, admitted, stranger := executortest.NewPair(t), executortest.NewPair(t), executortest.NewPair(t)
	url := serveTLS(t, server, &admitted)
	folder := t.TempDir()
	cert, key := stranger.Write(t, folder)
	e, err := described(t, "--http-cert="+cert, "--http-key="+key)
	testkit.Must(t, err)
	payload := object{"url": url, "tls": object{"ca": server.CertPEM()}}
	if _, err := execute(t, e, payload); err == nil || executor.IsPermanent(err) {
		t.Errorf("with the certificate of a stranger: %v", err)
	}
	admitted.Write(t, folder) // it is renewed
	if got, err := execute(t, e, payload); err != nil || got != "shown localhost" {
		t.Errorf("with its own certificate: %q, %v", got, err)
	}
}

func TestSettings_NameTheFileThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	_, key := executortest.NewPair(t).Write(t, t.TempDir())
	for setting, want := range map[string]string{
		"--http-cert=" + key: "http-cert and http-key: set both or none",
		"--http-ca=" + key:   "http-ca: " + key + " has no certificate in PEM",
		"--http-ca=/no/such": "http-ca: open /no/such: no such file or directory",
	} {
		if _, err := described(t, setting); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %q", setting, err, want)
		}
	}
}

func TestParseCall_TakesTLSForHTTPSOnly(t *testing.T) {
	t.Parallel()
	for payload, field := range map[string]string{
		`{"url": "http://a", "tls": {}}`:                         "payload.tls",
		`{"url": "https://a", "tls": {"ca": "x"}}`:               "payload.tls.ca",
		`{"url": "https://a", "tls": {"server_name": "a b"}}`:    "payload.tls.server_name",
		`{"url": "https://a", "tls": {"insecure": true}}`:        "payload.tls.insecure",
		`{"url": "https://a", "tls": {"server_name": "a.test"}}`: "",
		`{"url": "http://a", "tls": null}`:                       "",
	} {
		_, err := parseCall([]byte(payload))
		var invalid *executor.InvalidPayloadError
		if errors.As(err, &invalid); err != nil && invalid.Field != field || err == nil && field != "" {
			t.Errorf("%s: %v, want an error about %q", payload, err, field)
		}
	}
}
