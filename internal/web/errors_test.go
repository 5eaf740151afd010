package web

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// Whatever is wrong with a request for a page, its reader gets a page.
func TestErrors_OnPagesArePages(t *testing.T) {
	inWorld(t, func(w *world) {
		large := strings.Repeat("x", 70<<10)
		for _, c := range []struct {
			method, path string
			headers      []string
			want         int
		}{
			{http.MethodPut, "/tasks", nil, http.StatusMethodNotAllowed},
			{http.MethodDelete, "/", nil, http.StatusMethodNotAllowed},
			{http.MethodPost, "/nowhere", nil, http.StatusNotFound},
			{http.MethodGet, "/assets/none.css", nil, http.StatusNotFound},
			{http.MethodPost, "/tasks/default/a/retry", nil, http.StatusForbidden},
			{http.MethodGet, "/tasks", []string{"X-Large", large}, http.StatusRequestHeaderFieldsTooLarge},
			{http.MethodGet, "/tasks?owner=" + large, nil, http.StatusRequestHeaderFieldsTooLarge},
			{http.MethodGet, "/tasks", []string{"Dts-Caller", large[:1000]}, http.StatusBadRequest},
			{http.MethodGet, "/tasks", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		} {
			got := w.send(c.method, c.path, nil, c.headers...)
			if kind := got.header.Get("Content-Type"); got.status != c.want || !strings.HasPrefix(kind, "text/html") ||
				!strings.Contains(got.text, `href="/">Overview</a>`) {
				t.Errorf("%s %.40s: %d, %s, want %d: %.300s", c.method, c.path, got.status, kind, c.want, got.text)
			}
		}
	})
}

// HEAD says of each page what GET would.
func TestPages_AnswerHead(t *testing.T) {
	inWorld(t, func(w *world) {
		w.busy()
		w.pass(time.Second)
		for path, example := range Examples() {
			get, head := w.get(example), w.send(http.MethodHead, example, nil)
			if kind := head.header.Get("Content-Type"); head.status != get.status || head.text != "" ||
				kind != get.header.Get("Content-Type") {
				t.Errorf("%s: HEAD answers %d, %s, %d bytes; GET %d", path, head.status, kind, len(head.text), get.status)
			}
		}
		stream := w.send(http.MethodHead, "/tasks", nil, "Accept", "text/event-stream")
		if stream.status != http.StatusOK || stream.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("a stream: %d, %v", stream.status, stream.header)
		}
	})
}

// A form is refused for its age or its size, and the page says which.
func TestForm_SaysThatItIsTooOldOrTooLarge(t *testing.T) {
	inWorld(t, func(w *world) {
		w.submit("a", nil)
		form := w.form("/submit")
		form.Set("token", strings.Repeat("A", 26))
		answer := w.send(http.MethodPost, "/queues/none/resume", form)
		if !strings.Contains(answer.text, "</svg>The form is too old</h1>") || strings.Contains(answer.text, "token:") {
			t.Errorf("an old form: %s", answer.text)
		}
		form.Set("note", strings.Repeat("x", 5<<20))
		answer = w.send(http.MethodPost, "/queues/default/pause", form)
		if !strings.Contains(answer.text, "is larger than") ||
			!strings.Contains(answer.text, "Go back in your browser") {
			t.Errorf("a large form: %s", answer.text)
		}
		w.expect("/nowhere", "There is no such page.")
	})
}
