package flags

import (
	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
)

// LogPageLimit is the most lines of a log that the server puts into one page.
const LogPageLimit = 1000

// LogLines are the flags that leave lines of a log out.
type LogLines struct {
	Attempt *string // a number, or "last"
	Text    *string

	stream *string
}

// Bind adds the flags to a command.
func (l *LogLines) Bind(cmd *cobra.Command) {
	f := cmd.Flags()
	String(f, &l.Attempt, "attempt", "only lines of the attempt with this number, or of the last one")
	String(f, &l.stream, "stream", "only lines of this stream: stdout, stderr or dts")
	String(f, &l.Text, "grep", "only lines that contain this text, in upper or lower case")
	command.Complete(cmd, "stream", "stdout", "stderr", "dts")
}

// Stream is the stream that is asked for; nil for all.
func (l *LogLines) Stream() *wire.LogStreamName { return (*wire.LogStreamName)(l.stream) }
