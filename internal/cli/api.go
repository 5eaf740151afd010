package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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

// ask reads the answer to a request: ask[client.Task](c.GetTask(...)). Its error is a *refusal where the server
// said no, and *unreachable where nothing came that DTS would say.
func ask[T any](resp *http.Response, err error) (answer[T], error) {
	if err != nil {
		return answer[T]{}, &unreachable{err}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer[T]{}, &unreachable{err}
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return answer[T]{}, problemIn(resp, body)
	}
	a := answer[T]{raw: bytes.TrimSpace(body), status: resp.StatusCode}
	if resp.StatusCode == http.StatusNoContent {
		return a, nil
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), jsonType) {
		return a, foreign(resp)
	}
	if err := json.Unmarshal(body, &a.value); err != nil {
		return a, fmt.Errorf("the server's answer is not understood: %w", err)
	}
	return a, nil
}

// problemIn is the error that an answer with a status of 400 or more stands for.
func problemIn(resp *http.Response, body []byte) error {
	var p client.Problem
	if err := json.Unmarshal(body, &p); err != nil || p.Code == "" {
		return foreign(resp)
	}
	return &refusal{p}
}

// foreign is the error for an answer that DTS would not give: something else is at that address, or between.
func foreign(resp *http.Response) error {
	return &unreachable{fmt.Errorf("it answered %q, but not as DTS does", resp.Status)}
}

// introduce names the program in its requests.
func (s *session) introduce(_ context.Context, r *http.Request) error {
	r.Header.Set("User-Agent", "dtsctl/"+s.Version)
	return nil
}

// bodyOf is v as the body of a request. Characters that mean something in HTML stay as they are: escaped, a
// payload would count as another one than the same submitted otherwise.
func bodyOf(v any) (*bytes.Buffer, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	return &b, nil
}
