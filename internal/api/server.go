package api

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
)

// Check is one thing that must be well for the node to be ready.
type Check struct {
	Name string
	Do   func(ctx context.Context) error
}

// Options says what to serve. Fields without a stated default must be set.
type Options struct {
	Control *control.Control
	Log     *slog.Logger

	Types   task.Types // tells the timeout of a task that names none; nil: DefaultTimeout
	Version string     // what /healthz tells
	Ready   []Check    // what /readyz looks at; none: always ready
	// Warnings is what /readyz tells besides of a node that is ready: what somebody must change; nil: nothing.
	Warnings func() []string
	Monitor  http.Handler // at /monitor; nil: not served
	Metrics  http.Handler // at /metrics; nil: not served

	// Refusal, if set, answers everything but /healthz, /readyz and /metrics: for a node that does not serve more, or not
	// yet. Then Control is not needed.
	Refusal error
	Guard   Guard // refuses what pages of other origins make a browser send

	Refused         func(code string) // called for each task, and request that creates work, that may be accepted later; nil: nobody counts them
	BodyLimit       int64             // bytes; default 1 MiB
	BatchBodyLimit  int64             // bytes of POST /v1/tasks/batch; default 8 MiB
	RequestTimeout  time.Duration     // of everything but streams; default 30s
	ReadTimeout     time.Duration     // for the head and the first 64 KiB of a request to arrive, and each further 64 KiB; default 10s
	TransferMemory  int64             // bytes of request bodies under way, and as many of answers; default 64 MiB
	TransferTimeout time.Duration     // for a whole body to arrive, and for a client to read a whole large answer; default 60s
	MaxConnections  int               // of one client's address; 0: any number
	MaxStreams      int               // of events and logs; 0: any number
	StreamsPerAddr  int               // of one client's address, of IPv6 its /64 network; 0: any number
	ShutdownGrace   time.Duration     // for requests in progress when Run is told to end; default 10s
	Heartbeat       time.Duration     // between the comments that keep a stream alive; default 15s
}

func (o Options) withDefaults() (Options, error) {
	if o.Log == nil || o.Refusal == nil && (o.Control == nil) {
		return o, errors.New("api: Control and Log must be set")
	}
	o.BodyLimit = cmp.Or(o.BodyLimit, 1<<20)
	o.BatchBodyLimit = cmp.Or(o.BatchBodyLimit, 8<<20)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 30*time.Second)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 10*time.Second)
	o.TransferMemory = cmp.Or(o.TransferMemory, 64<<20)
	o.TransferTimeout = cmp.Or(o.TransferTimeout, time.Minute)
	o.ShutdownGrace = cmp.Or(o.ShutdownGrace, 10*time.Second)
	o.Heartbeat = cmp.Or(o.Heartbeat, 15*time.Second)
	return o, nil
}

// Server serves the API.
type Server struct {
	options     Options
	echo        *echo.Echo
	stopping    context.Context // ends when Run is told to end; streams live no longer than this
	stopStreams context.CancelFunc
	bodies      *budget // bytes of request bodies
	decoding    decoding
	answers     *answers
	waiting     waiting
}

// New makes a server. It fails if an option is missing.
func New(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	d, err := describe()
	if err != nil {
		return nil, err
	}
	s := &Server{options: o, echo: echo.New()}
	s.decoding = make(decoding, decodingLimit)
	s.waiting = waiting{
		streams: &places{perAddress: o.StreamsPerAddr, all: o.MaxStreams},
		takes:   &places{perAddress: waitsPerAddress, all: waitsLimit},
		locks:   &places{perAddress: waitsPerAddress, all: waitsLimit},
	}
	s.bodies, s.answers = newBudget(o.TransferMemory), &answers{room: newBudget(o.TransferMemory), whole: o.TransferTimeout}
	s.stopping, s.stopStreams = context.WithCancel(context.Background())
	s.echo.HideBanner, s.echo.HidePort = true, true
	s.echo.IPExtractor = echo.ExtractIPDirect() // a header can say anything
	s.echo.HTTPErrorHandler = s.fail
	s.echo.Use(requestID, s.accessLog, s.recover, s.guardOrigin, s.guardRefusal, identify, s.limitBody)
	e := &endpoints{
		Options: o, answers: s.answers, stopping: s.stopping, document: d.json, decoding: s.decoding, waiting: s.waiting,
		submission: d.doc.Components.Schemas["Submission"].Value,
	}
	RegisterHandlersWithOptions(s.echo, e, RegisterHandlersOptions{OperationMiddlewares: s.perOperation(d.doc)})
	s.mount("/metrics", o.Metrics)
	s.mount(monitorPath, o.Monitor, s.monitorTurn)
	return s, nil
}

// Handler serves everything; whoever uses it instead of Run brings the timeouts.
func (s *Server) Handler() http.Handler { return s.echo }

// healthTag is that of operations for probes. They take any parameters: those of a probe must not make a node look dead.
const healthTag = "health"

// perOperation is what each operation of the document has in front of its handler, by operation id.
func (s *Server) perOperation(doc *openapi3.T) map[string][]echo.MiddlewareFunc {
	chains := map[string][]echo.MiddlewareFunc{}
	for _, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			v := validator{parameters: slices.Concat(op.Parameters, item.Parameters), turns: s.decoding}
			if op.RequestBody != nil {
				v.body = op.RequestBody.Value.Content.Get(jsonType).Schema.Value
				v.bodyless = !op.RequestBody.Value.Required
			}
			if op.OperationID == batchOperation {
				v.body = withoutItems(v.body, "tasks")
				v.lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
			}
			chains[op.OperationID] = []echo.MiddlewareFunc{s.admit(op, v), s.limitTime(op)}
			if !slices.Contains(op.Tags, healthTag) {
				chains[op.OperationID] = append(chains[op.OperationID], v.check)
			}
			if slices.Contains(paged, op.OperationID) {
				chains[op.OperationID] = append(chains[op.OperationID], s.page)
			}
			if hasLargeAnswer(method, op.OperationID) {
				chains[op.OperationID] = slices.Insert(chains[op.OperationID], 1, s.answers.guardShare) // behind what counts refusals
			}
		}
	}
	return chains
}

// endpoints answers the operations of the document. Its methods are in files named after their nouns.
type endpoints struct {
	Options
	*answers
	waiting
	stopping   context.Context
	document   []byte
	decoding   decoding
	submission *openapi3.Schema
}

var _ ServerInterface = (*endpoints)(nil)
