package edge

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// large has an answer of 200 KiB that is said to be compressed.
var large = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/x-large")
	w.Header().Set("Content-Encoding", "x-test")
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, strings.Repeat(r.URL.Path[1:2], 200<<10))
})

func TestMount_CountsAnswersThatNobodyReads(t *testing.T) {
	t.Parallel()
	r := startRig(t, nil, func(o *Options) { o.TransferMemory = 1 << 20 })
	r.server.Mount("/mounted", large)
	r.server.Mount("/none", nil)
	room := r.server.answers
	for _, path := range []string{"/mounted", "/mounted/", "/mounted/api/queues"} {
		room.takeAnyway(other, 900<<10) // as of clients that do not read
		got := r.call("GET", path, "")
		if p := got.problem(t); p.Code != "overloaded" || got.header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %+v, %v", path, p, got.header)
		}
		room.give(other, 900<<10)
		for range 10 { // each gives its room back
			got := r.call("GET", path, "")
			kind := got.header.Get("Content-Type")
			if got.status != http.StatusAccepted || len(got.body) != 200<<10 || kind != "text/x-large" {
				t.Fatalf("%s: %d, %d bytes, %v", path, got.status, len(got.body), got.header)
			}
		}
	}
	if got := r.call("GET", "/none", ""); got.status != http.StatusNotFound {
		t.Errorf("without a handler: %d", got.status)
	}
	if got := r.call("HEAD", "/mounted/", ""); got.status != http.StatusAccepted || len(got.body) != 0 {
		t.Errorf("HEAD: %d, %d bytes", got.status, len(got.body))
	}
}
