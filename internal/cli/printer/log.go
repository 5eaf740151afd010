package printer

import "fmt"

// LogLine prints a line of a log where the task wrote it, with something in front that says of which task it is. What
// DTS itself wrote goes to standard error. A pipe gets the line as it was written; a terminal gets no colours and
// nothing else that it would obey.
func (p *Printer) LogLine(front, stream, text string) error {
	to, terminal := p.Err, p.ErrIsTerminal
	switch stream {
	case "stdout":
		to, terminal = p.Out, p.OutIsTerminal
	case "stderr":
	default:
		text = stream + ": " + text
	}
	if terminal {
		text = Harmless(text)
	}
	if _, err := fmt.Fprintln(to, front+text); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}
