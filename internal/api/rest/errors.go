package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
)

// Refusal is a "no" of the server.
type Refusal struct{ wire.Problem }

func (r *Refusal) Error() string {
	detail := r.Detail
	if r.Field != nil && !strings.HasPrefix(detail, *r.Field+":") {
		detail = *r.Field + ": " + detail
	}
	if len(r.Errors) > 0 {
		details := make([]string, len(r.Errors))
		for i, one := range r.Errors {
			details[i] = one.Detail
		}
		detail = strings.Join(details, "; ")
	}
	text := fmt.Sprintf("%s (%s)", detail, r.Code)
	if r.Code == wire.Internal {
		text += ", request id " + r.RequestID
	}
	return text
}

// Invalid returns which fields the server finds invalid, or what else it refuses, without a field.
func (r *Refusal) Invalid() []wire.InvalidField {
	if len(r.Errors) > 0 {
		return r.Errors
	}
	return []wire.InvalidField{{Field: r.Field, Detail: r.Detail}}
}

// RefusalIn returns the refusal in err, nil if err is another error or nil.
func RefusalIn(err error) *Refusal {
	var refusal *Refusal
	errors.As(err, &refusal)
	return refusal
}

// IsRefusal reports whether err is a refusal.
func IsRefusal(err error) bool { return RefusalIn(err) != nil }

// IsFinal reports whether err is a refusal that repeating the request does not change.
func IsFinal(err error) bool {
	refusal := RefusalIn(err)
	if refusal == nil {
		return false
	}
	return refusal.Code == wire.DataUnreadable ||
		refusal.Status < http.StatusInternalServerError && refusal.Status != http.StatusTooManyRequests
}

// Unreachable is the error where no answer came, or one that DTS would not give.
type Unreachable struct{ err error }

// Error says, too, that a change may have been made, if the request was one to change something and may have arrived.
func (u *Unreachable) Error() string {
	var request *url.Error
	asked := errors.As(u.err, &request)
	silent := os.IsTimeout(u.err) || errors.Is(u.err, errSilent)
	text := u.err.Error()
	switch {
	case silent:
		text = "no answer in time"
	case asked:
		text = request.Err.Error()
	}
	if asked && request.Op != "Get" && (silent || isCut(request.Err)) && !isDial(request.Err) {
		text += "; a change may have been made nevertheless"
	}
	return text
}

// isCut reports whether a connection broke while its client waited for the answer.
func isCut(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op) && op.Op == "read"
}

// isDial reports whether there was no connection.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func (u *Unreachable) Unwrap() error { return u.err }

// Misunderstood wraps the error of reading an answer that has another shape than the API's.
func Misunderstood(err error) error {
	return fmt.Errorf("cannot read the server's answer: %w", err)
}

// refusalOf returns the error that an answer with a status of 400 or more stands for.
func refusalOf(body []byte, status string) error {
	var p wire.Problem
	if err := json.Unmarshal(body, &p); err != nil || p.Code == "" {
		return foreign(status)
	}
	return &Refusal{p}
}

// noAnswer returns the error for a request whose answer the client could not read, or did not get.
func noAnswer(err error) error {
	var transport *url.Error
	if errors.As(err, &transport) {
		return &Unreachable{err}
	}
	return &Unreachable{fmt.Errorf("it answered, but not as DTS does: %w", err)}
}

// foreign returns the error for an answer that DTS would not give: something else answers at the address, or on the
// way to it.
func foreign(status string) error {
	return &Unreachable{fmt.Errorf("it answered %q, but not as DTS does", status)}
}
