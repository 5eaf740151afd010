// Package client speaks DTS's REST API. All but this file is made from the document by oapi-codegen, models
// included, so that a client does not link the server.
//
// The streams of the API (events, followed logs) are server-sent events, which the generated code hands over
// as the raw body of an answer; Stream reads them.
package client

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// messageLimit is the longest line of a stream that is read, in bytes: more than any event of DTS needs.
const messageLimit = 1 << 20

// Message is one server-sent event: of /v1/events, Name is the event's type and Data an Event, or "dropped"
// and a Dropped, which is the last one if this client read too slowly; of followed logs, "log" and a LogLine, or
// "end" and a Task. A stream that something went wrong with ends with "problem" and a Problem.
type Message struct {
	Name string
	ID   string // the newest id of the stream: where to take a lost stream up again
	Data []byte // JSON
}

// Stream takes server-sent events off the body of an answer.
type Stream struct {
	lines *bufio.Scanner
	id    string
}

// NewStream reads from body, which stays the caller's to close.
func NewStream(body io.Reader) *Stream {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, messageLimit)
	return &Stream{lines: lines}
}

// Next waits for the next message; comments, such as heartbeats, are passed over. It returns io.EOF where
// the server ended the stream, and any other error where the connection broke.
func (s *Stream) Next() (Message, error) {
	m := Message{Name: "message"}
	seen := false
	for s.lines.Scan() {
		line := s.lines.Bytes()
		if len(line) == 0 {
			if seen {
				m.ID = s.id
				return m, nil
			}
			m = Message{Name: "message"}
			continue
		}
		seen = s.take(line, &m) || seen
	}
	if err := s.lines.Err(); err != nil {
		return Message{}, fmt.Errorf("reading the stream: %w", err)
	}
	return Message{}, io.EOF
}

// take adds one line to the message, and says whether it was data.
func (s *Stream) take(line []byte, m *Message) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		m.Name = string(value)
	case "id":
		s.id = string(value)
	case "data":
		if m.Data != nil {
			m.Data = append(m.Data, '\n')
		}
		m.Data = append(m.Data, value...)
		return true
	}
	return false
}
