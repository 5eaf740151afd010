package edge

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
)

const (
	jsonType    = "application/json"
	problemType = "application/problem+json"
	problemURN  = "urn:dts:problem:"

	// statusClientGone is what the access log shows where the client did not wait for its answer.
	statusClientGone = 499

	// Limits of what a problem says, in bytes: it quotes what was sent, which may be long.
	fieldLimit  = 256
	detailLimit = 1024
	othersLimit = 256 // of each field, where there are several
)

// Problem is what an answer says of what went wrong: a problem document of RFC 9457, as schema Problem of openapi.yaml
// has it.
type Problem struct {
	Code       task.Code `json:"code"`
	Detail     string    `json:"detail"`                // what is wrong in this case, for people
	Errors     []Invalid `json:"errors,omitempty"`      // all invalid fields, if there are several
	Field      string    `json:"field,omitempty"`       // the field or parameter at fault
	RequestID  string    `json:"request_id"`            // as the log has it
	RetryAfter int       `json:"retry_after,omitempty"` // seconds, as in the header Retry-After
	Status     int       `json:"status"`                // of HTTP
	Title      string    `json:"title"`                 // what the code means
	Type       string    `json:"type"`                  // the code as a URN
}

// Invalid is an invalid field of a request.
type Invalid struct {
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"`
}

// failureKey is where a request has its failure, for the log.
const failureKey = "dts-failure"

// failure is what went wrong with a request, as its client hears it and as it is.
type failure struct {
	Problem
	err error
}

// logged is the failure of a request, for the log.
func (f failure) logged(r *http.Request) string {
	if onlyReads(r) {
		return redisx.WithoutDoubt(f.err.Error())
	}
	return f.err.Error()
}

// fail turns whatever went wrong with a request into its problem document. A stream that has begun ends with it as an
// event. Nothing can be answered where the client has gone.
func (s *Server) fail(err error, c echo.Context) {
	gone := errors.Is(err, context.Canceled) && c.Request().Context().Err() != nil
	if cause := context.Cause(c.Request().Context()); gone && errors.Is(cause, errCutOff) {
		// It is not the client who goes; without an answer, net/http would say 200.
		gone, err = false, task.Errorf(task.CodeUnavailable, "%s", cause)
	}
	p := ProblemFor(c, err)
	c.Set(failureKey, failure{p, err})
	switch {
	case c.Response().Committed:
		if !gone {
			endStream(c, p)
		}
		return
	case gone: // or it has only closed its side, and reads: without an answer, net/http would say 200
		_ = c.NoContent(statusClientGone)
		return
	case p.RetryAfter > 0:
		c.Response().Header().Set(echo.HeaderRetryAfter, strconv.Itoa(p.RetryAfter))
	}
	if fail := s.policyOf(c).Fail; fail != nil && fail(c, p) {
		return
	}
	if err := s.reply(c, p.Status, problemType, p); err != nil {
		s.options.Log.Debug("answer not delivered", "request_id", p.RequestID, "error", err)
	}
}

// ProblemFor is the answer to a request that failed with err. Who only reads is not told that a change may have been
// made.
func ProblemFor(c echo.Context, err error) Problem {
	p := problemOf(err, requestIDOf(c))
	if onlyReads(c.Request()) {
		p.Detail = redisx.WithoutDoubt(p.Detail)
	}
	return p
}

// onlyReads reports whether a request changes nothing: it asks, or tries something out.
func onlyReads(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.URL.Query().Get("dry_run") == "true"
}

// problemOf is the problem document of an error. What caused a *task.Error, and everything about other
// errors, goes to the log only: it may name what is no business of the client's.
func problemOf(err error, requestID string) Problem {
	e := asTaskError(err)
	known, ok := catalogue[e.Code]
	if !ok {
		e, known = internalError(err), catalogue[task.CodeInternal]
	}
	first := invalidOf(e, detailLimit)
	return Problem{
		Type: problemURN + string(e.Code), Title: known.title, Status: known.status, Detail: first.Detail,
		Code: e.Code, Field: first.Field, Errors: invalidsOf(e), RetryAfter: known.retry, RequestID: requestID,
	}
}

// invalidsOf is all invalid fields that an error names; nil if there are not several.
func invalidsOf(e *task.Error) []Invalid {
	if len(e.Others) == 0 {
		return nil
	}
	all := []Invalid{invalidOf(e, othersLimit)}
	for _, other := range e.Others {
		all = append(all, invalidOf(other, othersLimit))
	}
	return all
}

func invalidOf(e *task.Error, limit int) Invalid {
	field := task.CutMiddle(e.Field, fieldLimit)
	return Invalid{(&task.Error{Field: field, Message: task.CutMiddle(e.Message, limit)}).Error(), field}
}

// CodeOf is the code of the Problem that err becomes.
func CodeOf(err error) task.Code { return asTaskError(err).Code }

// StatusOf is the status of the Problem that err becomes.
func StatusOf(err error) int { return problemOf(err, "").Status }

func asTaskError(err error) *task.Error {
	var (
		known   *task.Error
		tooLong *http.MaxBytesError
		http    *echo.HTTPError
	)
	switch {
	case redisx.IsDamage(err): // whatever it was needed for
		return &task.Error{Code: task.CodeUnreadable, Message: redisx.WhyNot(err), Err: err}
	case errors.As(err, &known):
		return known
	case errors.As(err, &tooLong):
		return task.Errorf(CodeBodyTooLarge, "the body is larger than %d bytes", tooLong.Limit)
	case errors.Is(err, context.DeadlineExceeded):
		return task.Errorf(task.CodeUnavailable, "no answer in time")
	case errors.As(err, &http):
		return ofTransport(http)
	}
	return internalError(err)
}

// ofTransport translates what Echo's router and the generated code say.
func ofTransport(err *echo.HTTPError) *task.Error {
	switch err.Code {
	case http.StatusNotFound:
		return task.Errorf(CodeNotFound, "no resource has this path: /docs and /openapi.json list all of them")
	case http.StatusMethodNotAllowed:
		return task.Errorf(CodeMethodNotAllowed, "this path does not support the method")
	case http.StatusBadRequest:
		return task.Errorf(task.CodeInvalid, "%v", err.Message)
	}
	return internalError(err)
}

func internalError(err error) *task.Error {
	return &task.Error{Code: task.CodeInternal, Message: "see the server's log for this request id", Err: err}
}
