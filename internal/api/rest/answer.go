package rest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
)

// JSONType is the media type of the requests' bodies.
const JSONType = "application/json"

// Answer is what the server said: the value, and the JSON it came as.
type Answer[T any] struct {
	Value  T
	Raw    json.RawMessage
	Status int
}

// Reply is an answer as the generated client returns it.
type Reply interface {
	GetBody() []byte
	ContentType() string
	Status() string
	StatusCode() int
}

// Read reads the answer to a request: Read[client.Task](c.GetTaskWithResponse(...)). Its error is a *Refusal where the
// server said no, and an *Unreachable where no answer of DTS came.
func Read[T any](r Reply, err error) (Answer[T], error) {
	if err != nil {
		return Answer[T]{}, noAnswer(err)
	}
	a := Answer[T]{Raw: bytes.TrimSpace(r.GetBody()), Status: r.StatusCode()}
	switch {
	case a.Status >= http.StatusBadRequest:
		return a, refusalOf(a.Raw, r.Status())
	case a.Status == http.StatusNoContent:
		return a, nil
	case !strings.HasPrefix(r.ContentType(), JSONType):
		return a, foreign(r.Status())
	}
	if err := json.Unmarshal(a.Raw, &a.Value); err != nil {
		return a, Misunderstood(err)
	}
	return a, nil
}

// Body returns v as the body of a request.
func Body(v any) (io.Reader, error) {
	raw, err := wire.Encode(v)
	return bytes.NewReader(raw), err
}
