package grpcexec

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"google.golang.org/protobuf/proto"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/grpcexec/grpccall"
)

// descriptorsLimit bounds the serialized descriptors of a server or a file.
const descriptorsLimit = 4 << 20

// descriptorFilesLimit bounds their number.
const descriptorFilesLimit = 10_000

// methods finds methods: in the payload, in a file of the node's folder, or by asking the server. It remembers what it found.
type methods struct {
	folder string
	known  *cache
}

// request makes the message of a call. If what is known of the method does not fit the request, the method is looked up again, as it may
// have changed. Errors: *executor.InvalidPayloadError and a permanent *executor.Verdict; others if the server or the file cannot be read.
func (ms *methods) request(ctx context.Context, conn *conn, c *grpccall.Call) (proto.Message, *grpccall.Method, error) {
	if m := ms.known.get(keyOf(c)); m != nil {
		if message, err := m.Read(c.Request); err == nil {
			return message, m, nil
		}
	}
	m, size, err := ms.find(ctx, conn, c)
	if err != nil {
		return nil, nil, err
	}
	ms.known.put(keyOf(c), m, size)
	message, err := m.Read(c.Request)
	return message, m, err
}

// forget makes the next call look its method up again.
func (ms *methods) forget(c *grpccall.Call) { ms.known.drop(keyOf(c)) }

// cacheKey says where a method was found.
type cacheKey struct {
	server grpccall.Server // of reflection
	method grpccall.Name
	file   string
	set    [sha256.Size]byte
}

func keyOf(c *grpccall.Call) cacheKey {
	switch {
	case c.Set != nil:
		return cacheKey{method: c.Method, set: sha256.Sum256(c.Set)}
	case c.File != "":
		return cacheKey{method: c.Method, file: c.File}
	}
	return cacheKey{method: c.Method, server: c.Server}
}

// find looks a method up, and returns the size of the descriptors as well.
func (ms *methods) find(ctx context.Context, conn *conn, c *grpccall.Call) (*grpccall.Method, int, error) {
	switch {
	case c.Set != nil:
		m, err := grpccall.MethodOfSet("descriptor_set", c.Set, c.Method)
		return m, len(c.Set), err
	case c.File != "":
		set, err := ms.readFile(c.File)
		if err != nil {
			return nil, 0, err
		}
		m, err := grpccall.MethodOfSet("descriptor_file", set, c.Method)
		return m, len(set), err
	}
	files, size, err := reflectService(ctx, conn, c.Method.Service)
	if err != nil {
		return nil, 0, err
	}
	m, err := grpccall.MethodOf("method", files, c.Method)
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
