package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/task"
)

const (
	// Limits of calls that wait, each for takeAttempts and for acquireLock. A node has 200 workers, and whoever waits for
	// a lock holds only a connection.
	waitsPerAddress = 1000
	waitsLimit      = 4000

	// Limits of requests that wait for the end of a task: each looks at every event.
	resultsPerAddress = 250
	resultsLimit      = 500

	batchPath = "/v1/tasks/batch"
	docsPath  = "/docs" // the reference of the API, a page for people
)

// Check is one thing that must be well for the node to be ready.
type Check struct {
	Name string
	Do   func(ctx context.Context) error
}

// Options says what to serve. Fields without a stated default must be set.
type Options struct {
	Control *control.Control // nil only on a server that refuses (edge.Options.Refusal)

	Types   task.Types // tells the timeout of a task that names none; nil: DefaultTimeout
	Version string     // what /healthz tells
	Ready   []Check    // what /readyz looks at; none: always ready
	// Warnings is what /readyz tells besides of a node that is ready: what somebody must change; nil: nothing.
	Warnings func() []string
	Monitor  http.Handler // at /monitor; nil: not served
	// MonitorWritable says that pages of the monitor may pause and resume queues.
	MonitorWritable bool
	Metrics         http.Handler // at /metrics; nil: not served
	Docs            http.Handler // at /docs; nil: not served

	// Refused is called for each task, and request that creates work, that may be accepted later; nil: nobody counts them.
	Refused        func(code string)
	BatchBodyLimit int64 // bytes of POST /v1/tasks/batch; default 8 MiB
}

// Register makes a server serve the API, the health checks, the monitor, the metrics and the reference. It fails if an
// option is missing.
func Register(s *edge.Server, o Options) error {
	_, err := register(s, o)
	return err
}

func register(s *edge.Server, o Options) (*endpoints, error) {
	if o.Control == nil && s.Options().Refusal == nil {
		return nil, errors.New("api: Control must be set")
	}
	d, err := describe()
	if err != nil {
		return nil, err
	}
	e := &endpoints{
		Options: o, server: s, document: d.json, submission: d.doc.Components.Schemas["Submission"].Value,
		decoding: make(decoding, decodingLimit),
		takes:    edge.NewPlaces(waitsPerAddress, waitsLimit), locks: edge.NewPlaces(waitsPerAddress, waitsLimit),
		results: edge.NewPlaces(resultsPerAddress, resultsLimit),
	}
	s.SetPolicy(edge.Policy{Always: true, Routine: true}, "/healthz", "/readyz", metricsPath)
	s.SetPolicy(edge.Policy{Routine: true}, monitorPath, monitorPath+"/*")
	s.SetPolicy(edge.Policy{Costly: true}, costly(d.doc)...)
	s.SetPolicy(edge.Policy{BodyLimit: cmp.Or(o.BatchBodyLimit, 8<<20)}, batchPath)
	RegisterHandlersWithOptions(s.Echo(), e, RegisterHandlersOptions{OperationMiddlewares: e.perOperation(d.doc)})
	s.Mount(metricsPath, o.Metrics)
	s.Mount(docsPath, o.Docs)
	s.Mount(monitorPath, o.Monitor, e.monitorTurn)
	return e, nil
}

// endpoints answers the operations of the document. Its methods are in files named after their nouns.
type endpoints struct {
	Options
	server     *edge.Server
	document   []byte
	decoding   decoding
	submission *openapi3.Schema
	takes      *edge.Places // calls of workers that wait for attempts
	locks      *edge.Places // calls that wait for a lock
	results    *edge.Places // calls that wait for the end of a task
}

var _ ServerInterface = (*endpoints)(nil)
