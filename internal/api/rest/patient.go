package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
)

// overloadTries is how often a request is sent to a server that is overloaded, before that is the answer.
const overloadTries = 4

// patient sends a request again that the server refused as it was overloaded, which means that nothing was done. It waits for as long as the
// server asks, and each time for about twice as long: 7 s in all if the server asks for 1 s. Other refusals are for the caller to judge.
type patient struct{ next http.RoundTripper }

func (p patient) RoundTrip(r *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		response, err := p.next.RoundTrip(r)
		if err != nil || response.StatusCode != http.StatusServiceUnavailable || try == overloadTries {
			return response, err
		}
		wait, err := overloadOf(response)
		if err != nil {
			return nil, err
		}
		again := repeated(r)
		if wait == 0 || again == nil {
			return response, nil
		}
		wait <<= try - 1
		wait = wait/2 + rand.N(wait) // not all clients at the same moment
		if deadline, ok := r.Context().Deadline(); ok && clock.Until(deadline) < wait {
			return response, nil
		}
		if err := clock.Sleep(r.Context(), wait); err != nil {
			return nil, context.Cause(r.Context())
		}
		r = again
	}
}

// overloadOf returns how long the server asks the client to wait, if it is overloaded, else 0. The response can be read afterwards.
func overloadOf(response *http.Response) (time.Duration, error) {
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, fmt.Errorf("reading the refusal: %w", err)
	}
	if err := response.Body.Close(); err != nil {
		return 0, fmt.Errorf("reading the refusal: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	var problem wire.Problem
	if err := json.Unmarshal(body, &problem); err == nil && problem.Code == wire.Overloaded && problem.RetryAfter != nil {
		return time.Duration(*problem.RetryAfter) * time.Second, nil
	}
	return 0, nil
}

// repeated returns the request for another try; nil if its body cannot be read again.
func repeated(r *http.Request) *http.Request {
	again := r.Clone(r.Context())
	if r.Body == nil || r.Body == http.NoBody {
		return again
	}
	if r.GetBody == nil {
		return nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil
	}
	again.Body = body
	return again
}
