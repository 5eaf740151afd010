package grpcexec

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/grpcexec/grpccall"
)

// retryInfoLimit is the longest wait that a response can ask for.
const retryInfoLimit = 24 * time.Hour

// final are the codes that say that the call itself is wrong, or that the server has to change before it can succeed.
var final = map[codes.Code]bool{
	codes.InvalidArgument: true, codes.NotFound: true, codes.AlreadyExists: true, codes.PermissionDenied: true, codes.Unauthenticated: true,
	codes.FailedPrecondition: true, codes.OutOfRange: true, codes.Unimplemented: true,
}

// judge is the error for a call that was no success. If it has a status, that says whether, and when, another attempt may be.
func judge(c *grpccall.Call, err error) error {
	if _, ok := status.FromError(err); !ok || executor.IsPermanent(err) {
		return err
	}
	s := status.Convert(err)
	refusal := error(&statusError{s})
	switch {
	case final[s.Code()] && !c.Again[code.Code(s.Code())]:
		return executor.Permanent(refusal)
	case retryInfo(s) > 0 && (s.Code() == codes.ResourceExhausted || s.Code() == codes.Unavailable):
		return executor.Snooze(refusal, min(retryInfo(s), retryInfoLimit))
	case retryInfo(s) > 0:
		return executor.RetryAfter(refusal, min(retryInfo(s), retryInfoLimit))
	}
	return refusal
}

// statusError is "NOT_FOUND: <the message>", with as much of it as the error of a task has room for.
type statusError struct{ *status.Status }

func (e *statusError) Error() string {
	return task.CutError(code.Code(e.Code()).String()+": "+e.Message(), task.ErrorLimit)
}

// Is makes DEADLINE_EXCEEDED a context.DeadlineExceeded: see executor.Ended.
func (e *statusError) Is(target error) bool {
	return e.Code() == codes.DeadlineExceeded && target == context.DeadlineExceeded
}

// GRPCStatus makes status.Code find the code.
func (e *statusError) GRPCStatus() *status.Status { return e.Status }

// retryInfo is how long the server asks to wait; 0 if it does not (google.rpc.RetryInfo).
func retryInfo(s *status.Status) time.Duration {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok && info.GetRetryDelay().IsValid() {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// isCode reports whether err is a status with that code.
func isCode(err error, c codes.Code) bool {
	var s interface{ GRPCStatus() *status.Status }
	return errors.As(err, &s) && s.GRPCStatus().Code() == c
}
