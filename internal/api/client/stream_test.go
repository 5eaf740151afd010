package client

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStream_SplitsIntoMessages(t *testing.T) {
	const body = ": open\n\n" +
		"event: log\nid: 1-0\ndata: {\"a\":1}\n\n" +
		": alive\n\n" +
		"event: forgotten\n\n" +
		"data:two\r\ndata: lines\r\n\r\n" +
		"event: end\ndata: {}\n\n" +
		"event: cut"
	s := NewStream(strings.NewReader(body))
	var got []Message
	for {
		m, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m)
	}
	want := []Message{
		{Name: "log", ID: "1-0", Data: []byte(`{"a":1}`)},
		{Name: "message", ID: "1-0", Data: []byte("two\nlines")},
		{Name: "end", ID: "1-0", Data: []byte("{}")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestStream_ReportsABrokenConnection(t *testing.T) {
	broken := errors.New("connection reset")
	s := NewStream(io.MultiReader(strings.NewReader("event: log\n"), failing{broken}))
	if _, err := s.Next(); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	s = NewStream(strings.NewReader("data: " + strings.Repeat("x", messageLimit) + "\n\n"))
	if _, err := s.Next(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a line over the limit: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
