package grpcexec

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/dts-sched/dts/internal/testkit"
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
		got, err := execute(t, e, object{"target": s.target, "method": unary, "descriptor_file": "a", "request": object{name: 3}})
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
