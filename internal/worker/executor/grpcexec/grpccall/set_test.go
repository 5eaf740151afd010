package grpccall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

type (
	fileProto    = descriptorpb.FileDescriptorProto
	messageProto = descriptorpb.DescriptorProto
	fieldProto   = descriptorpb.FieldDescriptorProto
)

// described is the payload of a call of a.B/C, whose file is changed before it is serialized.
func described(t *testing.T, request any, change func(*fileProto), more ...*fileProto) json.RawMessage {
	t.Helper()
	return json.RawMessage(executortest.JSON(t, object{
		"target": "a:1", "method": "a.B/C", "request": request, "descriptor_set": serializedSet(t, change, more...),
	}))
}

// serializedSet describes a.B/C, which takes a.M and returns it.
func serializedSet(t *testing.T, change func(*fileProto), more ...*fileProto) []byte {
	t.Helper()
	in := ".a.M"
	f := &fileProto{
		Name: proto.String("a.proto"), Package: proto.String("a"), Syntax: proto.String("proto3"),
		MessageType: []*messageProto{{Name: proto.String("M"), Field: []*fieldProto{
			field("m", 1, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, &in),
			field("flags", 2, descriptorpb.FieldDescriptorProto_TYPE_BOOL, nil),
			field("any", 3, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, proto.String(".google.protobuf.Any")),
		}}},
		Dependency: []string{"google/protobuf/any.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: proto.String("B"), Method: []*descriptorpb.MethodDescriptorProto{{
				Name: proto.String("C"), InputType: &in, OutputType: &in,
			}},
		}},
	}
	change(f)
	serialized, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: append(more, f)})
	testkit.Must(t, err)
	return serialized
}

func field(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, of *string) *fieldProto {
	return &fieldProto{
		Name: &name, JsonName: &name, Number: &number, Type: &kind, TypeName: of,
		Label: descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum(),
	}
}

func addMessages(n int) func(*fileProto) {
	return func(f *fileProto) {
		for i := range n {
			f.MessageType = append(f.MessageType, &messageProto{Name: proto.String(fmt.Sprintf("M%d", i))})
		}
	}
}

func TestCheck_BoundsWhatDescriptorsTake(t *testing.T) {
	t.Parallel()
	const beyond = "the descriptors take more than 16 MiB of memory: leave out what the method does not need"
	for name, c := range map[string]struct {
		change  func(*fileProto)
		message string
	}{
		"empty messages": {addMessages(20_000), beyond},
		"values of an enum": {func(f *fileProto) {
			e := &descriptorpb.EnumDescriptorProto{Name: proto.String("E")}
			for range 25_000 {
				e.Value = append(e.Value, &descriptorpb.EnumValueDescriptorProto{})
			}
			f.EnumType = append(f.EnumType, e)
		}, beyond},
		"reserved ranges": {func(f *fileProto) {
			f.MessageType[0].ReservedRange = make([]*descriptorpb.DescriptorProto_ReservedRange, 25_000)
		}, beyond},
		"options": {func(f *fileProto) {
			f.Options = &descriptorpb.FileOptions{UninterpretedOption: make([]*descriptorpb.UninterpretedOption, 25_000)}
		}, beyond},
		"a long package": {func(f *fileProto) { f.Package = proto.String("a" + strings.Repeat(".a", 250)) },
			`"a.proto" has a name of more than 500 bytes`},
		"long names one in another": {func(f *fileProto) {
			for range 50 {
				long := strings.Repeat("a", 10)
				f.MessageType[0] = &messageProto{Name: &long, NestedType: []*messageProto{f.MessageType[0]}}
			}
		}, `"a.proto" has a name of more than 500 bytes`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Check(t.Context(), described(t, object{}, c.change))
			executortest.WantInvalid(t, err, "payload.descriptor_set", c.message)
		})
	}
	testkit.Must(t, Check(t.Context(), described(t, object{}, addMessages(10_000))))
}

// protobuf goes all ways through public imports, again for each file.
func TestCheck_BoundsPublicImports(t *testing.T) {
	t.Parallel()
	layers := func(n int) (files []*fileProto) {
		for i := range n {
			for _, side := range []string{"l", "r"} {
				f := &fileProto{Name: proto.String(fmt.Sprint(side, i))}
				if i > 0 {
					f.Dependency = []string{fmt.Sprint("l", i-1), fmt.Sprint("r", i-1)}
					f.PublicDependency = []int32{0, 1}
				}
				files = append(files, f)
			}
		}
		return files
	}
	nothing := func(*fileProto) {}
	testkit.Must(t, Check(t.Context(), described(t, object{}, nothing, layers(10)...)))
	err := Check(t.Context(), described(t, object{}, nothing, layers(40)...))
	executortest.WantInvalid(t, err, "payload.descriptor_set", "more than 100000 ways lead through public imports")
}

func TestCheck_TakesDescriptorsWithComments(t *testing.T) {
	t.Parallel()
	comment := &descriptorpb.SourceCodeInfo_Location{Path: []int32{4, 0}, Span: []int32{1, 2, 3}}
	plain, err := ReadSet(OfPayload, serializedSet(t, func(*fileProto) {}))
	testkit.Must(t, err)
	annotated, err := ReadSet(OfPayload, serializedSet(t, func(f *fileProto) {
		f.SourceCodeInfo = &descriptorpb.SourceCodeInfo{}
		for range 50_000 {
			f.SourceCodeInfo.Location = append(f.SourceCodeInfo.Location, comment)
		}
	}))
	testkit.Must(t, err)
	if plain.Cost != annotated.Cost {
		t.Errorf("comments take %d bytes", annotated.Cost-plain.Cost)
	}
	m, err := annotated.Method(Name{"a.B", "C"})
	testkit.Must(t, err)
	if n := m.ParentFile().SourceLocations().Len(); n != 0 {
		t.Errorf("%d comments are kept", n)
	}
}

func TestCheck_WaitsForItsTurn(t *testing.T) {
	payload := described(t, object{}, addMessages(10))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	testkit.Must(t, executor.Decode(t.Context(), 1<<30, func() error {
		if err := Check(ctx, payload); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it is checked while there is no room: %v", err)
		}
		return nil
	}))
	testkit.Must(t, Check(t.Context(), payload))
}

func TestMethod_BoundsWhatAResponseTakes(t *testing.T) {
	t.Parallel()
	method := func(change func(*fileProto)) *Method {
		set, err := ReadSet(OfServer, serializedSet(t, change))
		testkit.Must(t, err)
		m, err := set.Method(Name{"a.B", "C"})
		testkit.Must(t, err)
		return m
	}
	nothing := func(*fileProto) {}
	longName := func(f *fileProto) { f.MessageType[0].Field[1].JsonName = proto.String(strings.Repeat("a", 100_000)) }
	lengthed := func(tag byte, content string) string {
		n := len(content)
		return string([]byte{tag, byte(n) | 0x80, byte(n>>7) | 0x80, byte(n >> 14)}) + content
	}
	empties := strings.Repeat("\x0a\x00", 200_000)
	for name, c := range map[string]struct {
		change   func(*fileProto)
		response string
		fits     bool
	}{
		"empty messages":       {nothing, empties, false},
		"some empty messages":  {nothing, empties[:40_000], true},
		"packed flags":         {nothing, "\x12\x80\x89\x7a" + strings.Repeat("\x01", 2_000_000), false},
		"messages in an Any":   {nothing, lengthed(0x1a, "\x0a\x04/a.M"+lengthed(0x12, empties)), false},
		"a name written often": {longName, strings.Repeat("\x0a\x02\x10\x01", 1000), false},
		"no name":              {nothing, strings.Repeat("\x0a\x02\x10\x01", 1000), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := method(c.change)
			cost, costErr := m.ResponseCost([]byte(c.response))
			text, err := m.Text([]byte(c.response))
			if (err == nil) != c.fits || (costErr == nil) != c.fits || c.fits && (text == "" || cost < 100*len(c.response)) {
				t.Errorf("cost %d, %v; text of %d bytes, %v; want it to fit: %v", cost, costErr, len(text), err, c.fits)
			}
		})
	}
	if _, err := method(nothing).Text([]byte("\x0a\x01\xff")); !errors.Is(err, ErrMalformed) {
		t.Errorf("a malformed response: %v", err)
	}
}
