package grpcexec

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/address"
	"github.com/dts-sched/dts/internal/worker/executor/certs"
	"github.com/dts-sched/dts/internal/worker/executor/grpcexec/grpccall"
)

// dialer makes connections.
type dialer struct {
	rules     *address.Rules
	files     certs.Files
	userAgent string
}

// dial makes a connection, which connects when it is first used. Names are resolved by the rules, which check what they resolve to; denied
// gets their refusal, or nil if the last attempt to connect was not refused.
func (d *dialer) dial(to grpccall.Server, denied *atomic.Pointer[executor.Verdict]) (*grpc.ClientConn, error) {
	secure, err := d.credentials(to)
	if err != nil {
		return nil, err
	}
	return grpc.NewClient("passthrough:///"+to.Target,
		grpc.WithTransportCredentials(secure),
		grpc.WithContextDialer(func(ctx context.Context, target string) (net.Conn, error) {
			conn, err := d.rules.Dial(ctx, "tcp", target)
			denied.Store(executor.VerdictIn(err))
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

// credentials returns how connections to a server are secured.
func (d *dialer) credentials(to grpccall.Server) (credentials.TransportCredentials, error) {
	if !to.Encrypted {
		return insecure.NewCredentials(), nil
	}
	c, err := d.files.Config(to.TLS)
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(c), nil
}

const connectTimeout = 10 * time.Second
