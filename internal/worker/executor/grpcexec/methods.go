package grpcexec

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/grpcexec/grpccall"
)

// descriptorsLimit bounds the serialized descriptors of a server or a file.
const descriptorsLimit = 4 << 20

// descriptorFilesLimit bounds their number.
const descriptorFilesLimit = 10_000

// methods finds methods: in the payload, in a file of the node's folder, or by asking the server. It remembers what it
// found.
type methods struct {
	folder string
	known  *cache
}

// request makes the serialized message of a call. If what is known of the method does not fit the request, the method
// is looked up again, as it may have changed. Errors: *executor.InvalidPayloadError and a permanent *executor.Verdict;
// others if the server or the file cannot be read.
func (ms *methods) request(ctx context.Context, conn *conn, c *grpccall.Call) (request []byte, err error) {
	encode := func(m *grpccall.Method) (err error) {
		request, err = m.Encode(c.Request)
		return err
	}
	if known, err := ms.useKnown(ctx, c, c.RequestCost(), encode); known && err == nil {
		return request, nil
	}
	err = ms.useNew(ctx, conn, c, c.RequestCost(), encode)
	return request, err
}

// result makes the result of a response. An attempt does not keep its method while it waits for the server, so if that
// is not known any more, it is looked up again. Errors: grpccall.ErrMalformed; any other means that there is no result.
func (ms *methods) result(ctx context.Context, conn *conn, c *grpccall.Call, response []byte) (text string, err error) {
	cost := grpccall.ResponseLimit
	if m := ms.known.get(keyOf(c)); m != nil {
		if cost, err = m.ResponseCost(response); err != nil {
			return "", err
		}
	}
	write := func(m *grpccall.Method) error {
		written, err := m.Text(response)
		text = strings.Clone(task.Cut(written, task.ResultLimit))
		return err
	}
	if known, err := ms.useKnown(ctx, c, cost, write); known || err != nil {
		return text, err
	}
	err = ms.useNew(ctx, conn, c, cost, write)
	return text, err
}

// useKnown calls use with the method of a call, within executor.Decode, if it is known.
func (ms *methods) useKnown(
	ctx context.Context, c *grpccall.Call, cost int, use func(*grpccall.Method) error,
) (known bool, err error) {
	key := keyOf(c)
	if ms.known.get(key) == nil {
		return false, nil
	}
	err = executor.Decode(ctx, cost, func() error {
		m := ms.known.get(key) // not from before the wait: others may have taken its place in memory
		if known = m != nil; !known {
			return nil
		}
		return use(m)
	})
	return known, err
}

// useNew looks the method of a call up, and calls use with it, within executor.Decode.
func (ms *methods) useNew(
	ctx context.Context, conn *conn, c *grpccall.Call, cost int, use func(*grpccall.Method) error,
) error {
	set, err := ms.find(ctx, conn, c)
	if err != nil {
		return err
	}
	return executor.Decode(ctx, set.Cost+cost, func() error {
		m, err := set.Method(c.Method)
		if err != nil {
			return err
		}
		ms.known.put(keyOf(c), m, set.Cost)
		return use(m)
	})
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

// find finds the descriptors of a method.
func (ms *methods) find(ctx context.Context, conn *conn, c *grpccall.Call) (*grpccall.Set, error) {
	switch {
	case c.Set != nil:
		return grpccall.ReadSet(grpccall.OfPayload, c.Set)
	case c.File != "":
		set, err := ms.readFile(c.File)
		if err != nil {
			return nil, err
		}
		return grpccall.ReadSet(grpccall.OfFile, set)
	}
	return reflectService(ctx, conn, c.Method.Service)
}

// readFile reads a descriptor set from the folder, and from no other place.
func (ms *methods) readFile(name string) ([]byte, error) {
	if ms.folder == "" {
		return nil, executor.Permanent(errors.New(
			"payload.descriptor_file: this node has no folder of descriptor sets: --grpc-descriptors is not set"))
	}
	root, err := openFolder(ms.folder)
	if err != nil {
		return nil, unreadable(err)
	}
	defer func() { _ = root.Close() }()
	f, err := root.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, executor.Permanent(
			fmt.Errorf("payload.descriptor_file: this node has no %s", task.Cut(name, excerptLimit)))
	}
	if err != nil {
		return nil, unreadable(err)
	}
	defer func() { _ = f.Close() }()
	set, err := io.ReadAll(io.LimitReader(f, descriptorsLimit+1))
	switch {
	case err != nil:
		return nil, unreadable(err)
	case len(set) > descriptorsLimit:
		return nil, executor.Permanent(fmt.Errorf("payload.descriptor_file: %s is longer than %d bytes",
			task.Cut(name, excerptLimit), descriptorsLimit))
	}
	return set, nil
}

// openFolder opens the folder of descriptor sets. Error: it names the setting.
func openFolder(path string) (*os.Root, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("grpc-descriptors: %w", err)
	}
	return root, nil
}

// unreadable is the error for a file that cannot be read, or a folder. It is final if the node lacks it, or a right to
// it.
func unreadable(err error) error {
	named := fmt.Errorf("payload.descriptor_file: %w", err)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EISDIR) {
		return executor.Permanent(named)
	}
	return named
}
