package httpexec

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

// zipping answers as a server does that encodes its answers if it is asked to, and tells what it was asked for.
func zipping(t *testing.T) (url string, asked <-chan string) {
	t.Helper()
	all := make(chan string, 1)
	url = serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		all <- strings.Join(r.Header.Values("Accept-Encoding"), "; ")
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			_, _ = io.WriteString(w, "done")
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, "done")
		_ = z.Close()
	})
	return url, all
}

func TestExecutor_DecodesWhatThePayloadAsksFor(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"gzip, deflate, br": "gzip", "br": "gzip", "*": "gzip", "": "gzip", " Identity ": "Identity", "identity;q=0": "gzip",
	} {
		url, asked := zipping(t)
		payload := object{"url": url, "headers": object{"accept-encoding": header}, "expect": object{"contains": "done"}}
		got, err := execute(t, newExecutor(t), payload)
		if is := <-asked; err != nil || got != "done" || is != want {
			t.Errorf("%q: got %q, %v, and the server was asked for %q", header, got, err, is)
		}
	}
	twice := object{"accept-encoding": "a", "Accept-Encoding": "b"}
	_, err := execute(t, newExecutor(t), object{"url": "http://a", "headers": twice})
	executortest.WantInvalid(t, err, "payload.headers", "Accept-Encoding is given twice")
}

func TestAccept_DecodesTheStatus(t *testing.T) {
	t.Parallel()
	url, asked := zipping(t)
	at := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	payload := object{
		"url": at, "headers": object{"Accept-Encoding": "gzip, br"},
		"accept": object{"status_url": url, "poll": "100ms"},
	}
	if got, err := execute(t, newExecutor(t), payload); err != nil || got != "done" || <-asked != "gzip" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestExpect_NamesAnEncodingThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	const contains, matches = `the answer does not contain "done"`, `the answer does not match "^done"`
	for encoding, want := range map[string]string{
		"br":       `: it is in the encoding "br", which is not decoded`,
		"zstd":     `: it is in the encoding "zstd", which is not decoded`,
		"identity": "", "": "",
	} {
		url := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
			if encoding != "" {
				w.Header().Set("Content-Encoding", encoding)
			}
			if r.Method == http.MethodPost {
				w.Header().Set("Location", "/")
				w.WriteHeader(http.StatusAccepted)
			}
			_, _ = io.WriteString(w, "\x0b\x01\x80")
		})
		for reason, payload := range map[string]object{
			"HTTP 200, but " + contains:               {"method": "GET", "expect": object{"contains": "done"}},
			"HTTP 200, but " + matches:                {"method": "PUT", "expect": object{"matches": "^done"}},
			"the status is HTTP 200, but " + contains: {"accept": object{"poll": "100ms"}, "expect": object{"contains": "done"}},
		} {
			payload["url"] = url
			if _, err := execute(t, newExecutor(t), payload); err == nil || err.Error() != reason+want {
				t.Errorf("%q: %v, want %s", encoding, err, reason+want)
			}
		}
	}
}
