package grpccall

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/dts-sched/dts/internal/worker/executor"
)

// Source says from where descriptors come: the field of the payload that names it, and how many bytes of memory they
// may take once they are read.
type Source struct {
	Field string
	Limit int
}

// The sources of descriptors.
var (
	OfPayload = Source{Field: "descriptor_set", Limit: 16 << 20}
	OfFile    = Source{Field: "descriptor_file", Limit: 48 << 20}
	OfServer  = Source{Field: "method", Limit: 48 << 20} // by reflection
)

// Memory that descriptors take, measured: an empty message takes 700 bytes and 500 more while it is read, a field or an
// enum's value up to 800.
const (
	descriptorCost = 800
	attributeCost  = 50 // a name, a number, or whatever else a descriptor has
)

const (
	nameLimit   = 500     // bytes of a full name: each descriptor has its own copy, with all that it is in
	publicLimit = 100_000 // ways through public imports: protobuf goes each one
)

// Set is a serialized FileDescriptorSet, and the memory that its descriptors take.
type Set struct {
	from Source
	wire []byte // without source_code_info
	Cost int    // bytes of memory, about, that its methods take
}

// ReadSet reads a serialized FileDescriptorSet. Error: *executor.InvalidPayloadError.
func ReadSet(from Source, wire []byte) (*Set, error) {
	const malformed = "is not a serialized FileDescriptorSet, as protoc --descriptor_set_out --include_imports writes it"
	s := NewSet(from)
	err := wellFormed(wire)
	for file := range contents(wire, 1) {
		if err == nil {
			_, err = s.Add(file)
		}
	}
	if err != nil && !executor.IsPermanent(err) {
		return nil, executor.Invalid(from.Field, malformed)
	}
	return s, err
}

// NewSet makes an empty set, to which files are added.
func NewSet(from Source) *Set { return &Set{from: from} }

// File is what a file says of itself.
type File struct {
	Name    string
	Imports []string
}

// Add adds a serialized FileDescriptorProto. Errors: *executor.InvalidPayloadError if it takes too much memory; any
// other means that it is malformed.
func (s *Set) Add(serialized []byte) (File, error) {
	kept, err := withoutSource(serialized)
	if err != nil {
		return File{}, err
	}
	w := weigher{message: descriptorCost, value: attributeCost, limit: s.from.Limit, sum: s.Cost}
	if !w.weigh(kept, (*descriptorpb.FileDescriptorProto)(nil).ProtoReflect().Descriptor()) {
		return File{}, executor.Invalid(s.from.Field,
			"the descriptors take more than %d MiB of memory: leave out what the method does not need", s.from.Limit>>20)
	}
	s.Cost = w.sum
	s.wire = protowire.AppendBytes(protowire.AppendTag(s.wire, 1, protowire.BytesType), kept)
	f := File{Name: FileName(kept)}
	for imported := range contents(kept, 3) {
		f.Imports = append(f.Imports, string(imported))
	}
	return f, nil
}

// FileName reads the name of a serialized FileDescriptorProto.
func FileName(serialized []byte) (name string) {
	for content := range contents(serialized, 1) {
		name = string(content)
	}
	return name
}

// withoutSource returns a serialized FileDescriptorProto without its source_code_info: comments and positions, which
// take more than all else.
func withoutSource(file []byte) (kept []byte, err error) {
	const sourceCodeInfo = 9
	kept = make([]byte, 0, len(file))
	for len(file) > 0 {
		number, _, n := protowire.ConsumeField(file)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		if number != sourceCodeInfo {
			kept = append(kept, file[:n]...)
		}
		file = file[n:]
	}
	return kept, nil
}

// Method finds a unary method. Files of protobuf itself may be missing. Call it within executor.Decode. Error:
// *executor.InvalidPayloadError, for the field from which the descriptors are if they are invalid.
func (s *Set) Method(name Name) (*Method, error) {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(s.wire, &set); err != nil {
		return nil, executor.Invalid(s.from.Field, "the descriptors are invalid: %s", Plain(err))
	}
	files := withWellKnown(set.GetFile())
	if err := checkFiles(files); err != nil {
		return nil, executor.Invalid(s.from.Field, "the descriptors are invalid: %v", err)
	}
	return methodOf(s.from.Field, files, name)
}

// checkFiles refuses descriptors for which protobuf takes time or memory out of proportion to their size.
func checkFiles(files []*descriptorpb.FileDescriptorProto) error {
	for _, f := range files {
		if longestName(f.ProtoReflect(), "package", 0) > nameLimit {
			return fmt.Errorf("%.100q has a name of more than %d bytes", f.GetName(), nameLimit)
		}
	}
	return checkPublicImports(files)
}

// longestName is the length of the longest full name in a descriptor, at most a little over nameLimit. scope is that of
// the name of what the descriptor is in, and own the field with its name.
func longestName(m protoreflect.Message, own protoreflect.Name, scope int) int {
	if named := m.Descriptor().Fields().ByName(own); named != nil && named.Kind() == protoreflect.StringKind {
		scope += 1 + len(m.Get(named).String())
	}
	longest := scope
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.IsList() && field.Message() != nil {
			for i := 0; i < value.List().Len() && longest <= nameLimit; i++ {
				longest = max(longest, longestName(value.List().Get(i).Message(), "name", scope))
			}
		}
		return longest <= nameLimit
	})
	return longest
}

// checkPublicImports counts the ways that lead through public imports: with two in each of 30 files, there are 2^30.
func checkPublicImports(files []*descriptorpb.FileDescriptorProto) error {
	byName := make(map[string]*descriptorpb.FileDescriptorProto, len(files))
	for _, f := range files {
		byName[f.GetName()] = f
	}
	ways := make(map[string]int, len(files)) // from each file
	var count func(f *descriptorpb.FileDescriptorProto) int
	count = func(f *descriptorpb.FileDescriptorProto) int {
		if n, known := ways[f.GetName()]; known {
			return n
		}
		ways[f.GetName()] = 0 // files that import each other are refused later
		n := 0
		for _, i := range f.GetPublicDependency() {
			if i < 0 || int(i) >= len(f.GetDependency()) {
				continue
			}
			if imported := byName[f.GetDependency()[i]]; imported != nil && n <= publicLimit {
				n += 1 + count(imported)
			}
		}
		ways[f.GetName()] = n
		return n
	}
	sum := 0
	for _, f := range files {
		for _, imported := range f.GetDependency() {
			if to := byName[imported]; to != nil {
				sum += count(to)
			}
		}
		if sum > publicLimit {
			return fmt.Errorf("more than %d ways lead through public imports", publicLimit)
		}
	}
	return nil
}
