package dts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
)

// inProcess is an http.RoundTripper that hands requests to a handler of the same process.
type inProcess struct{ handler http.Handler }

// RoundTrip returns the response when the handler has returned, or has flushed what it wrote: then the response is a stream.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r = r.WithContext(r.Context()) // a copy: a round tripper changes no request
		r.Body = http.NoBody
	}
	w := &inProcessWriter{header: http.Header{}, begun: make(chan io.ReadCloser, 1)}
	w.body, w.pipe = io.Pipe()
	ctx, cancel := context.WithCancel(r.Context())
	// A handler that writes to a stream after the request has ended must not wait for a reader.
	context.AfterFunc(ctx, func() { _ = w.pipe.CloseWithError(context.Cause(ctx)) })
	go func() {
		t.handler.ServeHTTP(w, r.WithContext(ctx))
		w.end()
		cancel()
		_ = r.Body.Close()
	}()
	select {
	case body := <-w.begun:
		return &http.Response{
			Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: w.sent, Body: cancelling{body, cancel}, ContentLength: -1, Request: r,
		}, nil
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

// cancelling is a body that ends the request when it is closed.
type cancelling struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b cancelling) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

// inProcessWriter is the http.ResponseWriter of inProcess. It collects what is written until the first flush, and passes it on
// through a pipe from then on.
type inProcessWriter struct {
	header  http.Header
	sent    http.Header // a copy of header from the time of WriteHeader
	status  int         // 0 before WriteHeader
	first   bytes.Buffer
	flushed bool
	body    *io.PipeReader
	pipe    *io.PipeWriter
	begun   chan io.ReadCloser
}

func (w *inProcessWriter) Header() http.Header { return w.header }

func (w *inProcessWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.sent = status, w.header.Clone()
	}
}

func (w *inProcessWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.flushed {
		return w.pipe.Write(p)
	}
	return w.first.Write(p)
}

// Flush makes the response a stream.
func (w *inProcessWriter) Flush() {
	w.WriteHeader(http.StatusOK)
	if w.flushed {
		return
	}
	w.flushed = true
	w.begun <- joined{io.MultiReader(bytes.NewReader(w.first.Bytes()), w.body), w.body}
}

// end ends the response.
func (w *inProcessWriter) end() {
	w.WriteHeader(http.StatusOK)
	if w.flushed {
		_ = w.pipe.Close()
		return
	}
	w.begun <- io.NopCloser(&w.first)
}

type joined struct {
	io.Reader
	io.Closer
}

// warnings is a log handler that leaves out what a server tells about each request.
type warnings struct{ slog.Handler }

func (h warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

func (h warnings) WithAttrs(attributes []slog.Attr) slog.Handler {
	return warnings{h.Handler.WithAttrs(attributes)}
}
func (h warnings) WithGroup(name string) slog.Handler { return warnings{h.Handler.WithGroup(name)} }
