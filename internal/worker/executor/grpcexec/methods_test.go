package grpcexec

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/interop/grpc_testing"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/grpcexec/grpccall"
)

func TestExecutor_LearnsThatADescriptionHasChanged(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	folder := t.TempDir()
	write := func(rename string) {
		set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
			protodesc.ToFileDescriptorProto(grpc_testing.File_grpc_testing_test_proto),
			protodesc.ToFileDescriptorProto(grpc_testing.File_grpc_testing_messages_proto),
			protodesc.ToFileDescriptorProto(grpc_testing.File_grpc_testing_empty_proto),
		}}
		for _, m := range set.File[1].MessageType {
			for _, f := range m.Field {
				if f.GetName() == "response_size" {
					f.Name, f.JsonName = &rename, nil
				}
			}
		}
		text, err := proto.Marshal(set)
		testkit.Must(t, err)
		testkit.Must(t, os.WriteFile(filepath.Join(folder, "a"), text, 0o600))
	}
	e := described(t, "--grpc-descriptors="+folder)
	for _, name := range []string{"old_size", "new_size"} {
		write(name)
		got, err := execute(t, e, object{
			"target": s.target, "method": unary, "descriptor_file": "a", "request": object{name: 3},
		})
		if want := `{"payload":{"body":"AAAA"}}`; err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestCache_KeepsTheLastUsedWithinItsLimit(t *testing.T) {
	t.Parallel()
	c := newCache(3 * (entryCost + 10))
	key := func(i int) cacheKey { return cacheKey{file: fmt.Sprint(i)} }
	for i := range 3 {
		c.put(key(i), &grpccall.Method{}, 10)
	}
	c.get(key(0))
	c.put(key(3), &grpccall.Method{}, 10)
	c.put(key(3), &grpccall.Method{}, 10)
	for i, want := range []bool{true, false, true, true} {
		if got := c.get(key(i)) != nil; got != want {
			t.Errorf("method %d is there: %v, want %v", i, got, want)
		}
	}
	c.put(key(4), &grpccall.Method{}, 3*(entryCost+10))
	if c.size != 0 || len(c.items) != 0 || c.order.Len() != 0 {
		t.Errorf("one that is too large leaves %d bytes in %d methods", c.size, len(c.items))
	}
	c.put(key(5), &grpccall.Method{}, 1)
	c.drop(key(5))
	if c.get(key(5)) != nil || c.size != 0 {
		t.Error("a dropped one is there")
	}
}

// describing is a server whose reflection says that of each service.
type describing struct {
	reflection.UnimplementedServerReflectionServer
	file []byte
}

func (d describing) ServerReflectionInfo(s reflection.ServerReflection_ServerReflectionInfoServer) error {
	for {
		if _, err := s.Recv(); err != nil {
			return nil //nolint:nilerr // the client has ended the stream
		}
		files := &reflection.FileDescriptorResponse{FileDescriptorProto: [][]byte{d.file}}
		err := s.Send(&reflection.ServerReflectionResponse{
			MessageResponse: &reflection.ServerReflectionResponse_FileDescriptorResponse{FileDescriptorResponse: files},
		})
		if err != nil {
			return err
		}
	}
}

// serveDescribed serves reflection that describes Health, and n messages beside it.
func serveDescribed(t *testing.T, n int) *running {
	t.Helper()
	file := protodesc.ToFileDescriptorProto(grpc_health_v1.File_grpc_health_v1_health_proto)
	for i := range n {
		file.MessageType = append(file.MessageType, &descriptorpb.DescriptorProto{Name: proto.String(fmt.Sprint("M", i))})
	}
	text, err := proto.Marshal(file)
	testkit.Must(t, err)
	return serveWith(t, func(s *grpc.Server) {
		reflection.RegisterServerReflectionServer(s, describing{file: text})
	})
}

func TestExecutor_BoundsWhatAServerDescribes(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	_, err := execute(t, e, object{"target": serveDescribed(t, 80_000).target, "method": check})
	const want = "payload.method: the descriptors take more than 48 MiB of memory"
	if err == nil || !strings.HasPrefix(err.Error(), want) || !executor.IsPermanent(err) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestCache_CountsTheMemoryOfDescriptors(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	const messages = 5000
	_, err := execute(t, e, object{"target": serveDescribed(t, messages).target, "method": check})
	testkit.Must(t, err)
	const each = 700 // bytes that an empty message takes, as measured
	if e.methods.known.size < messages*each {
		t.Errorf("%d messages count %d bytes, want at least %d for each", messages, e.methods.known.size, each)
	}
}

func TestExecutor_KeepsNoMethodWhileItWaits(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	s.hold = make(chan struct{})
	e := newExecutor(t)
	e.methods.known = newCache(0) // nothing has room
	done := make(chan error, 1)
	var result string
	go func() {
		var err error
		result, err = execute(t, e, object{"target": s.target, "method": unary, "request": object{"responseSize": 3}})
		done <- err
	}()
	<-s.started
	close(s.hold)
	testkit.Must(t, <-done)
	if want := `{"payload":{"body":"AAAA"}}`; result != want || s.asked.Load() != 2 {
		t.Errorf("%s after %d reflections, want %s after 2", result, s.asked.Load(), want)
	}
}
