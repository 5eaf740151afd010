package grpcexec

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/grpcexec/grpccall"
)

// reflectionMethods are the names of the method in its versions, the newest first. Their messages are the same on the wire.
var reflectionMethods = []string{
	reflection.ServerReflection_ServerReflectionInfo_FullMethodName,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
}

// reflectService asks the server for the file of a service and for all that it imports. Errors: *executor.InvalidPayloadError
// and a permanent *executor.Verdict if the server does not describe the service; others if it does not answer.
func reflectService(ctx context.Context, conn grpc.ClientConnInterface, service string) (*grpccall.Set, error) {
	ctx, cancel := context.WithCancel(ctx) // ends the stream
	defer cancel()
	for _, version := range reflectionMethods {
		r, err := openReflection(ctx, conn, version)
		if err == nil {
			err = r.readService(service)
		}
		if !isCode(err, codes.Unimplemented) {
			return r.set, brief(err)
		}
	}
	return nil, executor.Permanent(errors.New("payload.method: the server does not describe its services (reflection): give descriptor_set or descriptor_file"))
}

// brief is an error of a reflection as an error of the attempt: a status keeps its code and its details.
func brief(err error) error {
	if err == nil || executor.IsPermanent(err) {
		return err
	}
	s, ok := status.FromError(err)
	if !ok {
		return fmt.Errorf("reflection: %w", err)
	}
	said := s.Proto()
	said.Message = "reflection: " + said.GetMessage() // and no "rpc error: code = ..." as in the text of err
	return status.FromProto(said).Err()
}

// reader reads descriptors from a stream. It keeps them as they came: to make more of them waits for its turn.
type reader struct {
	stream grpc.BidiStreamingClient[reflection.ServerReflectionRequest, reflection.ServerReflectionResponse]
	set    *grpccall.Set
	files  []grpccall.File
	have   map[string]bool // by name of the file: it was asked for, or came
	// received are the names of files. A server may send a great many tiny ones.
	received map[string]bool
	size     int
}

func openReflection(ctx context.Context, conn grpc.ClientConnInterface, version string) (*reader, error) {
	stream, err := conn.NewStream(ctx, &reflection.ServerReflection_ServiceDesc.Streams[0], version, grpc.MaxCallRecvMsgSize(descriptorsLimit))
	r := &reader{set: grpccall.NewSet(grpccall.OfServer), have: map[string]bool{}, received: map[string]bool{}}
	r.stream = &grpc.GenericClientStream[reflection.ServerReflectionRequest, reflection.ServerReflectionResponse]{ClientStream: stream}
	return r, err
}

func (r *reader) readService(name string) error {
	err := r.ask(&reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name},
	})
	if isCode(err, codes.NotFound) {
		return executor.Invalid("method", "the server has no service %s", name)
	}
	if err != nil {
		return err
	}
	for read := 0; read < len(r.files); { // readFile appends to files
		imports := r.files[read].Imports
		read++
		for _, imported := range imports {
			if err := r.readFile(imported); err != nil {
				return err
			}
		}
	}
	return nil
}

// readFile asks for a file, unless it is there. One that the server does not have is left out.
func (r *reader) readFile(name string) error {
	if r.have[name] || grpccall.WellKnown(name) != nil {
		return nil
	}
	r.have[name] = true
	err := r.ask(&reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_FileByFilename{FileByFilename: name},
	})
	if isCode(err, codes.NotFound) {
		return nil
	}
	return err
}

// ask sends a request and keeps the files of the response.
func (r *reader) ask(request *reflection.ServerReflectionRequest) error {
	if err := r.stream.Send(request); err != nil {
		_, received := r.stream.Recv() // Send says only io.EOF
		return errors.Join(received, err)
	}
	response, err := r.stream.Recv()
	if err != nil {
		return err
	}
	if refusal := response.GetErrorResponse(); refusal != nil {
		return status.Error(codes.Code(refusal.GetErrorCode()), refusal.GetErrorMessage())
	}
	for _, serialized := range response.GetFileDescriptorResponse().GetFileDescriptorProto() {
		if err := r.keep(serialized); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) keep(serialized []byte) error {
	if r.size += len(serialized); r.size > descriptorsLimit {
		return executor.Permanent(fmt.Errorf("payload.method: the server's descriptors are longer than %d bytes (reflection)", descriptorsLimit))
	}
	name := grpccall.FileName(serialized)
	r.have[name] = true
	if r.received[name] {
		return nil
	}
	if len(r.files) == descriptorFilesLimit {
		return executor.Permanent(fmt.Errorf("payload.method: the server describes the method by more than %d files (reflection)", descriptorFilesLimit))
	}
	r.received[name] = true
	file, err := r.set.Add(serialized)
	if err != nil && !executor.IsPermanent(err) {
		err = fmt.Errorf("the server sent an unreadable descriptor: %w", err)
	}
	r.files = append(r.files, file)
	return err
}
