package grpcexec

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/address"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

type object = map[string]any

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	check = "grpc.health.v1.Health/Check"
	unary = "grpc.testing.TestService/UnaryCall"
)

// service answers with the status, and as many bytes, as the request wants. If the message of the status is a duration, the status asks to
// wait that long.
type service struct {
	grpc_testing.UnimplementedTestServiceServer
	calls    atomic.Int32
	seen     chan metadata.MD
	deadline chan time.Duration
	hold     chan struct{} // unless nil, calls wait until it is closed
	started  chan struct{}
}

func (s *service) UnaryCall(ctx context.Context, r *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	s.calls.Add(1)
	md, _ := metadata.FromIncomingContext(ctx)
	s.seen <- md
	if at, ok := ctx.Deadline(); ok {
		s.deadline <- time.Until(at)
	}
	if s.hold != nil {
		s.started <- struct{}{}
		select {
		case <-s.hold:
		case <-ctx.Done():
		}
	}
	if r.GetResponseStatus().GetCode() == 0 {
		return &grpc_testing.SimpleResponse{
			Username: r.GetResponseStatus().GetMessage(), Payload: &grpc_testing.Payload{Body: make([]byte, r.GetResponseSize())},
		}, nil
	}
	answer := status.New(codes.Code(r.GetResponseStatus().GetCode()), r.GetResponseStatus().GetMessage())
	if wait, err := time.ParseDuration(answer.Message()); err == nil {
		answer, _ = answer.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	return nil, answer.Err()
}

// running is a server with the health service and with service.
type running struct {
	*service
	target   string
	server   *grpc.Server
	accepted *atomic.Int32 // connections
	asked    *atomic.Int32 // reflections
}

// counting counts what a listener accepts.
type counting struct {
	net.Listener
	accepted *atomic.Int32
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.accepted.Add(1)
	}
	return conn, err
}

func serve(t *testing.T, reflects bool, options ...grpc.ServerOption) *running {
	t.Helper()
	return serveWith(t, func(s *grpc.Server) {
		if reflects {
			reflection.Register(s)
		}
	}, options...)
}

func serveWith(t *testing.T, register func(*grpc.Server), options ...grpc.ServerOption) *running {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	r := &running{
		service:  &service{seen: make(chan metadata.MD, 100), deadline: make(chan time.Duration, 100), started: make(chan struct{}, 100)},
		accepted: &atomic.Int32{}, asked: &atomic.Int32{}, target: listener.Addr().String(),
	}
	options = append(options, grpc.StreamInterceptor(func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if strings.HasPrefix(info.FullMethod, "/grpc.reflection.") {
			r.asked.Add(1)
		}
		return next(srv, s)
	}))
	r.server = grpc.NewServer(options...)
	grpc_health_v1.RegisterHealthServer(r.server, health.NewServer())
	grpc_testing.RegisterTestServiceServer(r.server, r.service)
	register(r.server)
	done := make(chan error, 1)
	go func() { done <- r.server.Serve(counting{listener, r.accepted}) }()
	t.Cleanup(func() {
		r.server.Stop()
		testkit.Must(t, <-done)
	})
	return r
}

func newExecutor(t *testing.T) *Executor {
	t.Helper()
	e := New(Options{})
	t.Cleanup(func() { testkit.Must(t, e.Close()) })
	return e
}

// described is an executor on a node with these settings.
func described(t *testing.T, settings ...string) *Executor {
	t.Helper()
	rules := address.New()
	d := Describe(rules)
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	rules.Declare(flags) // as http does
	d.Settings.Declare(flags)
	testkit.Must(t, flags.Parse(settings))
	testkit.Must(t, d.Settings.Validate())
	e, err := d.New(executor.Options{Version: "1.2.3"})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, e.(*Executor).Close()) })
	return e.(*Executor)
}

func execute(t *testing.T, e *Executor, payload object) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return e.Execute(ctx, executortest.NewRecorder(executortest.JSON(t, payload)).Attempt)
}

func testingSet(t *testing.T) string {
	t.Helper()
	return executortest.DescriptorSet(t, grpc_testing.File_grpc_testing_test_proto, grpc_testing.File_grpc_testing_messages_proto, grpc_testing.File_grpc_testing_empty_proto)
}

// pair is a certificate for orders.test that signs itself, and its key.
type pair struct{ executortest.Pair }

func newPair(t *testing.T) pair { return pair{executortest.NewPair(t)} }

// serverOption has a server show the certificate.
func (p pair) serverOption() grpc.ServerOption {
	return grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{p.Certificate}}))
}

// mutualOption has a server show the certificate, and admit clients only that have one of these.
func (p pair) mutualOption(clients ...pair) grpc.ServerOption {
	admitted := x509.NewCertPool()
	for _, c := range clients {
		admitted.AppendCertsFromPEM([]byte(c.CertPEM()))
	}
	return grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{p.Certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: admitted,
	}))
}
