package grpcexec

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/address"
)

// server is what a connection goes to. Attempts whose servers are equal share one.
type server struct {
	target    string // HOST:PORT
	encrypted bool
	ca        string // certificates in PEM that sign the server's; "" for those of the system
	name      string // that the server's certificate must have; "" for the host of target
}

// setTLS reads the field tls. Error: *executor.InvalidPayloadError.
func (s *server) setTLS(value json.RawMessage) error {
	if len(value) == 0 || string(value) == "null" {
		return nil
	}
	err := executor.DecodeField("tls", value, map[string]executor.Field{
		"ca":          {Into: &s.ca, Want: "a string"},
		"server_name": {Into: &s.name, Want: "a string"},
	})
	if err != nil {
		return err
	}
	if s.ca != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(s.ca)) {
		return executor.Invalid("tls.ca", "has no certificate in PEM")
	}
	s.encrypted = true
	return nil
}

func (s server) credentials() credentials.TransportCredentials {
	if !s.encrypted {
		return insecure.NewCredentials()
	}
	c := &tls.Config{ServerName: s.name, MinVersion: tls.VersionTLS12}
	if s.ca != "" {
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AppendCertsFromPEM([]byte(s.ca))
	}
	return credentials.NewTLS(c)
}

// dialer makes connections.
type dialer struct {
	rules     *address.Rules
	userAgent string
}

// dial makes a connection, which connects when it is first used. Names are resolved by the rules, which check what they resolve to; denied
// gets their refusal, or nil if the last attempt to connect was not refused.
func (d *dialer) dial(to server, denied *atomic.Pointer[executor.PermanentError]) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+to.target,
		grpc.WithTransportCredentials(to.credentials()),
		grpc.WithContextDialer(func(ctx context.Context, target string) (net.Conn, error) {
			conn, err := d.rules.Dial(ctx, "tcp", target)
			var denial *executor.PermanentError
			_ = errors.As(err, &denial)
			denied.Store(denial)
			return conn, err
		}),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(), // the retry policy of the task is the only one
		grpc.WithDisableRetry(),
		grpc.WithUserAgent(d.userAgent),
		grpc.WithMaxHeaderListSize(headerLimit),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageLimit), grpc.MaxCallSendMsgSize(messageLimit)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTimeout}),
	)
}

const connectTimeout = 10 * time.Second
