package grpccall

import (
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/gofeaturespb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// wellKnown are the files of protobuf itself, by path. They are named here, and not looked up among all that are linked, so that what is
// accepted where a task is submitted is accepted where it runs.
var wellKnown = byPath(
	anypb.File_google_protobuf_any_proto,
	descriptorpb.File_google_protobuf_descriptor_proto,
	durationpb.File_google_protobuf_duration_proto,
	emptypb.File_google_protobuf_empty_proto,
	fieldmaskpb.File_google_protobuf_field_mask_proto,
	gofeaturespb.File_google_protobuf_go_features_proto,
	structpb.File_google_protobuf_struct_proto,
	timestamppb.File_google_protobuf_timestamp_proto,
	wrapperspb.File_google_protobuf_wrappers_proto,
)

func byPath(files ...protoreflect.FileDescriptor) map[string]protoreflect.FileDescriptor {
	paths := make(map[string]protoreflect.FileDescriptor, len(files))
	for _, f := range files {
		paths[f.Path()] = f
	}
	return paths
}

// WellKnown returns a file of protobuf itself, nil if it is none.
func WellKnown(path string) *descriptorpb.FileDescriptorProto {
	f, ok := wellKnown[path]
	if !ok {
		return nil
	}
	return protodesc.ToFileDescriptorProto(f)
}
