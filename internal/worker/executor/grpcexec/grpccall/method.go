package grpccall

import (
	"bytes"
	"encoding/json"
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

// Read makes a message from the JSON of a request. Error: *executor.InvalidPayloadError.
func (m *Method) Read(request json.RawMessage) (proto.Message, error) {
	message := dynamicpb.NewMessage(m.Input())
	err := guarded(func() error { return (protojson.UnmarshalOptions{Resolver: m.types}).Unmarshal(request, message) })
	if err != nil {
		return nil, executor.Invalid("request", "is not a %s: %s", m.Input().FullName(), Plain(err))
	}
	return message, nil
}

// Text makes JSON of a message, as a response is one. Error: the descriptors are unusable.
func (m *Method) Text(message proto.Message) (string, error) {
	var text []byte
	err := guarded(func() (err error) {
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

// MethodOfSet finds a method in a serialized FileDescriptorSet, which a field of the payload has or names. Error:
// *executor.InvalidPayloadError.
func MethodOfSet(field string, serialized []byte, name Name) (*Method, error) {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(serialized, &set); err != nil {
		return nil, executor.Invalid(field, "is not a serialized FileDescriptorSet, as protoc --descriptor_set_out --include_imports writes it")
	}
	return MethodOf(field, set.GetFile(), name)
}

// MethodOf finds a unary method in descriptors. Files of protobuf itself may be missing. Error:
// *executor.InvalidPayloadError, for the field from which the descriptors are if they are invalid.
func MethodOf(field string, descriptors []*descriptorpb.FileDescriptorProto, name Name) (*Method, error) {
	var files *protoregistry.Files
	err := guarded(func() (err error) {
		files, err = protodesc.NewFiles(&descriptorpb.FileDescriptorSet{File: withWellKnown(descriptors)})
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
