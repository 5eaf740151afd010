package grpcexec

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
	"github.com/dts-sched/dts/internal/worker/executor/grpcexec/grpccall"
)

// credentialsOf returns how to talk to a server.
func credentialsOf(s grpccall.Server) credentials.TransportCredentials {
	if !s.Encrypted {
		return insecure.NewCredentials()
	}
	c := &tls.Config{ServerName: s.Name, MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AppendCertsFromPEM([]byte(s.CA))
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
func (d *dialer) dial(to grpccall.Server, denied *atomic.Pointer[executor.PermanentError]) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+to.Target,
		grpc.WithTransportCredentials(credentialsOf(to)),
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
