package taskview

import (
	"bytes"
	"errors"
	"testing"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/printer"
)

func TestStatusLine_SaysOnceThatTheAPIIsSilent(t *testing.T) {
	t.Parallel()
	var told bytes.Buffer
	line := statusLine{StatusLine: printer.StatusLine{Printer: printer.New(printer.Options{Err: &told})}, id: "a"}
	silent := func(reads int) string {
		told.Reset()
		for range reads {
			line.silent(errors.New("refused"))
		}
		return told.String()
	}
	const text = "waiting for a: the API does not answer, trying again (refused)\n"
	if got := silent(silencesBorne - 1); got != "" {
		t.Errorf("at first: %q", got)
	}
	if got := silent(10); got != text {
		t.Errorf("after some reads: %q", got)
	}
	line.show(rest.Sight{State: wire.StateQueued})
	if got := silent(silencesBorne); got != text {
		t.Errorf("when it is silent again: %q", got)
	}
}
