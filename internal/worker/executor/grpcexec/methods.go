package grpcexec

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// descriptorsLimit bounds the serialized descriptors of a server or a file.
const descriptorsLimit = 4 << 20

// descriptorFilesLimit bounds their number.
const descriptorFilesLimit = 10_000

// method is a unary method and what is needed to read and write its messages.
type method struct {
	protoreflect.MethodDescriptor
	types *dynamicpb.Types
}

// read makes a message from the JSON of a request. Error: *executor.InvalidPayloadError.
func (m *method) read(request json.RawMessage) (proto.Message, error) {
	message := dynamicpb.NewMessage(m.Input())
	err := guarded(func() error { return (protojson.UnmarshalOptions{Resolver: m.types}).Unmarshal(request, message) })
	if err != nil {
		return nil, executor.Invalid("request", "is not a %s: %s", m.Input().FullName(), plain(err))
	}
	return message, nil
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

// plain is the text of an error of protobuf, whose spaces differ from build to build.
func plain(err error) string {
	return strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: ")
}

// methods finds methods: in the payload, in a file of the node's folder, or by asking the server. It remembers what it found.
type methods struct {
	folder string
	known  *cache
}

// request makes the message of a call. If what is known of the method does not fit the request, the method is looked up again, as it may
// have changed. Errors: *executor.InvalidPayloadError and *executor.PermanentError; others if the server or the file cannot be read.
func (ms *methods) request(ctx context.Context, conn *conn, c *call) (proto.Message, *method, error) {
	if m := ms.known.get(c.key()); m != nil {
		if message, err := m.read(c.request); err == nil {
			return message, m, nil
		}
	}
	m, size, err := ms.find(ctx, conn, c)
	if err != nil {
		return nil, nil, err
	}
	ms.known.put(c.key(), m, size)
	message, err := m.read(c.request)
	return message, m, err
}

// forget makes the next call look its method up again.
func (ms *methods) forget(c *call) { ms.known.drop(c.key()) }

// cacheKey says where a method was found.
type cacheKey struct {
	server server // of reflection
	method methodName
	file   string
	set    [sha256.Size]byte
}

func (c *call) key() cacheKey {
	switch {
	case c.set != nil:
		return cacheKey{method: c.method, set: sha256.Sum256(c.set)}
	case c.file != "":
		return cacheKey{method: c.method, file: c.file}
	}
	return cacheKey{method: c.method, server: c.server}
}

// find looks a method up, and returns the size of the descriptors as well.
func (ms *methods) find(ctx context.Context, conn *conn, c *call) (*method, int, error) {
	switch {
	case c.set != nil:
		m, err := methodOfSet("descriptor_set", c.set, c.method)
		return m, len(c.set), err
	case c.file != "":
		set, err := ms.readFile(c.file)
		if err != nil {
			return nil, 0, err
		}
		m, err := methodOfSet("descriptor_file", set, c.method)
		return m, len(set), err
	}
	files, size, err := reflectService(ctx, conn, c.method.service)
	if err != nil {
		return nil, 0, err
	}
	m, err := methodOf("method", files, c.method)
	return m, size, err
}

// readFile reads a descriptor set from the folder, and from no other place.
func (ms *methods) readFile(name string) ([]byte, error) {
	if ms.folder == "" {
		return nil, executor.Permanent(errors.New("payload.descriptor_file: this node has no folder of descriptor sets: --grpc-descriptors is not set"))
	}
	root, err := os.OpenRoot(ms.folder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	f, err := root.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, executor.Permanent(fmt.Errorf("payload.descriptor_file: this node has no %s", task.Cut(name, excerptLimit)))
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	set, err := io.ReadAll(io.LimitReader(f, descriptorsLimit+1))
	if err == nil && len(set) > descriptorsLimit {
		return nil, executor.Permanent(fmt.Errorf("payload.descriptor_file: %s is longer than %d bytes", task.Cut(name, excerptLimit), descriptorsLimit))
	}
	return set, err
}

// methodOfSet finds a method in a serialized FileDescriptorSet, which a field of the payload has or names. Error:
// *executor.InvalidPayloadError.
func methodOfSet(field string, serialized []byte, name methodName) (*method, error) {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(serialized, &set); err != nil {
		return nil, executor.Invalid(field, "is not a serialized FileDescriptorSet, as protoc --descriptor_set_out --include_imports writes it")
	}
	return methodOf(field, set.GetFile(), name)
}

// methodOf finds a unary method in descriptors. Files of Google that every program with protobuf has may be missing. Error:
// *executor.InvalidPayloadError, for the field from which the descriptors are if they are invalid.
func methodOf(field string, descriptors []*descriptorpb.FileDescriptorProto, name methodName) (*method, error) {
	var files *protoregistry.Files
	err := guarded(func() (err error) {
		files, err = protodesc.NewFiles(&descriptorpb.FileDescriptorSet{File: withWellKnown(descriptors)})
		return err
	})
	if err != nil {
		return nil, executor.Invalid(field, "the descriptors are invalid: %s", plain(err))
	}
	found, err := files.FindDescriptorByName(protoreflect.FullName(name.service))
	service, ok := found.(protoreflect.ServiceDescriptor)
	if err != nil || !ok {
		return nil, executor.Invalid("method", "there is no service %s", name.service)
	}
	m := service.Methods().ByName(protoreflect.Name(name.name))
	switch {
	case m == nil:
		return nil, executor.Invalid("method", "%s has no method %s, only %s", name.service, name.name, methodNames(service))
	case m.IsStreamingClient() || m.IsStreamingServer():
		return nil, executor.Invalid("method", "%s is a stream: only unary methods can be called", name)
	}
	return &method{MethodDescriptor: m, types: dynamicpb.NewTypes(files)}, nil
}

func methodNames(service protoreflect.ServiceDescriptor) string {
	names := make([]string, service.Methods().Len())
	for i := range names {
		names[i] = string(service.Methods().Get(i).Name())
	}
	return strings.Join(names, ", ")
}

// withWellKnown adds files that others import and that are missing, if this program has them.
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
			if f := wellKnown(imported); f != nil {
				files = append(files, f)
			}
		}
	}
	return files
}

// wellKnown returns a file of protobuf itself, nil if it is none.
func wellKnown(name string) *descriptorpb.FileDescriptorProto {
	if !strings.HasPrefix(name, "google/protobuf/") {
		return nil
	}
	f, err := protoregistry.GlobalFiles.FindFileByPath(name)
	if err != nil {
		return nil
	}
	return protodesc.ToFileDescriptorProto(f)
}
