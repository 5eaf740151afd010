package dts

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

// TestInProcess_HandlersEndWithTheirRequest has handlers that begin a stream, or go on with it, when nobody reads it.
func TestInProcess_HandlersEndWithTheirRequest(t *testing.T) {
	t.Parallel()
	for name, flushFirst := range map[string]bool{"begin": false, "go on": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			begun, wrote := make(chan struct{}), make(chan error, 1)
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				flush := w.(http.Flusher).Flush
				if flushFirst {
					flush()
				}
				close(begun)
				<-r.Context().Done()
				flush()
				_, err := io.WriteString(w, "data: 1\n\n")
				wrote <- err
			})
			go func() { <-begun; cancel() }()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://redis/v1/events", nil)
			testkit.Must(t, err)
			response, err := inProcess{handler}.RoundTrip(request)
			if err := testkit.Receive(t, wrote, "the handler's write"); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("the write ended with %v", err)
			}
			if err == nil {
				defer func() { _ = response.Body.Close() }()
				_, err = io.ReadAll(response.Body)
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the request ended with %v", err)
			}
		})
	}
}
