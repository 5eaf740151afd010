package dts

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/app"
	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/tracing"
	"github.com/dts-sched/dts/internal/worker/executor/payloads"
)

// Client submits tasks, keeps schedules, and tells what became of them. It is safe for concurrent use.
type Client struct {
	api    *rest.Client
	direct submissions // of a client that Open returned; else nil
	name   string      // how it says who asks
	life   *life
}

// life ends with the client, and with all that In made of it.
type life struct {
	ctx     context.Context
	end     context.CancelCauseFunc // with ErrClosed
	release func() error            // closes the connections; nil: there are none
	runners *calls.Runners          // run direct submissions

	once sync.Once
	err  error // of release
}

// idleRunners is how many goroutines of a client wait for the next submission at most.
const idleRunners = 128

// ErrClosed is the error of all that a client does after Close.
var ErrClosed = errors.New("dts: the client is closed")

// DialOption changes how [Dial] connects.
type DialOption func(*dialOptions)

type dialOptions struct{ transport http.RoundTripper }

// WithTransport has [Dial] send requests through a transport, for TLS, proxies, or headers of your own.
func WithTransport(t http.RoundTripper) DialOption { return func(o *dialOptions) { o.transport = t } }

// OpenOption changes how [Open] connects.
type OpenOption func(*openOptions)

type openOptions struct {
	prefix     string
	durability string
	logger     *slog.Logger
	traces     trace.TracerProvider
}

// WithPrefix has [Open] use an installation whose keys in Redis begin with a prefix other than "dts".
func WithPrefix(prefix string) OpenOption { return func(o *openOptions) { o.prefix = prefix } }

// WithDurability has [Open] wait until replicas of Redis have what is submitted, as dtsd's setting durability does, such as "wait=1". If they do
// not in time, the error is CodeNotReplicated: a failover of Redis may lose the task, or has lost it.
func WithDurability(durability string) OpenOption {
	return func(o *openOptions) { o.durability = durability }
}

// WithLogger has [Open] log what went wrong with Redis. Without it nothing is logged.
func WithLogger(log *slog.Logger) OpenOption { return func(o *openOptions) { o.logger = log } }

// WithTracerProvider has [Open] make a span of each submission, below the span in the context of the call if there is one.
// Workers and nodes that make spans go on from there. Without it no spans are made.
func WithTracerProvider(p trace.TracerProvider) OpenOption {
	return func(o *openOptions) { o.traces = p }
}

// collect returns what options say.
func collect[O any, F ~func(*O)](options []F) (o O) {
	for _, option := range options {
		option(&o)
	}
	return o
}

// Dial returns a client of the REST API at an address such as http://127.0.0.1:8080. It sends nothing yet. If the context of
// a call has a span of OpenTelemetry, the request has its traceparent, below which a server that makes spans has those of
// submissions. Error: CodeInvalid for the address.
func Dial(address string, options ...DialOption) (*Client, error) {
	o := collect(options)
	if o.transport == nil {
		o.transport = http.DefaultTransport
	}
	return newClient(rest.Options{Address: address, Transport: o.transport, UserAgent: "dts-go"}, nil)
}

// Open returns a client that needs no server but Redis, whose URL has the form of dtsd's setting redis: redis://, unix://,
// redis+sentinel:// or redis+cluster://, or with rediss for TLS. Whether a task's payload fits one of dtsd's own types is checked here
// as it is there.
// Errors: CodeInvalid for the URL or an option; CodeUnavailable if Redis does not answer within 5 s, cannot be used or holds other data.
func Open(redis string, options ...OpenOption) (*Client, error) {
	o := collect(options)
	if o.logger == nil {
		o.logger = slog.New(slog.DiscardHandler)
	}
	settings := config.Default()
	settings.Redis, settings.Prefix = config.URL(redis), cmp.Or(o.prefix, settings.Prefix)
	err := settings.Validate()
	if o.durability != "" {
		err = errors.Join(err, settings.Durability.Set(o.durability))
	}
	if err != nil {
		return nil, &Error{Code: CodeInvalid, Message: err.Error(), Err: err}
	}
	direct, err := app.OpenDirect(context.Background(), app.DirectOptions{
		Config: settings, Types: payloads.Types(), Log: slog.New(warnings{o.logger.Handler()}), Traces: o.traces,
	})
	if err != nil {
		return nil, &Error{Code: CodeUnavailable, Message: err.Error(), Err: err}
	}
	c, err := newClient(rest.Options{Address: "http://redis", Transport: inProcess{direct.Handler()}, UserAgent: "dts-go"}, direct.Close)
	if err != nil {
		return nil, err
	}
	c.direct = direct.Submissions()
	return c, nil
}

// programName says who asks: this program, on this host.
func programName() string {
	program, err := os.Executable()
	if err != nil {
		program = "a Go program"
	}
	return rest.CallerName(filepath.Base(program))
}

func newClient(o rest.Options, release func() error) (*Client, error) {
	l := &life{release: release}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	l.runners = calls.NewRunners(l.ctx, idleRunners)
	o.Transport, o.Caller = openTransport{l, o.Transport}, programName()
	api, err := rest.New(o)
	if err != nil {
		return nil, &Error{Code: CodeInvalid, Field: "address", Message: err.Error(), Err: err}
	}
	return &Client{api: api, name: o.Caller, life: l}, nil
}

// openTransport refuses requests of a client that is closed. The error of a request whose context has ended for a reason of its own
// is not only that reason, as net/http has it.
type openTransport struct {
	life *life
	next http.RoundTripper
}

func (t openTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.life.ctx.Err() != nil {
		return nil, ErrClosed
	}
	if parent := tracing.FromContext(r.Context()); parent != "" && r.Header.Get(tracing.Header) == "" {
		r = r.Clone(r.Context()) // a round tripper changes no request
		r.Header.Set(tracing.Header, parent)
	}
	response, err := t.next.RoundTrip(r)
	if err != nil && err == context.Cause(r.Context()) { //nolint:errorlint // one that wraps it says more
		err = endOf(r.Context())
	}
	return response, err
}

// untilClosed returns a context that ends with ErrClosed when the client is closed. The caller calls stop in the end.
func (c *Client) untilClosed(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	after := context.AfterFunc(c.life.ctx, func() { cancel(ErrClosed) })
	return ctx, func() { after(); cancel(nil) }
}

// In returns a client of another namespace, over the same connections: close only one of them. The namespace of a new client is
// "default". Methods of the returned client refuse a namespace that is no name, such as ""; Events takes "*" for all of them.
func (c *Client) In(namespace string) *Client {
	api := *c.api
	api.Namespace = &namespace
	return &Client{api: &api, direct: c.direct, name: c.name, life: c.life}
}

// Close ends what waits for tasks or follows events or logs, with ErrClosed, and of a client that [Open] returned the connections to Redis.
// Locks that are held stay until their time is over. A client that is never closed keeps up to 128 goroutines for
// submissions.
func (c *Client) Close() error {
	c.life.once.Do(func() {
		c.life.end(ErrClosed)
		if c.life.release != nil {
			c.life.err = c.life.release()
		}
	})
	return c.life.err
}

// call returns the value of an answer of the API.
func call[T any](r rest.Reply, err error) (T, error) {
	answer, err := rest.Read[T](r, err)
	return answer.Value, errorOf(err)
}

// taskOf returns the task of an answer.
func taskOf(r rest.Reply, err error) (*Task, error) {
	t, err := call[wire.Task](r, err)
	if err != nil {
		return nil, err
	}
	return taskFrom(t), nil
}
