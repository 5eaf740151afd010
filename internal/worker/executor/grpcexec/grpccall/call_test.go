package grpccall

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

type object = map[string]any

func TestMain(m *testing.M) { testkit.Main(m) }

func TestParse_RefusesPayloadsThatNobodyCanRun(t *testing.T) {
	t.Parallel()
	set := executortest.DescriptorSet(t, grpc_health_v1.File_grpc_health_v1_health_proto)
	with := func(field string, value any) string {
		payload := object{"target": "orders.internal:50051", "method": "grpc.health.v1.Health/Check", "descriptor_set": set}
		if payload[field] = value; value == nil {
			delete(payload, field)
		}
		return executortest.JSON(t, payload)
	}
	for name, c := range map[string]struct{ payload, field, message string }{
		"no object":                {`[]`, "payload", "must be a JSON object"},
		"an unknown field":         {with("metod", 1), "payload.metod", "descriptor_file, descriptor_set, metadata, method, request, retry_codes, target, tls"},
		"no target":                {with("target", nil), "payload.target", "HOST:PORT"},
		"a target without port":    {with("target", "orders.internal"), "payload.target", "HOST:PORT"},
		"a target with port 0":     {with("target", "orders.internal:0"), "payload.target", "HOST:PORT"},
		"a target with a name":     {with("target", "orders.internal:http"), "payload.target", "HOST:PORT"},
		"a target without host":    {with("target", ":50051"), "payload.target", "HOST:PORT"},
		"a URL as target":          {with("target", "dns:///orders.internal:50051"), "payload.target", "HOST:PORT"},
		"a socket as target":       {with("target", "unix:/run/a.sock"), "payload.target", "HOST:PORT"},
		"no method":                {with("method", nil), "payload.method", "package.Service/Method"},
		"a method with a slash":    {with("method", "/grpc.health.v1.Health/Check"), "payload.method", "package.Service/Method"},
		"a method without service": {with("method", "Check"), "payload.method", "package.Service/Method"},
		"a missing method":         {with("method", "grpc.health.v1.Health/Chekc"), "payload.method", "only Check, List, Watch"},
		"a missing service":        {with("method", "grpc.health.v2.Health/Check"), "payload.method", "there is no service grpc.health.v2.Health"},
		"a stream":                 {with("method", "grpc.health.v1.Health/Watch"), "payload.method", "is a stream"},
		"a request of another":     {with("request", object{"a": 1}), "payload.request", `unknown field "a"`},
		"a request of a type":      {with("request", 1), "payload.request", "is not a grpc.health.v1.HealthCheckRequest"},
		"no base64":                {with("descriptor_set", "*"), "payload.descriptor_set", "is not base64"},
		"no descriptors":           {with("descriptor_set", "AAAA"), "payload.descriptor_set", "is not a serialized FileDescriptorSet"},
		"descriptors in part":      {with("descriptor_set", executortest.DescriptorSet(t, grpc_testing.File_grpc_testing_test_proto)), "payload.descriptor_set", "could not resolve import"},
		"both descriptors":         {with("descriptor_file", "a"), "payload.descriptor_file", "give one of them"},
		"a path as a file":         {`{"target": "a:1", "method": "a.B/C", "descriptor_file": "../a"}`, "payload.descriptor_file", "without a folder"},
		"a folder as a file":       {`{"target": "a:1", "method": "a.B/C", "descriptor_file": ".."}`, "payload.descriptor_file", "without a folder"},
		"metadata of a type":       {with("metadata", object{"a": 1}), "payload.metadata", "an object of strings"},
		"a key with a space":       {with("metadata", object{"a b": ""}), "payload.metadata", `"a b" is not a key`},
		"a pseudo header":          {with("metadata", object{":path": ""}), "payload.metadata", "not a key"},
		"the task's id":            {with("metadata", object{"Dts-Task-Id": "x"}), "payload.metadata", "dts-task-id is set by DTS"},
		"the timeout":              {with("metadata", object{"grpc-timeout": "1S"}), "payload.metadata", "set by gRPC"},
		"the user agent":           {with("metadata", object{"User-Agent": "x"}), "payload.metadata", "set by gRPC"},
		"a key twice":              {with("metadata", object{"a": "", "A": ""}), "payload.metadata", "a is given twice"},
		"a value with a line end":  {with("metadata", object{"a": "b\nc"}), "payload.metadata", "the value of a has characters"},
		"bytes that are no base64": {with("metadata", object{"a-bin": "*"}), "payload.metadata", "the value of a-bin is not base64"},
		"tls of a type":            {with("tls", true), "payload.tls", "must be a JSON object"},
		"tls with a field":         {with("tls", object{"insecure": true}), "payload.tls.insecure", "ca, server_name"},
		"a line in a server name":  {with("tls", object{"server_name": "a\r\nDEL victim\r\n"}), "payload.tls.server_name", "not the name of a host"},
		"a blank in a server name": {with("tls", object{"server_name": "a b"}), "payload.tls.server_name", "not the name of a host"},
		"a port in a server name":  {with("tls", object{"server_name": "a:1"}), "payload.tls.server_name", "not the name of a host"},
		"a long server name":       {with("tls", object{"server_name": strings.Repeat("a.", 127)}), "payload.tls.server_name", "not the name"},
		"a line in a zone of tls":  {with("tls", object{"server_name": "::1%a\nb"}), "payload.tls.server_name", "not the name of a host"},
		"a line in a target":       {with("target", "a\nDEL b:1"), "payload.target", "HOST:PORT"},
		"a line in a zone":         {with("target", "[::1%a\nDEL b]:1"), "payload.target", "HOST:PORT"},
		"a zone in a target":       {with("target", "[fe80::1%eth0]:1"), "payload.target", "HOST:PORT"},
		"a blank in a target":      {with("target", "a b:1"), "payload.target", "HOST:PORT"},
		"a ca that is none":        {with("tls", object{"ca": "x"}), "payload.tls.ca", "has no certificate in PEM"},
		"an unknown code":          {with("retry_codes", []string{"NOT_FOUND", "GONE"}), "payload.retry_codes[1]", "such as NOT_FOUND"},
		"the code of a success":    {with("retry_codes", []string{"OK"}), "payload.retry_codes[0]", "such as NOT_FOUND"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Check(t.Context(), json.RawMessage(c.payload))
			executortest.WantInvalid(t, err, c.field, c.message)
		})
	}
	for _, payload := range []string{with("request", nil), with("target", "[::1]:1"), with("tls", object{}), with("request", object{"service": "a"}),
		with("tls", object{"server_name": "a_1.Orders-2.internal."}), with("tls", object{"server_name": "10.0.0.1"}), with("target", "[fe80::1]:1"),
	} {
		if err := Check(t.Context(), json.RawMessage(payload)); err != nil {
			t.Errorf("%.100s: %v", payload, err)
		}
	}
}

// protobuf knows the messages of its own by their names, and expects their fields to be there.
func TestParse_RefusesDescriptorsAtWhichProtobufPanics(t *testing.T) {
	t.Parallel()
	stamp := ".google.protobuf.Timestamp"
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: proto.String("a.proto"), Package: proto.String("google.protobuf"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Timestamp")}},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: proto.String("B"), Method: []*descriptorpb.MethodDescriptorProto{{Name: proto.String("C"), InputType: &stamp, OutputType: &stamp}},
		}},
	}}}
	serialized, err := proto.Marshal(set)
	testkit.Must(t, err)
	err = Check(t.Context(), json.RawMessage(executortest.JSON(t, object{
		"target": "a:1", "method": "google.protobuf.B/C", "request": "2026-01-02T15:04:05Z", "descriptor_set": serialized,
	})))
	executortest.WantInvalid(t, err, "payload.request", "the descriptors are unusable")
	m, err := methodOfSet(serialized, Name{"google.protobuf.B", "C"})
	testkit.Must(t, err)
	if _, err := m.Text(nil); err == nil {
		t.Error("a response of such a message has a result")
	}
}

func methodOfSet(serialized []byte, name Name) (*Method, error) {
	set, err := ReadSet(OfPayload, serialized)
	if err != nil {
		return nil, err
	}
	return set.Method(name)
}

func TestParse_KnowsTheFilesOfProtobufItself(t *testing.T) {
	t.Parallel()
	for path, message := range map[string]string{
		"any": "Any", "descriptor": "FileDescriptorSet", "duration": "Duration", "empty": "Empty", "field_mask": "FieldMask", "struct": "Value",
		"timestamp": "Timestamp", "wrappers": "StringValue",
	} {
		in := ".google.protobuf." + message
		serialized, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
			Name: proto.String("a.proto"), Package: proto.String("a"), Dependency: []string{"google/protobuf/" + path + ".proto"},
			Service: []*descriptorpb.ServiceDescriptorProto{{
				Name: proto.String("B"), Method: []*descriptorpb.MethodDescriptorProto{{Name: proto.String("C"), InputType: &in, OutputType: &in}},
			}},
		}}})
		testkit.Must(t, err)
		if _, err := methodOfSet(serialized, Name{"a.B", "C"}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"target": "a:1", "method": "a.B/C", "request": {"a": [1]}, "metadata": {"a-bin": "AA=="}, "tls": {"server_name": "a"}}`)
	f.Add(`{"target": "[::1]:65535", "method": "a.B/C", "descriptor_set": "CgA=", "retry_codes": ["ABORTED"]}`)
	f.Add(`{"target": "a:1", "method": "a.B/C", "descriptor_file": "a.binpb"}`)
	f.Fuzz(func(t *testing.T, payload string) {
		_ = Check(t.Context(), json.RawMessage(payload)) // it does not panic
		c, err := Parse(json.RawMessage(payload))
		if err != nil {
			var invalid *executor.InvalidPayloadError
			if !errors.As(err, &invalid) || c != nil {
				t.Fatalf("%q: got %v, %v", payload, c, err)
			}
			return
		}
		if strings.ContainsAny(c.File, "/\x00") || strings.Count(c.Method.Path(), "/") != 2 {
			t.Fatalf("%q: file %q, method %q", payload, c.File, c.Method)
		}
	})
}
