package edge

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/labstack/echo/v4"
)

// Options says how to serve. Fields without a stated default must be set.
type Options struct {
	Log *slog.Logger

	// Answered, if set, is called for each request that was answered: route is the path of its handler as the document
	// writes it, such as /v1/tasks/{id}, or UnknownRoute. method is a known one, or "other".
	Answered func(route, method string, status int, took time.Duration)

	// Refusal, if set, answers all paths but those whose Policy says Always: for a node that does not serve more, or not
	// yet.
	Refusal error
	Guard   Guard // refuses what pages of other origins make a browser send

	// BasePath is in front of all paths, as in /dts; "" for none. Paths whose Policy says Always are served without it,
	// too.
	BasePath string

	BodyLimit       int64         // bytes of a body, unless the Policy of its path says otherwise; default 1 MiB
	RequestTimeout  time.Duration // of everything but streams; default 30s
	ReadTimeout     time.Duration // for the head and the first 64 KiB of a request, and each further 64 KiB; default 10s
	TransferMemory  int64         // bytes of request bodies under way, and as many of answers; default 64 MiB
	TransferTimeout time.Duration // for a whole body to arrive, and for a client to read a whole large answer; default 60s
	MaxConnections  int           // of one client's address; 0: any number
	MaxStreams      int           // 0: any number
	StreamsPerAddr  int           // of one client's address, of IPv6 its /64 network; 0: any number
	ShutdownGrace   time.Duration // for requests in progress when Run is told to end; default 10s
	Heartbeat       time.Duration // between the comments that keep a stream alive; default 15s
}

func (o Options) withDefaults() (Options, error) {
	if o.Log == nil {
		return o, errors.New("edge: Log must be set")
	}
	o.BodyLimit = cmp.Or(o.BodyLimit, 1<<20)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 30*time.Second)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 10*time.Second)
	o.TransferMemory = cmp.Or(o.TransferMemory, 64<<20)
	o.TransferTimeout = cmp.Or(o.TransferTimeout, time.Minute)
	o.ShutdownGrace = cmp.Or(o.ShutdownGrace, 10*time.Second)
	o.Heartbeat = cmp.Or(o.Heartbeat, 15*time.Second)
	return o, nil
}

// Server is what listens. It answers every path with CodeNotFound until somebody registers routes.
type Server struct {
	options     Options
	echo        *echo.Echo
	policies    map[string]Policy // by path of Echo
	stopping    context.Context   // ends when Run is told to end; streams live no longer than this
	stopStreams context.CancelFunc
	bodies      *budget // bytes of request bodies
	answers     *budget // bytes of large answers
	streams     *Places
}

// New makes a server without routes. It fails if an option is missing.
func New(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		options: o, echo: echo.New(), policies: map[string]Policy{},
		bodies: newBudget(o.TransferMemory), answers: newBudget(o.TransferMemory),
		streams: NewPlaces(o.StreamsPerAddr, o.MaxStreams),
	}
	s.stopping, s.stopStreams = context.WithCancel(context.Background())
	s.echo.HideBanner, s.echo.HidePort = true, true
	s.echo.IPExtractor = echo.ExtractIPDirect() // a header can say anything
	s.echo.HTTPErrorHandler = s.fail
	s.echo.OnAddRouteHandler = s.addHead
	s.echo.Use(
		requestID, s.accessLog, s.recover, limitHead, s.guardOrigin, s.guardRefusal, s.identify, s.limitBody)
	if o.BasePath != "" {
		s.echo.Pre(s.takeBase)
		s.echo.Use(s.guardBase)
	}
	return s, nil
}

// Echo is where routes are registered, before Run. Their handlers return errors, each of which becomes a Problem. It
// serves everything: whoever uses it as a handler instead of Run brings the timeouts.
func (s *Server) Echo() *echo.Echo { return s.echo }

// Options are those of New, with their defaults.
func (s *Server) Options() Options { return s.options }

// Stopping ends when Run is told to end: what waits for a client, or for something to happen, ends then too.
func (s *Server) Stopping() context.Context { return s.stopping }
