// Package grpcexec runs tasks of type grpc: it makes a unary gRPC call for each attempt, of any method that the server describes by
// reflection, or a descriptor set does.
package grpcexec

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/address"
	"github.com/dts-sched/dts/internal/worker/executor/certs"
	"github.com/dts-sched/dts/internal/worker/executor/grpcexec/grpccall"
)

const (
	messageLimit = 4 << 20  // bytes of an answer, and of a request
	headerLimit  = 64 << 10 // bytes of an answer's metadata
	excerptLimit = 200      // bytes of a name that an error quotes
)

// Describe describes the executor. The rules say which addresses it may call; http declares their settings.
func Describe(rules *address.Rules) *executor.Descriptor {
	s := &settings{files: certs.Files{Type: "grpc"}}
	d := grpccall.Describe()
	d.Settings = s
	d.New = func(o executor.Options) (executor.Executor, error) {
		if err := s.check(); err != nil {
			return nil, err
		}
		rules.Protect(o.Own)
		return New(Options{Version: o.Version, Rules: rules, Descriptors: s.descriptors, Files: s.files}), nil
	}
	return d
}

type settings struct {
	descriptors string
	files       certs.Files
}

func (s *settings) Declare(flags *pflag.FlagSet) {
	flags.StringVar(&s.descriptors, "grpc-descriptors", s.descriptors, "folder with the descriptor sets that grpc tasks name in descriptor_file (default: none)")
	s.files.Declare(flags)
}

// check looks for the files and the folder on this node. Error: it names the settings of those that cannot be used.
func (s *settings) check() error {
	err := s.files.Check()
	if s.descriptors == "" {
		return err
	}
	root, folderErr := openFolder(s.descriptors)
	if folderErr != nil {
		return errors.Join(err, folderErr)
	}
	return errors.Join(err, root.Close())
}

// Validate reads no file: only a worker needs them, and reads descriptors when a task names them.
func (s *settings) Validate() error { return s.files.Validate() }

// Options say how an executor makes its calls.
type Options struct {
	Version     string         // of this program, for the user agent; "" if it is not known
	Rules       *address.Rules // nil for every address but those of cloud metadata
	Descriptors string         // folder of descriptor sets; "" for none
	Files       certs.Files
}

// Executor makes the call that the payload of an attempt describes. The response, as JSON, is the result.
//
// A call is sent at most once in an attempt. Attempts share connections to the same target, whose number is bounded, and what was learned
// by reflection. Each address to which the executor connects is checked against the rules; there are no proxies.
type Executor struct {
	pool    *pool
	methods *methods
}

// New makes an executor. Close it at the end.
func New(o Options) *Executor {
	if o.Rules == nil {
		o.Rules = address.New()
	}
	return &Executor{
		pool:    newPool(&dialer{rules: o.Rules, files: o.Files, userAgent: "dts/" + cmp.Or(o.Version, "dev")}),
		methods: &methods{folder: o.Descriptors, known: newCache(cacheLimit)},
	}
}

// Close closes the connections.
func (e *Executor) Close() error { return e.pool.close() }

// Execute makes the call. There is no grace period: it gives up as soon as ctx ends.
func (e *Executor) Execute(ctx context.Context, a executor.Attempt) (string, error) {
	c, err := grpccall.Parse(a.Payload)
	if err != nil {
		return "", err
	}
	result, err := e.do(ctx, c, a)
	if err != nil {
		return "", executor.Failure(ctx, task.Cut(c.Method.String(), excerptLimit), err)
	}
	return result, nil
}

func (e *Executor) do(ctx context.Context, c *grpccall.Call, a executor.Attempt) (_ string, err error) {
	conn, err := e.pool.get(ctx, c.Server)
	if err != nil {
		return "", err
	}
	defer func() { e.pool.put(conn, conn.unusable(ctx, err)) }()
	ctx = metadata.NewOutgoingContext(ctx, metadataOf(c, a))
	wire, err := e.methods.request(ctx, conn, c)
	if err != nil {
		return "", conn.explain(judge(c, err))
	}
	request, response := serialized(wire), serialized(nil)
	if err := conn.Invoke(ctx, c.Method.Path(), request, response); err != nil {
		if isCode(err, codes.Unimplemented) {
			e.methods.forget(c)
		}
		return "", conn.explain(judge(c, err))
	}
	result, err := e.methods.result(ctx, conn, c, response.ProtoReflect().GetUnknown())
	if errors.Is(err, grpccall.ErrMalformed) {
		return "", judge(c, status.Error(codes.Internal, err.Error()))
	}
	if err != nil {
		a.Log("stderr", task.Cut("the response cannot be written as JSON: "+err.Error(), task.LogLineLimit))
		return "", nil // the call itself was a success, and must not be made again
	}
	return result, nil
}

// serialized is a message that has been serialized already, or is left so when it is received: an empty one, all of whose
// fields are unknown.
func serialized(wire []byte) proto.Message {
	m := &emptypb.Empty{}
	m.ProtoReflect().SetUnknown(wire)
	return m
}
