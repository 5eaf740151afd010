package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/dts-sched/dts/internal/api/client"
)

const jsonType = "application/json"

// answer is what the server said: the value, and the JSON it came as.
type answer[T any] struct {
	value  T
	raw    json.RawMessage
	status int
}

// reply is what the generated client makes of an answer.
type reply interface {
	GetBody() []byte
	ContentType() string
	Status() string
	StatusCode() int
}

// ask reads the answer to a request: ask[client.Task](c.GetTaskWithResponse(...)). Its error is a *refusal where the
// server said no, and *unreachable where nothing came that DTS would say.
func ask[T any](r reply, err error) (answer[T], error) {
	if err != nil {
		return answer[T]{}, noAnswer(err)
	}
	a := answer[T]{raw: bytes.TrimSpace(r.GetBody()), status: r.StatusCode()}
	switch {
	case a.status >= http.StatusBadRequest:
		return a, noIn(a.raw, r.Status())
	case a.status == http.StatusNoContent:
		return a, nil
	case !strings.HasPrefix(r.ContentType(), jsonType):
		return a, foreign(r.Status())
	}
	if err := json.Unmarshal(a.raw, &a.value); err != nil {
		return a, misunderstood(err)
	}
	return a, nil
}

// noIn is the error that an answer with a status of 400 or more stands for.
func noIn(body []byte, status string) error {
	var p client.Problem
	if err := json.Unmarshal(body, &p); err != nil || p.Code == "" {
		return foreign(status)
	}
	return &refusal{p}
}

// noAnswer is the error where the client has no answer to show.
func noAnswer(err error) error {
	var transport *url.Error
	if errors.As(err, &transport) {
		return &unreachable{err}
	}
	return &unreachable{fmt.Errorf("it answered, but not as DTS does: %w", err)}
}

// foreign is the error for an answer that DTS would not give: something else is at that address, or between.
func foreign(status string) error {
	return &unreachable{fmt.Errorf("it answered %q, but not as DTS does", status)}
}

// misunderstood is the error for an answer of another shape than the API's.
func misunderstood(err error) error {
	return fmt.Errorf("the server's answer is not understood: %w", err)
}

// introduce names the program in its requests.
func (s *session) introduce(_ context.Context, r *http.Request) error {
	r.Header.Set("User-Agent", "dtsctl/"+s.Version)
	return nil
}

// rawOf is v as JSON. Characters that mean something in HTML stay as they are: escaped, a payload would count as
// another one than the same submitted otherwise.
func rawOf(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("writing JSON: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// bodyOf is v as the body of a request.
func bodyOf(v any) (io.Reader, error) {
	raw, err := rawOf(v)
	return bytes.NewReader(raw), err
}
