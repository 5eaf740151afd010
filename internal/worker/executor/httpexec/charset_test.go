package httpexec

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dts-sched/dts/internal/task"
)

func TestTextOf_ReadsTheCharsetOfTheAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ contentType, body, want string }{
		{"text/plain; charset=iso-8859-1", "Gr\xfc\xdfe \x80\xbf", "Grüße €¿"},
		{"text/plain; charset=US-ASCII", "plain", "plain"},
		{"text/plain; charset=windows-1252", "\x93a\x94 \x9f\xa0\xff", "“a” Ÿ\u00a0ÿ"},
		{"text/plain; charset=ISO-8859-15", "\xa4 \xa6\xa8\xb4\xb8\xbc\xbd\xbe \xbf", "€ ŠšŽžŒœŸ ¿"},
		{"application/json; charset=utf-16", "{\x00\xac\x20}\x00", "{€}"},
		{"text/plain; charset=utf-16le", "\xff\xfeA\x00", "A"},
		{"text/plain; charset=utf-16", "\xfe\xff\x00A", "A"}, // the mark says the order
		{"text/plain; charset=utf-16be", "\xd8\x3d\xde\x00\x00", "😀\ufffd"},
		{"text/plain; charset=utf-16be", "\xd8\x3d", "\ufffd"},
		{"text/plain; charset=utf-8", "Grüße", "Grüße"},
		{"text/plain; charset=iso8859-2", "\xa3\xf3d\xbc", "Łódź"},
		{"text/plain; charset=latin5", "\xdeeker", "Şeker"},
		{"text/plain; charset=CP1251", "\xcf\xf0\xe8", "При"},
		{"text/plain; charset=koi8-r", "\xf0\xd2\xc9", "При"},
		{"text/plain; charset=shift_jis", "\x82\xa0", "\x82\xa0"},
		{"text/plain", "Gr\xfc", "Gr\xfc"},
		{"", "a", "a"},
	} {
		header := http.Header{"Content-Type": {c.contentType}}
		if got := textOf(header, []byte(c.body)); got != c.want {
			t.Errorf("%s: %q is read as %q, want %q", c.contentType, c.body, got, c.want)
		}
	}
}

func TestBytesOf_AreEnoughForText(t *testing.T) {
	t.Parallel()
	body := make([]byte, 512)
	for i := range body {
		body[i] = byte(i)
	}
	for name := range charsets {
		header := http.Header{"Content-Type": {"text/plain; charset=" + name}}
		text := textOf(header, body)
		if !utf8.ValidString(text) || bytesOf(header, int64(len(text))) < int64(len(body)) {
			t.Errorf("%s: %d bytes of text for %d bytes: %q", name, len(text), len(body), text)
		}
	}
}

func TestExecutor_ReadsAnswersInTheirCharset(t *testing.T) {
	t.Parallel()
	url := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/wide":
			w.Header().Set("Content-Type", "text/plain; charset=utf-16le")
			_, _ = w.Write([]byte(strings.Repeat("a\x00", task.ResultLimit+1)))
			return
		case "/bad":
			w.Header().Set("Content-Type", "text/plain; charset=iso-8859-1")
			w.WriteHeader(http.StatusBadRequest)
		default:
			w.Header().Set("Content-Type", "text/plain; charset=iso-8859-1")
		}
		_, _ = w.Write([]byte("Gr\xfc\xdfe"))
	})
	e := newExecutor(t)
	if got, err := execute(t, e, object{"url": url, "expect": object{"contains": "Grüße"}}); err != nil || got != "Grüße" {
		t.Errorf("the result is %q, %v", got, err)
	}
	if _, err := execute(t, e, object{"url": url + "/bad"}); err == nil || !strings.Contains(err.Error(), "Grüße") {
		t.Errorf("the error is %v", err)
	}
	got, err := execute(t, e, object{"url": url + "/wide"})
	if err != nil || len(got) != task.ResultLimit || !strings.HasSuffix(got, "a"+task.CutMark) {
		t.Errorf("%d bytes of a long answer, %v", len(got), err)
	}
}
