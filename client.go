package dts

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/app"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor/builtin"
)

// Client submits tasks, keeps schedules, and tells what became of them. It is safe for concurrent use.
type Client struct {
	api      *rest.Client
	useCases *control.Control // of a client that Open returned, for what must be fast; else nil
	types    task.Types       // the same
	close    func() error
}

// Option changes how [Dial] and [Open] connect.
type Option func(*options)

type options struct {
	transport http.RoundTripper
	prefix    string
	log       *slog.Logger
}

// WithTransport has [Dial] send requests through a transport, for TLS, proxies, or headers of your own.
func WithTransport(t http.RoundTripper) Option { return func(o *options) { o.transport = t } }

// WithPrefix has [Open] use an installation whose keys in Redis begin with a prefix other than "dts".
func WithPrefix(prefix string) Option { return func(o *options) { o.prefix = prefix } }

// WithLogger has [Open] log what went wrong with Redis. Without it nothing is logged.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

func collect(given []Option) options {
	o := options{prefix: config.Default().Prefix, log: slog.New(slog.DiscardHandler)}
	for _, option := range given {
		option(&o)
	}
	return o
}

// Dial returns a client of the REST API at an address such as http://127.0.0.1:8080. It sends nothing yet. Error: CodeInvalid
// for the address.
func Dial(address string, given ...Option) (*Client, error) {
	o := collect(given)
	return newClient(rest.Options{Address: address, Transport: o.transport, UserAgent: "dts-go"}, func() error { return nil })
}

// Open returns a client that needs no server but Redis, whose URL has the form of dtsd's setting redis: redis://, rediss://, unix://,
// redis+sentinel:// or redis+cluster://. Whether a task's payload fits one of dtsd's own types is checked here as it is there.
// Errors: CodeInvalid for the URL or the prefix; CodeUnavailable if Redis does not answer or holds other data.
func Open(redis string, given ...Option) (*Client, error) {
	o := collect(given)
	settings := config.Default()
	settings.Redis, settings.Prefix = config.URL(redis), o.prefix
	if err := settings.Validate(); err != nil {
		return nil, &Error{Code: CodeInvalid, Message: err.Error(), Err: err}
	}
	known := builtin.Table()
	direct, err := app.OpenDirect(context.Background(), app.DirectOptions{
		Config: settings, Executors: known, Log: slog.New(warnings{o.log.Handler()}),
	})
	if err != nil {
		return nil, &Error{Code: CodeUnavailable, Message: err.Error(), Err: err}
	}
	c, err := newClient(rest.Options{Address: "http://redis", Transport: inProcess{direct.Handler()}, UserAgent: "dts-go"}, direct.Close)
	if err != nil {
		return nil, err
	}
	c.useCases, c.types = direct.Control(), known.Types()
	return c, nil
}

func newClient(o rest.Options, end func() error) (*Client, error) {
	api, err := rest.New(o)
	if err != nil {
		return nil, &Error{Code: CodeInvalid, Field: "address", Message: err.Error(), Err: err}
	}
	return &Client{api: api, close: end}, nil
}

// In returns a client of another namespace, over the same connections: close only one of them. The namespace of a new client is
// "default".
func (c *Client) In(namespace string) *Client {
	api := *c.api
	api.Namespace = &namespace
	return &Client{api: &api, useCases: c.useCases, types: c.types, close: c.close}
}

// Close ends what follows events or logs and, of a client that [Open] returned, the connections to Redis.
func (c *Client) Close() error { return c.close() }

// call returns the value of an answer of the API.
func call[T any](r rest.Reply, err error) (T, error) {
	answer, err := rest.Read[T](r, err)
	return answer.Value, errorOf(err)
}

// taskOf returns the task of an answer.
func taskOf(r rest.Reply, err error) (*Task, error) {
	t, err := call[client.Task](r, err)
	if err != nil {
		return nil, err
	}
	return taskFrom(t), nil
}
