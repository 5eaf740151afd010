package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// UsageError is the error for a command line that makes no sense, or names a file that cannot be read.
type UsageError struct{ text string }

func (u *UsageError) Error() string { return u.text }

// Usagef returns a *UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// ErrReported is the error for a failure that the command has already told the user.
var ErrReported = errors.New("did not succeed")

// ExitError ends dtsctl with a code. Whatever there is to say has been said.
type ExitError struct{ Code int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// ForEach calls do for each id. A refusal of one is told and does not hold back the others; any other error does. The
// error is ErrReported if any was refused. It goes on when nobody reads the results any more.
func ForEach(p *printer.Printer, ids []string, do func(id string) error) error {
	p.Persist = true
	var reported error
	for _, id := range ids {
		err := do(id)
		refusal := rest.RefusalIn(err)
		switch {
		case err == nil:
			continue
		case refusal == nil:
			return err
		case len(ids) == 1:
			p.Errorf("%v", refusal)
		default:
			p.Errorf("%s: %v", id, refusal)
		}
		reported = ErrReported
	}
	return reported
}

// UnlessInterrupted returns err, or nil where a command that runs until it is interrupted was interrupted.
func UnlessInterrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
