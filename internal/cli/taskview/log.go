package taskview

import (
	"encoding/json"
	"errors"
	"fmt"
	"syscall"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// LogLines prints lines of logs, as LogLine does.
func LogLines(p *printer.Printer, lines []json.RawMessage) error {
	for _, raw := range lines {
		if err := LogLine(p, raw); err != nil {
			return err
		}
	}
	return nil
}

// LogLine prints a line of a log: as JSON or YAML, or else its text. What the task wrote to standard output goes there,
// everything else to standard error. In front of a line that names its task are the task and the attempt.
func LogLine(p *printer.Printer, raw json.RawMessage) error {
	return p.ShowLine(raw, func() error {
		var line wire.ScheduleLogLine // a line of one task has no name of a task, and is the same otherwise
		if err := json.Unmarshal(raw, &line); err != nil {
			return rest.Misunderstood(err)
		}
		front := ""
		if line.Task != "" {
			front = fmt.Sprintf("%s %d: ", line.Task, line.Attempt)
		}
		return printText(p, front, line.Stream, line.Text)
	})
}

// printText prints the text of a line behind something in front of it. A pipe gets the text as it was written. A
// terminal gets no colours and nothing else that it would obey.
func printText(p *printer.Printer, front, stream, text string) error {
	switch stream {
	case "stdout":
		if p.OutIsTerminal {
			text = printer.Harmless(text)
		}
		return p.Printf("%s\n", front+text)
	case "stderr":
	default:
		text = stream + ": " + text
	}
	if p.ErrIsTerminal {
		text = printer.Harmless(text)
	}
	_, err := fmt.Fprintln(p.Err, front+text)
	switch {
	case errors.Is(err, syscall.EPIPE): // as behind "2>&1 | head -1"
		return printer.ErrUnread
	case err != nil:
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}
