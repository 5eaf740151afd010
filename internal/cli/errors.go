package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

// The exit codes, as `dtsctl help exit-codes` explains them.
const (
	exitOK          = 0
	exitNo          = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitInterrupted = 130 // 128 + SIGINT, as shells have it
)

// refusal is a "no" of the server.
type refusal struct{ client.Problem }

func (r *refusal) Error() string {
	detail := r.Detail
	if r.Field != nil && !strings.HasPrefix(detail, *r.Field+":") {
		detail = *r.Field + ": " + detail
	}
	text := fmt.Sprintf("%s (%s)", detail, r.Code)
	if r.Code == client.Internal {
		text += ", request id " + r.RequestID
	}
	return text
}

// usage is a command line that makes no sense, or names a file that cannot be read.
type usage struct{ text string }

func (u *usage) Error() string { return u.text }

func usagef(format string, args ...any) error { return &usage{fmt.Sprintf(format, args...)} }

// unreachable is that no answer came, or none that DTS would give.
type unreachable struct{ err error }

func (u *unreachable) Error() string {
	var request *url.Error
	switch {
	case os.IsTimeout(u.err), errors.Is(u.err, errSilent):
		return "no answer in time"
	case errors.As(u.err, &request):
		return request.Err.Error()
	}
	return u.err.Error()
}

func (u *unreachable) Unwrap() error { return u.err }

// failed is a "no" that the command has told already.
var errFailed = errors.New("did not succeed")

// explain says what went wrong and returns the exit code that fits.
func (s *session) explain(ctx context.Context, cmd *cobra.Command, err error) int {
	var (
		misuse *usage
		far    *unreachable
	)
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.Is(err, errFailed):
		return exitNo
	case errors.As(err, &misuse), !s.running:
		s.say("%v", err)
		s.tell("Run '%s --help' for what it takes.", cmd.CommandPath())
		return exitUsage
	case errors.As(err, &far):
		s.say("cannot reach %s: %v", s.serverURL(), far)
		s.tell("Is dtsd running there? Point elsewhere with --server or DTSCTL_SERVER.")
		return exitUnreachable
	}
	s.say("%v", err)
	return exitNo
}

// say tells the user something in dtsctl's name.
func (s *session) say(format string, args ...any) { s.tell("dtsctl: "+format, args...) }

// tell writes a line to the user. Nothing can be done where even that fails.
func (s *session) tell(format string, args ...any) {
	_, _ = fmt.Fprintln(s.Err, scrub(fmt.Sprintf(format, args...)))
}
