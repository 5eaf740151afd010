package grpccall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/dts-sched/dts/internal/worker/executor"
)

// Method is a unary method and what is needed to read and write its messages.
type Method struct {
	protoreflect.MethodDescriptor
	types *dynamicpb.Types
}

// Encode makes a serialized message of the JSON of a request. Call it within executor.Decode, with the RequestCost of the
// call. Error: *executor.InvalidPayloadError.
func (m *Method) Encode(request json.RawMessage) (wire []byte, err error) {
	message := dynamicpb.NewMessage(m.Input())
	err = guarded(func() (err error) {
		if err = (protojson.UnmarshalOptions{Resolver: m.types}).Unmarshal(request, message); err == nil {
			wire, err = proto.Marshal(message)
		}
		return err
	})
	if err != nil {
		return nil, executor.Invalid("request", "is not a %s: %s", m.Input().FullName(), Plain(err))
	}
	return wire, nil
}

// RequestCost is about how many bytes of memory Encode takes: [{},{}] makes a message of three bytes.
func (c *Call) RequestCost() int { return len(c.Request) * messageCost / 3 }

// Memory that the messages of a call take with their JSON, measured: an empty message takes 200 bytes and 200 more while
// it is read, one with a field 550 and 400 more.
const (
	messageCost = 700
	valueCost   = 64

	// ResponseLimit is how many bytes of memory a response may take that is written as JSON.
	ResponseLimit = 48 << 20
)

// ErrMalformed says that a response does not fit its description.
var ErrMalformed = errors.New("the response is malformed")

// ResponseCost is about how many bytes of memory Text takes. Error: they are too many.
func (m *Method) ResponseCost(response []byte) (int, error) {
	w := weigher{
		message: messageCost, value: valueCost, types: m.types, names: true, limit: ResponseLimit,
		longest: map[protoreflect.FullName]int{},
	}
	if !w.weigh(response, m.Output()) {
		return 0, fmt.Errorf("it takes more than %d MiB of memory", ResponseLimit>>20)
	}
	return w.sum, nil
}

// Text makes JSON of a serialized response. Call it within executor.Decode, with its ResponseCost. Errors: one that wraps
// ErrMalformed; that of ResponseCost; any other means that the descriptors are unusable.
func (m *Method) Text(response []byte) (string, error) {
	if _, err := m.ResponseCost(response); err != nil {
		return "", err
	}
	message := dynamicpb.NewMessage(m.Output())
	var text []byte
	err := guarded(func() (err error) {
		if err := (proto.UnmarshalOptions{Resolver: noExtensions}).Unmarshal(response, message); err != nil {
			return fmt.Errorf("%w: %s", ErrMalformed, Plain(err))
		}
		text, err = protojson.MarshalOptions{Resolver: m.types}.Marshal(message)
		return err
	})
	if err != nil {
		return "", err
	}
	var compact bytes.Buffer // protojson adds spaces, which differ from build to build
	if err := json.Compact(&compact, text); err != nil {
		return "", err
	}
	return compact.String(), nil
}

// noExtensions leaves extensions of responses unread, as nothing says what they are.
var noExtensions = new(protoregistry.Types)

// guarded turns a panic into an error. Descriptors come from outside, and protobuf panics at some that it does not expect, such as a
// google.protobuf.Timestamp without seconds.
func guarded(convert func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the descriptors are unusable: %v", p)
		}
	}()
	return convert()
}

// Plain is the text of an error of protobuf, whose spaces differ from build to build.
func Plain(err error) string {
	return strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: ")
}

// methodOf finds a unary method in descriptors, which are from a field of the payload. Error:
// *executor.InvalidPayloadError.
func methodOf(field string, descriptors []*descriptorpb.FileDescriptorProto, name Name) (*Method, error) {
	var files *protoregistry.Files
	err := guarded(func() (err error) {
		files, err = protodesc.NewFiles(&descriptorpb.FileDescriptorSet{File: descriptors})
		return err
	})
	if err != nil {
		return nil, executor.Invalid(field, "the descriptors are invalid: %s", Plain(err))
	}
	found, err := files.FindDescriptorByName(protoreflect.FullName(name.Service))
	service, ok := found.(protoreflect.ServiceDescriptor)
	if err != nil || !ok {
		return nil, executor.Invalid("method", "there is no service %s", name.Service)
	}
	m := service.Methods().ByName(protoreflect.Name(name.Method))
	switch {
	case m == nil:
		return nil, executor.Invalid("method", "%s has no method %s, only %s", name.Service, name.Method, methodNames(service))
	case m.IsStreamingClient() || m.IsStreamingServer():
		return nil, executor.Invalid("method", "%s is a stream: only unary methods can be called", name)
	}
	return &Method{MethodDescriptor: m, types: dynamicpb.NewTypes(files)}, nil
}

func methodNames(service protoreflect.ServiceDescriptor) string {
	names := make([]string, service.Methods().Len())
	for i := range names {
		names[i] = string(service.Methods().Get(i).Name())
	}
	return strings.Join(names, ", ")
}

// withWellKnown adds files of protobuf itself that others import and that are missing.
func withWellKnown(files []*descriptorpb.FileDescriptorProto) []*descriptorpb.FileDescriptorProto {
	have := map[string]bool{}
	for _, f := range files {
		have[f.GetName()] = true
	}
	for i := 0; i < len(files); i++ { // files grows
		for _, imported := range files[i].GetDependency() {
			if have[imported] {
				continue
			}
			have[imported] = true
			if f := WellKnown(imported); f != nil {
				files = append(files, f)
			}
		}
	}
	return files
}
